//! The tapes that the process writes: as its settings say from the first allocation on, or between
//! two calls.

use std::path::Path;
use std::{env, fs, mem, process};

use allocator::config::{RecordMode, TapePath};
use allocator::record::{Recorder, SystemClock, TapeError, TapeRecorder, save_ring};
use trace_format::{DeviceId, Event, MarkKind, Meta, Source, StackId};

use super::recorder::Recording;
use super::{Process, lock, with};
use crate::error::Error;

/// A tape that is being written.
pub(super) struct Tape {
    path: String,
    recorder: TapeRecorder,
}

impl From<TapeError> for Error {
    fn from(error: TapeError) -> Self {
        Self::runtime(error)
    }
}

impl Process {
    /// Opens the device's tape, if it is to have one. Before its heap, so that a path that cannot
    /// be written is an error that leaves nothing behind.
    pub(super) fn open_tape(&mut self, device: DeviceId) -> Result<(), Error> {
        let Some(path) = self.tape_path.as_ref().map(|path| expand(path, device)) else {
            return Ok(());
        };
        if !self.tapes.iter().any(|tape| tape.path == path) {
            let (meta, max_bytes) = (self.meta(), self.settings.tape_max_bytes);
            let recorder =
                TapeRecorder::start_limited(Path::new(&path), meta, SystemClock::new(), max_bytes)?;
            self.tapes.push(Tape { path, recorder });
        }
        Ok(())
    }

    /// Puts the heap's records onto its tape from here on, if it has one.
    pub(super) fn record_on_tape(&self, recording: &Recording) {
        let Some(path) = &self.tape_path else { return };
        let path = expand(path, recording.device.id);
        if let Some(tape) = self.tapes.iter().find(|tape| tape.path == path) {
            tape.recorder.add(recording.source());
        }
    }

    /// Whether the device's tape is being written; none where none was asked for.
    pub(super) fn is_on_tape(&self, device: DeviceId) -> Option<bool> {
        let path = expand(self.tape_path.as_ref()?, device);
        let tape = self.tapes.iter().find(|tape| tape.path == path)?;
        Some(tape.recorder.is_recording())
    }

    fn flush_tapes(&self) -> Result<(), Error> {
        match self.tapes.iter().find(|tape| !tape.recorder.flush()) {
            None => Ok(()),
            Some(broken) => {
                let path = &broken.path;
                Err(Error::runtime(format_args!("{path} is not being written any more")))
            }
        }
    }

    /// What a tape says about the process, devices apart.
    pub(super) fn meta(&self) -> Meta {
        let variable = |name| env::var(name).ok();
        let hostname = fs::read_to_string("/proc/sys/kernel/hostname").ok();
        Meta {
            source: Source::Recorded,
            producer: concat!("vramtape ", env!("CARGO_PKG_VERSION")).to_owned(),
            strategy: Some(self.settings.strategy.name().to_owned()),
            compat: Some(self.config.compat.name().to_owned()),
            alloc_conf: self.config.text.clone(),
            vramtape_conf: variable("VRAMTAPE_CONF").unwrap_or_default(),
            pid: Some(process::id()),
            rank: variable("RANK").and_then(|rank| rank.parse().ok()),
            hostname: hostname.map(|name| name.trim().to_owned()),
            clock: Some("unix".to_owned()),
            ..Meta::default()
        }
    }
}

fn expand(path: &TapePath, device: DeviceId) -> String {
    // torchrun and its like say which process of a job this is.
    let rank = env::var("RANK").unwrap_or_else(|_| "0".to_owned());
    path.expand(&rank, process::id(), device.0)
}

/// Starts a tape of all devices, those still to be opened included.
pub(crate) fn start(path: &str) -> Result<(), Error> {
    let path = TapePath::parse(path)
        .map_err(|(message, advice)| Error::value(format!("{message}: {advice}")))?;
    with(|process| {
        if let Some(running) = process.tapes.first() {
            return Err(Error::value(format!(
                "a tape is being written already at {}: stop it first",
                running.path
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
        // The state to begin with is taken on the tapes' threads: what is recorded after this call
        // shall not be a part of it.
        process.flush_tapes()
    })
}

/// Finishes every tape with everything recorded until now.
pub(crate) fn stop() -> Result<(), Error> {
    let tapes = with(|process| {
        if process.tape_path.take().is_none() {
            return Err(Error::value("no tape is being written"));
        }
        Ok(mem::take(&mut process.tapes))
    })?;
    // Not under the process's lock: a tape's thread may wait for a heap.
    for tape in tapes {
        let summary = tape.recorder.stop()?;
        if summary.lost > 0 {
            tracing::warn!(
                tape = tape.path,
                lost = summary.lost,
                "records were overwritten before they could be written; set ring_events higher"
            );
        }
    }
    Ok(())
}

/// Waits until everything recorded until now is in the tapes' files.
pub(crate) fn flush() -> Result<(), Error> {
    with(|process| process.flush_tapes())
}

/// Saves what the device's ring holds as a tape.
pub(crate) fn save(device: DeviceId, path: &str) -> Result<(), Error> {
    with(|process| {
        let known = process.recordings.iter().find(|known| known.device.id == device);
        let recording = known.ok_or_else(|| {
            Error::value(format!(
                "device {device} has no ring: it was never used, or record is off"
            ))
        })?;
        let base = recording.base().ok_or_else(|| Error::runtime("the heap is broken"))?;
        let (meta, device) = (process.meta(), recording.device.clone());
        save_ring(&recording.ring, Path::new(path), meta, device, || base)?;
        Ok(())
    })
}

/// Records a mark on every device that records, from whichever thread this is.
pub(crate) fn mark(kind: MarkKind, name: &str) -> Result<(), Error> {
    let guard = lock();
    let recordings = guard.iter().flat_map(|process| &process.recordings);
    for recording in recordings {
        // Before the heap's lock: allocations do not wait for a name.
        let name = recording.ring.intern(name);
        let mut heap = recording.heap.lock()?;
        heap.recorder_mut().record(StackId::NONE, Event::Mark { kind, name });
    }
    Ok(())
}
