//! `VRAMTAPE_CONF`: our own settings. A mistake is an error, never a guess.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use core::num::NonZero;

use super::entries::{Entries, Entry, place, refuse};
use super::error::{ConfigError, Result, Warning};
use super::keys::{OUR_KEYS, nearest};
use super::stacks::Written;
use super::{Compat, StackMode, StackSettings, StitchConfig, TapePath, parse_bytes};

/// Records that a ring holds unless `ring_events` says otherwise.
const DEFAULT_RING_EVENTS: u64 = 1 << 20;

/// The least that a tape may be limited to: two states of memory and some records in between.
const TAPE_MAX_LEAST_BYTES: u64 = 64 << 20;

/// The way into PyTorch that the Python package takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// The bridge, or the pluggable allocator where the bridge cannot be had.
    #[default]
    Auto,
    /// A C++ class of PyTorch's over our allocator.
    Bridge,
    /// PyTorch's pluggable allocator.
    Pluggable,
    /// PyTorch's own allocator, which is only recorded.
    Observe,
}

impl Route {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Bridge, Self::Pluggable, Self::Observe];

    /// Its name in settings and in Python.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Bridge => "bridge",
            Self::Pluggable => "pluggable",
            Self::Observe => "observe",
        }
    }
}

/// How requests become placements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// PyTorch's policy with every knob.
    #[default]
    Native,
    /// The same with `expandable_segments:True`.
    Expandable,
    /// Pages apart from addresses.
    Stitch,
}

impl Strategy {
    /// Its name in settings and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Expandable => "expandable",
            Self::Stitch => "stitch",
        }
    }
}

/// Where events go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordMode {
    /// Nowhere.
    Off,
    /// Into a ring in memory that keeps the last of them.
    #[default]
    Ring,
    /// Into a ring and from there into a file.
    File,
}

impl RecordMode {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Ring => "ring",
            Self::File => "file",
        }
    }
}

/// The marks that the Python package makes by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkMode {
    /// None.
    Off,
    /// Steps, phases, ranges, and the categories of blocks.
    #[default]
    Auto,
    /// The same, and the running module.
    Modules,
}

/// The device in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// A GPU, through the driver.
    #[default]
    Cuda,
    /// The simulated device.
    Sim,
}

/// `VRAMTAPE_CONF` after parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `route`; only the Python package reads it.
    pub route: Route,
    /// `strategy`.
    pub strategy: Strategy,
    /// `address_budget`, `placement_memory` and `stream_sharing` of `stitch`.
    pub stitch: StitchConfig,
    /// `plan`: the file of placements for `stitch`; none for `auto`, its placement memory alone.
    pub plan: Option<TapePath>,
    /// `compat`; none means the running PyTorch.
    pub compat: Option<Compat>,
    /// `record`; a `tape` alone means [`RecordMode::File`].
    pub record: RecordMode,
    /// `tape`.
    pub tape: TapePath,
    /// `tape_max`; none means that a tape grows for as long as it is written.
    pub tape_max_bytes: Option<u64>,
    /// `tape_replace`: whether a tape that exists is replaced, instead of taking a free name beside it.
    pub tape_replace: bool,
    /// `ring_events`: records that each device's ring holds.
    pub ring_events: u64,
    /// `stacks`, `stacks_every` and `stacks_native`.
    pub stacks: StackSettings,
    /// `marks`.
    pub marks: MarkMode,
    /// `command`: whether a tape has the command line of its program.
    pub command: bool,
    /// `device`.
    pub device: DeviceKind,
    /// `oom_dir`: the tape of the first out of memory; the snapshot and the page lie beside it.
    pub oom_dir: Option<TapePath>,
    /// `search_after_flush`; none means on when live, off where PyTorch's behaviour is reproduced.
    pub search_after_flush: Option<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            route: Route::default(),
            strategy: Strategy::default(),
            stitch: StitchConfig::default(),
            plan: None,
            compat: None,
            record: RecordMode::default(),
            tape: TapePath::default(),
            tape_max_bytes: None,
            tape_replace: false,
            ring_events: DEFAULT_RING_EVENTS,
            stacks: StackSettings::default(),
            marks: MarkMode::default(),
            command: true,
            device: DeviceKind::default(),
            oom_dir: None,
            search_after_flush: None,
        }
    }
}

impl Settings {
    /// Reads `VRAMTAPE_CONF`.
    ///
    /// # Errors
    /// The first key or value that is not understood, with its place and what to write instead.
    pub fn parse(text: &str) -> Result<(Self, Vec<Warning>)> {
        let mut settings = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        let mut record = None;
        let mut tape = None;
        let mut stacks = Written::default();
        let mut stitch = None;
        let mut plan_at = None;
        for entry in Entries::new(text) {
            let Entry { key, key_at, value, value_at } = entry?;
            let Some(key) = OUR_KEYS.into_iter().find(|known| *known == key) else {
                return Err(unknown_key(text, &key, key_at));
            };
            if seen.contains(&key) {
                let message = format!("{key} is given twice");
                return Err(refuse(text, key_at, message, "keep one of them".to_owned()));
            }
            seen.push(key);
            let value = Value { text, key, written: &value, at: value_at };
            match key {
                "route" => {
                    settings.route =
                        value.one_of(&Route::ALL.map(|route| (route.name(), route)))?;
                }
                "strategy" => settings.strategy = value.strategy()?,
                _ if StitchConfig::has_key(key) => {
                    let set = settings.stitch.set(key, value.written);
                    set.map_err(|values| {
                        let message = format!("`{}` is no value of {key}", value.written);
                        value.refuse(message, format!("write {key}: and {values}"))
                    })?;
                    stitch = stitch.or(Some((key, key_at)));
                }
                "plan" => {
                    settings.plan = value.plan()?;
                    plan_at = Some(key_at);
                }
                "compat" => {
                    settings.compat =
                        Some(value.one_of(&[("2.11", Compat::V2_11), ("2.15", Compat::V2_15)])?);
                }
                "record" => record = Some((value.record()?, key_at)),
                "tape" => tape = Some((value.tape()?, key_at)),
                "tape_max" => settings.tape_max_bytes = Some(value.tape_max()?),
                "tape_replace" => settings.tape_replace = value.boolean()?,
                "ring_events" => settings.ring_events = value.ring_events()?,
                "stacks" => stacks.mode = Some(value.stacks()?),
                "stacks_every" => stacks.every = Some((value.stacks_every()?, key_at)),
                "stacks_native" => stacks.native = Some((value.boolean()?, key_at)),
                "marks" => {
                    settings.marks = value.one_of(&[
                        ("auto", MarkMode::Auto),
                        ("modules", MarkMode::Modules),
                        ("off", MarkMode::Off),
                    ])?;
                }
                "command" => settings.command = value.one_of(&[("on", true), ("off", false)])?,
                "device" => {
                    settings.device =
                        value.one_of(&[("cuda", DeviceKind::Cuda), ("sim", DeviceKind::Sim)])?;
                }
                "oom_dir" => settings.oom_dir = Some(value.oom_dir()?),
                _ => {
                    settings.search_after_flush = Some(value.boolean()?);
                }
            }
        }
        let mut warnings = Vec::new();
        if let Some((path, at)) = tape {
            settings.tape = path;
            settings.record = RecordMode::File;
            if let Some((mode, _)) = record
                && mode != RecordMode::File
            {
                let message = "tape has no effect without record:file".to_owned();
                warnings.push(Warning { message, place: place(text, at) });
            }
        }
        if let Some((mode, _)) = record {
            settings.record = mode;
        }
        if let Some(at) = plan_at.filter(|_| !settings.stitch.has_placement_memory) {
            let message = "plan has no effect with placement_memory:False".to_owned();
            warnings.push(Warning { message, place: place(text, at) });
        }
        stitch = stitch.or(plan_at.map(|at| ("plan", at)));
        if let Some((key, at)) = stitch.filter(|_| settings.strategy != Strategy::Stitch) {
            let message = format!("{key} has no effect without strategy:stitch");
            warnings.push(Warning { message, place: place(text, at) });
        }
        let (settled, in_vain) = stacks.settle();
        settings.stacks = settled;
        for (key, at) in in_vain {
            let message = format!("{key} has no effect with stacks:none");
            warnings.push(Warning { message, place: place(text, at) });
        }
        Ok((settings, warnings))
    }
}

/// A value and where it stands.
struct Value<'a> {
    text: &'a str,
    key: &'static str,
    written: &'a str,
    at: usize,
}

impl Value<'_> {
    fn strategy(&self) -> Result<Strategy> {
        if self.written == "plan" {
            let message = "plan is no strategy of its own".to_owned();
            return Err(self.refuse(message, "write strategy:stitch,plan:FILE".to_owned()));
        }
        let strategies = [Strategy::Native, Strategy::Expandable, Strategy::Stitch];
        self.one_of(&strategies.map(|strategy| (strategy.name(), strategy)))
    }

    fn record(&self) -> Result<RecordMode> {
        let modes = [RecordMode::Off, RecordMode::Ring, RecordMode::File];
        self.one_of(&modes.map(|mode| (mode.name(), mode)))
    }

    fn stacks(&self) -> Result<StackMode> {
        let modes =
            [("none", StackMode::None), ("alloc", StackMode::Alloc), ("all", StackMode::All)];
        self.one_of(&modes)
    }

    fn boolean(&self) -> Result<bool> {
        self.one_of(&[("True", true), ("False", false)])
    }

    fn stacks_every(&self) -> Result<NonZero<u64>> {
        let bytes = parse_bytes(self.written).and_then(|bytes| {
            NonZero::new(bytes).ok_or_else(|| "stacks_every cannot be 0".to_owned())
        });
        let advice = "write, for example, stacks_every:1MiB; without the key every call counts";
        bytes.map_err(|message| self.refuse(message, advice.to_owned()))
    }

    fn tape(&self) -> Result<TapePath> {
        TapePath::parse(self.written).map_err(|(message, advice)| self.refuse(message, advice))
    }

    /// `None` for `auto`.
    fn plan(&self) -> Result<Option<TapePath>> {
        if self.written == "auto" {
            return Ok(None);
        }
        let path = TapePath::of_plan(self.written);
        path.map(Some).map_err(|(message, advice)| self.refuse(message, advice))
    }

    fn oom_dir(&self) -> Result<TapePath> {
        TapePath::of_oom(self.written).map_err(|(message, advice)| self.refuse(message, advice))
    }

    fn tape_max(&self) -> Result<u64> {
        let advice = "write a size of at least 64MiB, for example tape_max:2GiB".to_owned();
        match parse_bytes(self.written) {
            Ok(bytes) if bytes >= TAPE_MAX_LEAST_BYTES => Ok(bytes),
            Ok(_) => {
                let message = format!("tape_max cannot be as little as {}", self.written);
                Err(self.refuse(message, advice))
            }
            Err(message) => Err(self.refuse(message, advice)),
        }
    }

    fn ring_events(&self) -> Result<u64> {
        let digits_only = self.written.bytes().all(|byte| byte.is_ascii_digit());
        match self.written.parse() {
            Ok(events) if digits_only && (1..=u64::from(u32::MAX)).contains(&events) => Ok(events),
            _ => {
                let message =
                    format!("ring_events has to be a number of events, not {:?}", self.written);
                let advice =
                    format!("write 1 to {}; {DEFAULT_RING_EVENTS} is the default", u32::MAX);
                Err(self.refuse(message, advice))
            }
        }
    }

    fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T> {
        choices
            .iter()
            .find(|(name, _)| *name == self.written)
            .map(|(_, choice)| *choice)
            .ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                let message = format!("{} cannot be {:?}", self.key, self.written);
                self.refuse(message, format!("write one of: {}", names.join(", ")))
            })
    }

    fn refuse(&self, message: String, advice: String) -> ConfigError {
        refuse(self.text, self.at, message, advice)
    }
}

fn unknown_key(text: &str, key: &str, at: usize) -> ConfigError {
    if key == "metrics" {
        let message = "metrics are served by a process of their own".to_owned();
        let advice = "remove metrics, and run `vramtape exporter`; it replaces the file, too: --textfile PATH.prom";
        return refuse(text, at, message, advice.to_owned());
    }
    let advice = match nearest(key, OUR_KEYS.into_iter()) {
        Some(near) => format!("did you mean {near}?"),
        None if super::keys::is_pytorchs(key) => {
            format!("{key} is a setting of PyTorch: put it into PYTORCH_CUDA_ALLOC_CONF")
        }
        None => format!("the keys are {}", OUR_KEYS.join(", ")),
    };
    refuse(text, at, format!("unknown key {key:?}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Settings::parse(text).map(|(settings, _)| settings).unwrap()
    }

    #[test]
    fn every_key_is_read() {
        let text = "strategy:expandable, compat:2.11,record:file,tape:\"/t/{rank},{pid}.vtape\",\
                    ring_events:4096,stacks:all,device:sim,search_after_flush:False,\
                    tape_max:2GiB,tape_replace:True,marks:off,command:off,route:pluggable";
        let read = settings(text);
        assert_eq!((read.route, read.strategy), (Route::Pluggable, Strategy::Expandable));
        assert_eq!(read.compat, Some(Compat::V2_11));
        assert_eq!(read.record, RecordMode::File);
        assert_eq!(read.tape.expand(Some("0"), 7, 0).unwrap(), "/t/0,7.vtape");
        assert_eq!(read.ring_events, 4096);
        assert_eq!(read.stacks, StackSettings { mode: StackMode::All, ..StackSettings::default() });
        assert_eq!(read.device, DeviceKind::Sim);
        assert_eq!(read.search_after_flush, Some(false));
        assert_eq!(read.tape_max_bytes, Some(2 << 30));
        assert!(read.tape_replace && !Settings::default().tape_replace);
        assert_eq!((read.marks, Settings::default().marks), (MarkMode::Off, MarkMode::Auto));
        assert_eq!(settings("marks:modules").marks, MarkMode::Modules);
        assert!(!read.command && Settings::default().command);
    }

    #[test]
    fn the_default_is_a_ring_on_the_gpu_with_pytorchs_policy() {
        let read = settings("");
        assert_eq!(read, Settings::default());
        assert_eq!((read.strategy, read.record), (Strategy::Native, RecordMode::Ring));
        assert_eq!((read.compat, read.device), (None, DeviceKind::Cuda));
    }

    #[test]
    fn a_tape_alone_means_a_file() {
        assert_eq!(settings("tape:a.vtape").record, RecordMode::File);
        let (read, warnings) = Settings::parse("tape:a.vtape,record:off").unwrap();
        assert_eq!(read.record, RecordMode::Off);
        assert_eq!(warnings[0].message, "tape has no effect without record:file");
    }

    #[test]
    fn options_of_stacks_imply_stacks_at_allocations() {
        let read = settings("stacks_every:4KiB").stacks;
        assert_eq!((read.mode, read.every_bytes), (StackMode::Alloc, NonZero::new(4096)));
        let read = settings("stacks_every:1,stacks:all").stacks;
        assert_eq!((read.mode, read.every_bytes), (StackMode::All, NonZero::new(1)));
        let read = settings("stacks_native:True").stacks;
        assert_eq!((read.mode, read.is_native), (StackMode::Alloc, true));
        assert_eq!(settings("stacks_native:False").stacks, StackSettings::default());
        let (read, warnings) =
            Settings::parse("stacks:none,stacks_every:1,stacks_native:True").unwrap();
        assert_eq!(read.stacks, StackSettings::default());
        assert_eq!(warnings[0].message, "stacks_every has no effect with stacks:none");
        assert_eq!(warnings[1].message, "stacks_native has no effect with stacks:none");
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_the_way_out() {
        for (text, wrong, at, advice) in [
            ("route:bridges", "route cannot be \"bridges\"", 7, "auto, bridge, pluggable, observe"),
            ("strategy:plan", "plan is no strategy of its own", 10, "strategy:stitch,plan:FILE"),
            ("plan:{pid}.vplan", "no placeholder of a plan's path", 6, "write {rank}"),
            ("address_budget:1", "`1` is no value of address_budget", 16, "from 2 to 64"),
            ("stream_sharing:often", "no value of stream_sharing", 16, "never|idle|wait"),
            ("stacks:frees", "stacks cannot be \"frees\"", 8, "none, alloc, all"),
            ("stacks_every:64x", "`x` is not a unit", 14, "stacks_every:1MiB"),
            ("stacks_every:0", "cannot be 0", 14, "every call"),
            ("record:on", "record cannot be \"on\"", 8, "off, ring, file"),
            ("device:cuda,compat:2.12", "compat cannot be \"2.12\"", 20, "2.11, 2.15"),
            ("ring_events:0", "not \"0\"", 13, "1 to 4294967295"),
            ("ring_events:+5", "not \"+5\"", 13, "1 to"),
            ("ring_events:99999999999999999999", "has to be a number", 13, "1 to"),
            ("Strategy:native", "unknown key \"Strategy\"", 1, "did you mean strategy?"),
            ("max_split_size_mb:64", "unknown key", 1, "PYTORCH_CUDA_ALLOC_CONF"),
            ("oom_dir:", "oom_dir has no path", 9, "oom_dir:ooms"),
            ("oom_dir:{host}", "no placeholder", 9, "{rank}"),
            ("tape:{host}", "no placeholder", 6, "{rank}"),
            ("record:ring,record:off", "record is given twice", 13, "keep one"),
            ("tape_max:2GX", "`GX` is not a unit", 10, "2GiB"),
            ("tape_max:1MiB", "as little as 1MiB", 10, "64MiB"),
            ("tape_replace:yes", "cannot be \"yes\"", 14, "True, False"),
            ("device:sim,metrics:9400", "served by a process", 12, "run `vramtape exporter`"),
            ("search_after_flush:true", "cannot be \"true\"", 20, "True, False"),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert_eq!(error.place.at + 1, at, "{error}");
            assert!(error.message.contains(wrong) && error.advice.contains(advice), "{error}");
        }
    }
}
