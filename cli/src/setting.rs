//! Which run and which settings: the flags that replaying verbs share, and what they add up to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result, bail};
use clap::ValueEnum;
use replay::driver::Follow;
use replay::edit::{Edit, Summary};
use replay::import::RunLimits;
use replay::report::Report;
use replay::run::{Addresses, DeviceTape, Options as Setting};
use replay::start::{Departure, Effects, Start, cold};
use replay::strategy::Choice;
use replay::strategy::table::stitch_settings;
use replay::tape::{Device, Tape};
use replay::verify::{RecordedRun, recorded_config};
use settings::{Compat, Config, parse_bytes_with_unit};
use trace_format::StringId;

use crate::input::TrustFlag;
use crate::progress::Spinner;
use crate::start::Started;
use crate::strategy::StrategyFlag;
use crate::{caller, input};

/// The run, and the machine it is replayed on.
#[derive(clap::Args)]
pub(crate) struct RunFlags {
    /// A tape, a snapshot or a log
    #[arg(value_name = "RUN")]
    run: PathBuf,
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
}

/// The machine that runs are replayed on, and which of a run's inputs count.
#[derive(clap::Args)]
pub(crate) struct MachineFlags {
    /// Memory of the simulated device, such as 24GiB, 24GB or 80G (all binary), or `unlimited` [default: as recorded,
    /// if that is known]
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<String>,
    /// Which device of the run, if it has several
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// JSON with values that a snapshot does not hold: torch, device_total_bytes, fraction
    #[arg(long, value_name = "META.json")]
    meta: Option<PathBuf>,
    /// Leave out the emptied caches that an import only inferred
    #[arg(long)]
    no_empty_cache: bool,
    /// For a run that starts in the middle, request its live blocks anew from an empty device instead of taking over
    /// its segments: shows the gain of another setting
    #[arg(long)]
    pub(crate) cold: bool,
    /// PyTorch version whose behaviour to reproduce [default: as recorded, else 2.15]
    #[arg(long, value_name = "VERSION")]
    compat: Option<CompatFlag>,
    /// Change the program's requests, such as scale:0.5 (`vramtape help edit` lists all edits); may be given several
    /// times
    #[arg(long, value_name = "EDIT")]
    pub(crate) edit: Vec<Edit>,
    #[command(flatten)]
    trust: TrustFlag,
}

/// A PyTorch whose behaviour is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompatFlag {
    #[value(name = "2.11")]
    V2_11,
    #[value(name = "2.15")]
    V2_15,
}

/// A device of a run that was read, and what was chosen for it.
#[derive(Clone)]
pub(crate) struct Chosen {
    tape: Arc<Tape>,
    device: usize,
    compat: Compat,
    /// Memory of the simulated device.
    pub(crate) capacity_bytes: Option<u64>,
    /// Whether that is the run's own.
    is_capacity_recorded: bool,
    /// Which inputs count.
    pub(crate) follow: Follow,
    /// Where the run starts in the middle: with what.
    started: Option<Started>,
    /// Where the run is edited: what it was, and what changed.
    before: Option<(Arc<Tape>, Summary)>,
}

impl RunFlags {
    /// Reads the run, of which one device has to be chosen.
    pub(crate) fn read(&self) -> Result<Chosen> {
        self.machine.read_one(&self.run)
    }

    /// The run's file.
    pub(crate) fn path(&self) -> &Path {
        &self.run
    }
}

impl MachineFlags {
    /// Reads a run, of which one device has to be chosen.
    pub(crate) fn read_one(&self, run: &Path) -> Result<Chosen> {
        let tape = input::read(run, &self.known()?)?;
        let mut devices = self.devices(run, tape)?;
        let ids: Vec<_> = devices.iter().map(|chosen| chosen.device().id.0).collect();
        match devices.pop() {
            Some(only) if devices.is_empty() => Ok(only),
            _ => bail!("the run has devices {ids:?}: choose one with --device N"),
        }
    }

    /// How many times the usual limits a file may reach.
    pub(crate) fn trust_factor(&self) -> u64 {
        self.trust.factor()
    }

    /// The devices of a run that was read: all of them, or the one that was asked for.
    pub(crate) fn devices(&self, run: &Path, tape: Tape) -> Result<Vec<Chosen>> {
        let ids: Vec<_> = tape.devices.iter().map(|device| device.id.0).collect();
        if ids.is_empty() {
            bail!("{} holds no device: record it again", run.display());
        }
        let started: Vec<_> = tape.devices.iter().map(|device| Start::of(&device.base)).collect();
        let mut tape = Arc::new(if self.cold { cold_tape(tape) } else { tape });
        let mut before = None;
        if !self.edit.is_empty() {
            let editing = Spinner::start("editing");
            let (edited, summary) = replay::edit::edit(&tape, &self.edit).context("--edit")?;
            drop(editing);
            before = Some((std::mem::replace(&mut tape, Arc::new(edited)), summary));
        }
        let is_wanted = |id: &u16| self.device.is_none_or(|wanted| wanted == *id);
        let places = ids.iter().enumerate().filter(|(_, id)| is_wanted(id));
        let chosen: Vec<_> = places
            .map(|(at, _)| self.chosen(&tape, before.as_ref(), (at, started[at])))
            .collect::<Result<_>>()?;
        match self.device {
            Some(wanted) if chosen.is_empty() => {
                bail!("the run has no device {wanted}, only {ids:?}")
            }
            _ => Ok(chosen),
        }
    }

    /// Facts about the runs from outside their files.
    pub(crate) fn recorded(&self) -> Result<RecordedRun> {
        input::recorded(self.meta.as_deref())
    }

    /// The same for what reads them.
    pub(crate) fn known(&self) -> Result<RunLimits> {
        Ok(self.trust.with(&self.recorded()?.known()))
    }

    fn chosen(
        &self,
        tape: &Arc<Tape>,
        before: Option<&(Arc<Tape>, Summary)>,
        (device, start): (usize, Option<Start>),
    ) -> Result<Chosen> {
        let recorded = Chosen::as_recorded(tape, device);
        let compat = match self.compat {
            Some(CompatFlag::V2_11) => Compat::V2_11,
            Some(CompatFlag::V2_15) => Compat::V2_15,
            None => recorded.compat,
        };
        let capacity_bytes = match self.capacity.as_deref() {
            Some(_) => self.capacity()?,
            None => recorded.capacity_bytes,
        };
        let follow = Follow { inferred_empty_cache: !self.no_empty_cache, ..recorded.follow };
        Ok(Chosen {
            compat,
            capacity_bytes,
            is_capacity_recorded: self.capacity.is_none(),
            follow,
            started: start.map(|start| Started { start, cold: self.cold }),
            before: before.cloned(),
            ..recorded
        })
    }

    /// The capacity that was asked for; `None` where none was, or `unlimited`.
    pub(crate) fn capacity(&self) -> Result<Option<u64>> {
        let asked = self.capacity.as_deref().filter(|text| *text != "unlimited");
        let parse = |text| parse_bytes_with_unit(text).map_err(Error::msg).context("--capacity");
        asked.map(parse).transpose()
    }
}

/// The run with all that was live at its start requested anew.
fn cold_tape(mut tape: Tape) -> Tape {
    for device in tape.devices.iter_mut().filter(|device| Start::of(&device.base).is_some()) {
        (device.base, device.records) = cold(&device.base, &device.records);
    }
    tape
}

impl Chosen {
    /// A device of a run, by its place, on the machine that it was recorded on.
    pub(crate) fn as_recorded(tape: &Arc<Tape>, device: usize) -> Self {
        let Device { id, base, .. } = &tape.devices[device];
        let meta = tape.device_meta(*id);
        let trust_factor = tape.trust_factor;
        Self {
            tape: Arc::clone(tape),
            device,
            compat: tape.compat(),
            capacity_bytes: meta.and_then(|meta| meta.capacity_bytes.or(meta.total_bytes)),
            is_capacity_recorded: true,
            follow: Follow { trust_factor, ..Follow::default() },
            started: Start::of(base).map(|start| Started { start, cold: false }),
            before: None,
        }
    }

    /// Where the run starts in the middle: with what.
    pub(crate) fn started(&self) -> Option<Started> {
        self.started
    }

    /// Whether its start is requested anew.
    pub(crate) fn is_cold(&self) -> bool {
        self.started.is_some_and(|started| started.cold)
    }

    /// By how much a replay under the recorded settings differs from the recording. `None` where it does not, or where
    /// there is no recording to compare with: the start is requested anew, or the source knew no segments.
    pub(crate) fn departure(&self, replayed: &Report) -> Option<Departure> {
        let device = self.device();
        let has_recording = !self.is_cold() && self.before.is_none();
        let recorded =
            has_recording.then(|| Effects::recorded(&device.base, &device.records))??;
        Departure::of(recorded, replayed)
    }

    /// Whether the machine is the recorded one, and the requests are.
    pub(crate) fn is_as_recorded(&self) -> bool {
        self.is_capacity_recorded && !self.is_cold() && self.before.is_none()
    }

    /// Memory of the device, with what others hold of it: nothing where `--capacity` names another device.
    pub(crate) fn device_bytes(&self) -> Option<u64> {
        if !self.is_capacity_recorded {
            return self.capacity_bytes;
        }
        self.tape.device_meta(self.device().id)?.total_bytes
    }

    /// The text of the settings in force at the start.
    pub(crate) fn recorded_settings(&self) -> String {
        let config = recorded_config(&self.tape, self.device(), self.compat);
        config.map_or_else(|_| self.tape.meta.alloc_conf.clone(), |config| config.text)
    }

    /// The whole configuration that it was recorded with, if that was under `stitch`.
    pub(crate) fn recorded_stitch(&self) -> Result<Option<Config>> {
        let Choice::Native(config) = self.choice(None, None)? else { return Ok(None) };
        Ok(config.stitch.is_some().then_some(config))
    }

    /// The chosen device.
    pub(crate) fn device(&self) -> &Device {
        &self.tape.devices[self.device]
    }

    /// Where the run is edited: the same choice of the run as it was, and what changed.
    pub(crate) fn before_edits(&self) -> Option<(Self, Summary)> {
        let (tape, summary) = self.before.as_ref()?;
        Some((Self { tape: Arc::clone(tape), before: None, ..self.clone() }, *summary))
    }

    /// Facts that an import inferred because the file did not hold them.
    pub(crate) fn inferred(&self) -> &[String] {
        &self.tape.meta.inferred
    }

    /// The PyTorch version whose behaviour is reproduced.
    pub(crate) fn compat(&self) -> Compat {
        self.compat
    }

    /// The whole run.
    pub(crate) fn tape(&self) -> &Tape {
        &self.tape
    }

    /// Hands the chosen device to `replay`.
    pub(crate) fn with_device<T>(&self, replay: impl FnOnce(DeviceTape<'_>) -> T) -> T {
        let text = |id: StringId| self.tape.text(id);
        let device = self.device();
        replay(DeviceTape { base: &device.base, records: &device.records, text: &text })
    }

    /// One replay under what `--strategy` and `--config` say; without either, and on the recorded device, it is the
    /// recorded run again, address for address.
    pub(crate) fn setting(
        &self,
        strategy: Option<&StrategyFlag>,
        settings: Option<&str>,
    ) -> Result<Setting> {
        let is_as_recorded = strategy.is_none() && settings.is_none();
        Ok(Setting {
            strategy: self.choice(strategy, settings)?,
            capacity_bytes: self.capacity_bytes,
            memory_fraction: None,
            addresses: if is_as_recorded && self.is_as_recorded() {
                Addresses::Recorded
            } else {
                Addresses::Lowest
            },
            // Recorded changes would undo the settings in question.
            follow: Follow { is_as_recorded, ..self.follow },
        })
    }

    /// What `--strategy` and `--config` add up to; without either it is what the run was recorded with. The recorded
    /// settings stay where only `native` or `expandable` is asked for.
    pub(crate) fn choice(
        &self,
        strategy: Option<&StrategyFlag>,
        settings: Option<&str>,
    ) -> Result<Choice> {
        if let Some(model) = strategy.and_then(StrategyFlag::model) {
            if settings.is_some() {
                bail!(
                    "--config has PyTorch's settings; write those of a model behind its name: --strategy {}:KEY:VALUE",
                    model.name()
                );
            }
            return Ok(model);
        }
        let named = strategy.map(StrategyFlag::parts);
        let (text, flag) = match (named, settings) {
            (Some((name, Some(_))), Some(_)) => {
                bail!("settings are given twice: leave out --config, or what is behind `{name}:`")
            }
            (Some((name, given)), _) => (given.or(settings), Some(name)),
            (None, _) => (settings, None),
        };
        if let Some("stitch") = flag {
            return self.stitch(text.unwrap_or_default());
        }
        let config = self.parse(text.unwrap_or(&self.tape.meta.alloc_conf))?;
        let config = if text.is_some() {
            config
        } else {
            input::warn_of_plan(&self.tape);
            recorded_config(&self.tape, self.device(), self.compat)
                .map_err(|error| anyhow::anyhow!("{error}"))?
        };
        let stitch = config.stitch.filter(|_| flag.is_none());
        let plan = config.plan.clone().filter(|_| stitch.is_some());
        let config = Config { stitch, plan, ..config };
        let text = text.unwrap_or(&config.text);
        let switch = match flag {
            Some("native") if config.expandable_segments => "expandable_segments:False",
            Some("expandable") if !config.expandable_segments => "expandable_segments:True",
            _ => return Ok(config.into()),
        };
        let parts: Vec<_> = [text, switch].into_iter().filter(|part| !part.is_empty()).collect();
        Ok(self.parse(&parts.join(","))?.into())
    }

    /// `stitch` with its settings; PyTorch's are the recorded ones unless the text has any.
    fn stitch(&self, text: &str) -> Result<Choice> {
        let (base, rest) = stitch_settings(text)?;
        let config = if rest.is_empty() {
            recorded_config(&self.tape, self.device(), self.compat)
                .map_err(|error| anyhow::anyhow!("{error}"))?
        } else {
            self.parse(&rest)?
        };
        Ok(Config {
            stitch: base.stitch,
            plan: base.plan,
            expandable_segments: false,
            text: text.to_owned(),
            ..config
        }
        .into())
    }

    fn parse(&self, text: &str) -> Result<Config> {
        // PyTorch's parsers give an error of their own type, which has no cause to lose.
        let parsed =
            Config::parse(text, self.compat).map_err(|error| anyhow::anyhow!("{error}"))?;
        for warning in &parsed.warnings {
            caller::warn(&warning.to_string());
        }
        Ok(parsed.config)
    }
}
