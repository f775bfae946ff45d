//! A tape of another process, made of its rings while it runs.

use std::fs::File;
use std::path::{Path, PathBuf};

use trace_format::{DeviceId, EndKind, Event, Meta, ProgramEnd, Record, StackId, ThreadId, Writer};

use super::names::Names;
use super::recover::{RecoverError, meta_of};
use crate::clock::{Clock, SystemClock};
use crate::follow::{Followed, RingFollower};
use crate::ring::{RingError, RingReader};

/// A tape that is being made of rings. It appears at its path when it is [finished](Self::finish).
pub struct AttachedTape {
    writer: Writer<File>,
    rings: Vec<AttachedRing>,
    /// Why the last try to read a state was in vain.
    no_state: Option<RingError>,
}

/// How far one ring is on the tape.
struct AttachedRing {
    follower: RingFollower,
    names: Names<RingReader>,
    device: DeviceId,
    last_ns: u64,
    has_state: bool,
    /// Whether it cannot be read any more.
    is_given_up: bool,
    /// What the state on the tape lacks.
    missing: Vec<String>,
    is_complete: bool,
    records: u64,
    lost: u64,
}

/// What of one ring is on the tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedCounts {
    /// Its device.
    pub device: DeviceId,
    /// Records on the tape.
    pub records: u64,
    /// Slots of the ring that were overwritten before they could be read.
    pub lost: u64,
    /// Whether the tape has a state of the device to start from.
    pub has_state: bool,
    /// Whether all of its memory and pools is in that state; the ring's tables have room for so many only.
    pub is_complete: bool,
    /// What the ring had no room for when that state was read, a sentence each.
    pub missing: Vec<String>,
    /// Whether the process lives.
    pub is_live: bool,
}

impl AttachedTape {
    /// Begins a tape at `path` of these rings: their states now, and everything after them.
    ///
    /// # Errors
    /// Where a ring cannot be read or the tape cannot be written.
    pub fn begin(path: &Path, rings: &[PathBuf]) -> Result<Self, RecoverError> {
        // Once they are open their process may end.
        let opened = rings.iter().map(|ring| AttachedRing::open(ring));
        let mut rings = opened.collect::<Result<Vec<_>, _>>()?;
        let writer = Writer::create(path, &said(&mut rings))?;
        let mut tape = Self { writer, rings, no_state: None };
        tape.drain()?;
        Ok(tape)
    }

    /// Adds the ring at `path`, of a device that the process has begun to use.
    ///
    /// # Errors
    /// Where the ring cannot be read or the tape cannot be written.
    pub fn add(&mut self, path: &Path) -> Result<(), RecoverError> {
        self.rings.push(AttachedRing::open(path)?);
        self.writer.meta(&said(&mut self.rings))?;
        self.drain()
    }

    /// Writes what was recorded since the last call; to be called much more often than a ring turns over.
    ///
    /// # Errors
    /// Where the tape cannot be written. Where a ring cannot be read any more, once: later calls leave it out.
    pub fn drain(&mut self) -> Result<(), RecoverError> {
        let Self { writer, rings, no_state } = self;
        for ring in rings.iter_mut().filter(|ring| !ring.is_given_up) {
            match ring.drain(writer) {
                Err(RecoverError::Ring(error)) => match ring.check() {
                    // The ring turned over while its state was read: the next call tries again.
                    Ok(()) => *no_state = Some(error),
                    Err(error) => {
                        ring.is_given_up = true;
                        return Err(error.into());
                    }
                },
                drained => drained?,
            }
        }
        Ok(())
    }

    /// Why the last try to read a ring's state was in vain, if one was.
    pub fn no_state(&self) -> Option<&RingError> {
        self.no_state.as_ref()
    }

    /// How far each ring is on the tape.
    pub fn counts(&mut self) -> Vec<AttachedCounts> {
        self.rings.iter_mut().map(AttachedRing::counts).collect()
    }

    /// Writes what was recorded until now, and gives the file its name.
    ///
    /// # Errors
    /// Where the tape cannot be written.
    pub fn finish(mut self) -> Result<Vec<AttachedCounts>, RecoverError> {
        self.drain()?;
        let counts = self.counts();
        let time_ns = Some(SystemClock::new().unix_ns());
        let end = if counts.iter().any(|ring| ring.is_live) {
            let kind = EndKind::RecordingStopped;
            Some(ProgramEnd { kind, time_ns, ..ProgramEnd::default() })
        } else {
            self.rings.first_mut().and_then(|ring| meta_of(ring.follower.reader()).end)
        };
        self.writer.meta(&Meta { end, ..said(&mut self.rings) })?;
        self.writer.finish()?;
        Ok(counts)
    }
}

/// What the rings say of their process and its devices. How it ends is known when the tape is finished.
fn said(rings: &mut [AttachedRing]) -> Meta {
    let said: Vec<_> = rings.iter_mut().map(|ring| meta_of(ring.follower.reader())).collect();
    let devices = said.iter().flat_map(|meta| meta.devices.clone()).collect();
    // Of the states on the tape, not of the rings as they are now.
    let inferred = rings.iter().flat_map(|ring| ring.missing.clone()).collect();
    let producer = concat!("vramtape ", env!("CARGO_PKG_VERSION"), " attach").to_owned();
    Meta { producer, devices, inferred, end: None, ..said.into_iter().next().unwrap_or_default() }
}

impl AttachedRing {
    fn open(path: &Path) -> Result<Self, RecoverError> {
        let mut follower = RingFollower::open(path)?;
        Ok(Self {
            device: follower.reader().info().device,
            follower,
            names: Names::new(RingReader::open(path)?),
            last_ns: 0,
            has_state: false,
            is_given_up: false,
            missing: Vec::new(),
            is_complete: true,
            records: 0,
            lost: 0,
        })
    }

    fn drain(&mut self, writer: &mut Writer<File>) -> Result<(), RecoverError> {
        let Self { follower, names, device, last_ns, has_state, missing, is_complete, .. } = self;
        let (records, lost) = (&mut self.records, &mut self.lost);
        follower.poll(|followed| {
            match followed {
                Followed::State(mut base, info) => {
                    *is_complete &= info.is_complete();
                    let new = info.missing().into_iter().filter(|what| !missing.contains(what));
                    let new: Vec<_> = new.collect();
                    missing.extend(new);
                    base.time_ns = base.time_ns.max(*last_ns);
                    let base = names.base(writer, *base)?;
                    writer.base(*device, &base)?;
                    *has_state = true;
                }
                Followed::Record(record) => {
                    *last_ns = record.time_ns;
                    let record = names.record(writer, record)?;
                    writer.push(*device, &record)?;
                    *records += 1;
                }
                Followed::Lost(count) => {
                    let (time_ns, thread, stack) = (*last_ns, ThreadId::default(), StackId::NONE);
                    let event = Event::Lost { count };
                    writer.push(*device, &Record { time_ns, thread, stack, event })?;
                    *lost += count;
                }
            }
            Ok(())
        })
    }

    /// An error if the ring cannot be read any more.
    fn check(&mut self) -> Result<(), RingError> {
        self.follower.reader().check()?;
        self.names.texts_mut().check()
    }

    fn counts(&mut self) -> AttachedCounts {
        let reader = self.follower.reader();
        AttachedCounts {
            device: self.device,
            records: self.records,
            lost: self.lost,
            has_state: self.has_state,
            is_complete: self.is_complete,
            missing: self.missing.clone(),
            is_live: reader.is_live(),
        }
    }
}
