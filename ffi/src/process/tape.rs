//! The tapes that the process writes: as its settings say from the first allocation on, or between
//! two calls.

use std::path::{Path, PathBuf};
use std::{env, fs, mem, process};

use recorder::{Flush, RingPart, TapeError, TapeFailure, TapeRecorder, save_rings};
use serde::Serialize;
use settings::{MarkMode, RecordMode, Settings, TapePath};
use trace_format::{
    Addr, Category, DeviceId, EndKind, MarkKind, Meta, ProgramEnd, Source, StackId, utc,
};

use super::recording::Recording;
use super::{Heap, Process, lock, observe, program, stacks, tape_name, with};
use crate::error::Error;
use crate::log;

/// Addresses that are looked up in one turn of the heap's lock.
const ADDRS_PER_TURN: usize = 64;

/// A tape that is being written.
pub(super) struct Tape {
    /// The path that was asked for, which the devices on this tape share.
    asked: String,
    path: PathBuf,
    recorder: TapeRecorder,
}

impl From<TapeError> for Error {
    fn from(error: TapeError) -> Self {
        Self::runtime(error)
    }
}

impl Process {
    /// Opens the device's tape, if it is to have one. A tape that cannot be written is a warning, and
    /// the program goes on without it.
    pub(super) fn try_tape(&mut self, device: DeviceId) {
        if let Err(Error { message, .. }) = self.open_tape(device) {
            let warning = format!("no tape: {message}");
            // One is enough for all devices of a tape.
            if !self.tape_warnings.contains(&warning) {
                tracing::warn!("{warning}");
                self.tape_warnings.push(warning);
            }
        }
    }

    /// Opens the device's tape, if it is to have one.
    fn open_tape(&mut self, device: DeviceId) -> Result<(), Error> {
        let Some(path) = &self.tape_path else { return Ok(()) };
        let asked = expand(path, device).map_err(Error::value)?;
        if !self.tapes.iter().any(|tape| tape.asked == asked) {
            let (max_bytes, is_replaced) =
                (self.settings.tape_max_bytes, self.settings.tape_replace);
            let (path, recorder) =
                tape_name::start(Path::new(&asked), &self.meta(), max_bytes, is_replaced)?;
            self.tapes.push(Tape { asked, path, recorder });
        }
        Ok(())
    }

    /// Puts the heap's records onto its tape from here on, if it has one.
    pub(super) fn record_on_tape(&self, recording: &Recording) {
        if let Some(tape) = self.tape_of(recording.device.id) {
            tape.recorder.add(recording.source());
        }
    }

    /// The file of the device's tape, if one is being written.
    pub(super) fn tape_path_of(&self, device: DeviceId) -> Option<PathBuf> {
        self.tape_of(device).map(|tape| tape.path.clone())
    }

    fn tape_of(&self, device: DeviceId) -> Option<&Tape> {
        let asked = expand(self.tape_path.as_ref()?, device).ok()?;
        self.tapes.iter().find(|tape| tape.asked == asked)
    }

    /// Asks for what was recorded until now to be in the files; [`wait`] for the answers without the process's lock.
    pub(super) fn request_flushes(&self) -> Vec<(PathBuf, Flush)> {
        let tapes = self.tapes.iter();
        tapes.map(|tape| (tape.path.clone(), tape.recorder.request_flush())).collect()
    }

    /// The description of the process on a tape, without its devices.
    pub(super) fn meta(&self) -> Meta {
        let variable = |name| env::var(name).ok();
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let config = self.first_config_so_far();
        self.program.described(Meta {
            source: Source::Recorded,
            producer: concat!("vramtape ", env!("CARGO_PKG_VERSION")).to_owned(),
            strategy: Some(self.settings.strategy.name().to_owned()),
            compat: Some(config.compat.name().to_owned()),
            alloc_conf: config.text.clone(),
            vramtape_conf: variable("VRAMTAPE_CONF").unwrap_or_default(),
            pid: Some(process::id()),
            rank: variable("RANK").and_then(|rank| rank.parse().ok()),
            hostname: hostname.map(|name| name.trim().to_owned()),
            clock: Some("unix".to_owned()),
            inferred: observe::inferred(),
            ..Meta::default()
        })
    }
}

impl Process {
    /// The description of a tape that is saved while the program goes on, or at its end.
    fn meta_of_saved(&self) -> Meta {
        let end = self.program.end_so_far();
        Meta { end: Some(end), ..self.meta() }
    }
}

/// Waits until what was recorded before the flushes were requested is in the files.
pub(super) fn wait(flushes: Vec<(PathBuf, Flush)>) -> Result<(), Error> {
    for (path, flush) in flushes {
        flush.wait().map_err(|failure| {
            Error::runtime(match failure {
                Some(TapeFailure { reason, time_ns }) => {
                    format!("{} ended early, at {}: {reason}", path.display(), utc(time_ns))
                }
                None => format!("{} is not being written any more", path.display()),
            })
        })?;
    }
    Ok(())
}

pub(super) fn expand(path: &TapePath, device: DeviceId) -> Result<String, String> {
    // torchrun and its like say which process of a job this is.
    let rank = env::var_os("RANK").map(|rank| rank.to_string_lossy().into_owned());
    path.expand(rank.as_deref(), process::id(), device.0)
}

/// Starts a tape of all devices, those still to be opened included.
pub(crate) fn start(path: &str) -> Result<(), Error> {
    let path = TapePath::parse(path)
        .map_err(|(message, advice)| Error::value(format!("{message}: {advice}")))?;
    observe::settle();
    let flushes = with(|process| {
        if let Some(running) = process.tapes.first() {
            return Err(Error::value(format!(
                "a tape is being written already at {}: stop it first",
                running.path.display()
            )));
        }
        if process.settings.record == RecordMode::Off {
            return Err(Error::value(
                "nothing is recorded in this process: VRAMTAPE_CONF says record:off, or it was \
                 forked from one that uses the device",
            ));
        }
        process.tape_path = Some(path);
        let devices: Vec<_> = process.recordings.iter().map(|open| open.device.id).collect();
        for device in devices {
            if let Err(error) = process.open_tape(device) {
                process.tape_path = None;
                process.tapes.clear();
                return Err(error);
            }
        }
        for recording in &process.recordings {
            process.record_on_tape(recording);
        }
        Ok(process.request_flushes())
    })?;
    // The state to begin with is taken on the tapes' threads: what is recorded after this call
    // shall not be a part of it.
    wait(flushes)
}

/// Finishes every tape with everything recorded until now; the program goes on.
pub(crate) fn stop() -> Result<(), Error> {
    finish(&program::ended(EndKind::RecordingStopped, ""))
}

/// Finishes every tape with everything recorded until now, and with the end of the program.
///
/// # Errors
/// That of the first tape which is not whole; the others are finished all the same.
pub(super) fn finish(end: &ProgramEnd) -> Result<(), Error> {
    observe::settle();
    let tapes = with(|process| {
        if process.tape_path.take().is_none() {
            return Err(Error::value("no tape is being written"));
        }
        Ok(mem::take(&mut process.tapes))
    })?;
    let mut outcome = Ok(());
    // Not under the process's lock: a tape's thread may wait for a heap.
    for Tape { path, recorder, .. } in tapes {
        match recorder.stop_at_end(end.clone()) {
            Ok(summary) if summary.lost > 0 => log::warn_at_end(&format!(
                "{}: {} records were overwritten before they could be written; set ring_events in VRAMTAPE_CONF \
                 higher, for example ring_events:4194304",
                path.display(),
                summary.lost
            )),
            Ok(_) => {}
            Err(error) => outcome = outcome.and(Err(error.into())),
        }
    }
    outcome
}

/// Where the tapes are that are being written.
pub(super) fn paths() -> Vec<PathBuf> {
    lock().iter().flat_map(|process| &process.tapes).map(|tape| tape.path.clone()).collect()
}

/// A tape that is being written, for the launcher's last line.
#[derive(Serialize)]
pub(crate) struct Listed {
    path: String,
    failed: Option<Failed>,
}

#[derive(Serialize)]
struct Failed {
    reason: String,
    time: String,
}

/// The tapes that are being written.
pub(crate) fn list() -> Vec<Listed> {
    let guard = lock();
    let tapes = guard.iter().flat_map(|process| &process.tapes);
    let listed = tapes.map(|tape| Listed {
        path: tape.path.display().to_string(),
        failed: tape
            .recorder
            .failure()
            .map(|TapeFailure { reason, time_ns }| Failed { reason, time: utc(time_ns) }),
    });
    listed.collect()
}

/// Waits until everything recorded until now is in the tapes' files.
pub(crate) fn flush() -> Result<(), Error> {
    observe::settle();
    wait(with(|process| Ok(process.request_flushes()))?)
}

/// Saves what the device's ring holds as a tape.
pub(crate) fn save(device: DeviceId, path: &str) -> Result<(), Error> {
    observe::settle();
    let (recording, meta) = with(|process| {
        let known = process.recordings.iter().find(|known| known.device.id == device);
        let recording = known.cloned().ok_or_else(|| {
            Error::value(format!(
                "device {device} has no ring: it was never used, or record is off"
            ))
        })?;
        Ok((recording, process.meta_of_saved()))
    })?;
    save_rings(Path::new(path), meta, vec![part(&recording, 0)?])?;
    Ok(())
}

/// How many slots of the device's ring are written; 0 where there is none.
pub(crate) fn position(device: DeviceId) -> Result<u64, Error> {
    observe::settle();
    let guard = lock();
    let mut recordings = guard.iter().flat_map(|process| &process.recordings);
    let Some(recording) = recordings.find(|known| known.device.id == device) else { return Ok(0) };
    recording.position()
}

/// Saves what every device recorded since these positions as one tape: how many records are missing on it.
pub(crate) fn save_since(positions: &[u64], path: &str) -> Result<u64, Error> {
    observe::settle();
    let (recordings, meta) = with(|process| {
        if process.recordings.is_empty() {
            return Err(Error::value(
                "there is nothing to save: no device was used, or VRAMTAPE_CONF says record:off",
            ));
        }
        Ok((process.recordings.clone(), process.meta_of_saved()))
    })?;
    let since = |device: DeviceId| positions.get(usize::from(device.0)).copied().unwrap_or(0);
    let parts = recordings.iter().map(|known| part(known, since(known.device.id)));
    Ok(save_rings(Path::new(path), meta, parts.collect::<Result<_, _>>()?)?.lost)
}

fn part(recording: &Recording, first: u64) -> Result<RingPart, Error> {
    let end = recording.base().ok_or_else(|| Error::runtime("the heap is broken"))?;
    Ok(RingPart { ring: recording.ring.clone(), device: recording.device.clone(), first, end })
}

/// Records what blocks of a device hold: how many of the addresses are blocks of it. The others are left out, as a
/// tensor may lie elsewhere, or in the middle of a block.
pub(crate) fn categorize(heap: &Heap, category: Category, addrs: &[u64]) -> Result<usize, Error> {
    let mut known = 0;
    // Others get their turn in between.
    for some in addrs.chunks(ADDRS_PER_TURN) {
        let mut heap = heap.lock()?;
        known += some.iter().filter(|addr| heap.categorize(Addr(**addr), category)).count();
    }
    Ok(known)
}

/// Whether marks of the Python package's own are wanted, and go anywhere.
pub(crate) fn wants_marks() -> Result<bool, Error> {
    let is_wanted = |settings: &Settings| settings.marks != MarkMode::Off;
    with(|process| Ok(is_wanted(&process.settings) && process.settings.record != RecordMode::Off))
}

/// Whether marks of modules are wanted too.
pub(crate) fn wants_module_marks() -> Result<bool, Error> {
    let is_wanted = |settings: &Settings| settings.marks == MarkMode::Modules;
    with(|process| Ok(is_wanted(&process.settings) && process.settings.record != RecordMode::Off))
}

/// Records a mark on every device that records, from whichever thread this is.
pub(crate) fn mark(kind: MarkKind, name: &str) -> Result<(), Error> {
    mark_where(|_| true, kind, name)
}

/// Records a mark on one device, if it records.
pub(super) fn mark_on(device: DeviceId, kind: MarkKind, name: &str) -> Result<(), Error> {
    mark_where(|id| id == device, kind, name)
}

fn mark_where(
    is_wanted: impl Fn(DeviceId) -> bool,
    kind: MarkKind,
    name: &str,
) -> Result<(), Error> {
    let guard = lock();
    let recordings = guard.iter().flat_map(|process| &process.recordings);
    for recording in recordings.filter(|recording| is_wanted(recording.device.id)) {
        // Before the heap's lock: allocations do not wait for a name.
        let name = recording.ring.intern(name);
        recording.mark(kind, name, StackId::NONE)?;
    }
    Ok(())
}

/// Records a moment on the first device that records, with a stack of [`super::stacks::of_observed`].
pub(crate) fn mark_call(name: &str, stack: StackId) -> Result<(), Error> {
    let guard = lock();
    let mut recordings = guard.iter().flat_map(|process| &process.recordings);
    let Some(recording) = recordings.next() else { return Ok(()) };
    let name = recording.ring.intern(name);
    stacks::write_observed(recording.device.id.0.into(), stack);
    recording.mark(MarkKind::Instant, name, stack)
}
