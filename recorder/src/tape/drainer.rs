//! The tape's thread: from the rings into the file, until it is stopped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use trace_format::{EndKind, ProgramEnd};

use super::outcome::{TapeError, TapeFailure, TapeSummary};
use super::requests::{Inbox, Request};
use super::ring_source::RingSource;
use super::rotation::Parts;
use crate::clock::Clock;

/// A reader of the growing tape sees records at most this much later, and a kill loses at most as many.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

const PANICKED: &str = "internal error in vramtape";

/// What the thread works with.
pub(super) struct Drainer<C> {
    pub(super) parts: Parts,
    pub(super) sources: Vec<RingSource>,
    /// Why the tape ended early, for its owner.
    pub(super) failure: Arc<OnceLock<TapeFailure>>,
    pub(super) clock: C,
}

impl<C: Clock> Drainer<C> {
    /// [Writes](Self::run). A panic, which is a mistake of ours, ends the tape where it is: readable, without an index.
    pub(super) fn run_to_end(self, requests: Receiver<Request>) -> Result<TapeSummary, TapeError> {
        let (failure, clock) = (Arc::clone(&self.failure), self.clock.clone());
        let path = self.parts.path().to_owned();
        // Outlives a panic: a request that is dropped finds the failure there.
        let mut inbox = Inbox::new(requests);
        let run = AssertUnwindSafe(|| self.run(&mut inbox));
        catch_unwind(run).unwrap_or_else(|_| {
            let cause = TapeError::Panicked { path };
            tracing::warn!("{cause}; please report it. The program goes on without a tape");
            let reason = PANICKED.to_owned();
            let _ = failure.set(TapeFailure { reason, time_ns: clock.unix_ns() });
            Err(cause)
        })
    }

    /// Writes until it is to stop. Where the tape cannot be written any more, it counts what is missing until then.
    fn run(mut self, inbox: &mut Inbox) -> Result<TapeSummary, TapeError> {
        match self.write(inbox) {
            Ok(()) => {
                let (records, lost) = self.counts();
                let written = self.parts.path().to_owned();
                match self.parts.finish(inbox.end.take()) {
                    Ok(path) => Ok(TapeSummary { path, records, lost }),
                    Err(cause) => Err(ended(&written, cause.into(), self.clock.unix_ns(), lost)),
                }
            }
            Err(cause) => Err(self.fail(cause, inbox)),
        }
    }

    fn counts(&self) -> (u64, u64) {
        let sum = |count: fn(&RingSource) -> u64| self.sources.iter().map(count).sum();
        (sum(|source| source.records), sum(|source| source.lost))
    }

    /// Ends the tape where it is, and then counts.
    fn fail(&mut self, cause: TapeError, inbox: &mut Inbox) -> TapeError {
        let time_ns = self.clock.unix_ns();
        let path = self.parts.path().to_owned();
        let reason = cause.reason();
        tracing::warn!(
            "{} ends here: {reason}. The program goes on without a tape{}",
            path.display(),
            cause.way_out()
        );
        let detail = reason.clone();
        let end = ProgramEnd {
            kind: EndKind::TapeFailed,
            detail,
            time_ns: Some(time_ns),
            ..ProgramEnd::default()
        };
        // Otherwise the file is a torn tape, which readers accept.
        if let Err(error) = self.parts.finish_short(end.clone(), &[]) {
            tracing::debug!("{error}");
        }
        let lost_before = self.sources.iter().map(|source| source.lost).collect::<Vec<_>>();
        for source in &mut self.sources {
            source.lose_unwritten(&mut self.parts);
        }
        let _ = self.failure.set(TapeFailure { reason, time_ns });
        loop {
            inbox.flushes.clear();
            self.sources.iter_mut().for_each(RingSource::lose_new);
            if inbox.is_stopping {
                break;
            }
            self.sources.append(&mut inbox.take(self.pause()));
        }
        let before = lost_before.into_iter().chain(std::iter::repeat(0));
        let losses = self.sources.iter_mut().zip(before);
        let losses = losses.map(|(source, before)| source.loss(source.lost - before, time_ns));
        let losses: Vec<_> = losses.collect();
        if let Err(error) = self.parts.finish_short(end, &losses) {
            tracing::debug!("{error}");
        }
        ended(&path, cause, time_ns, self.counts().1)
    }

    fn write(&mut self, inbox: &mut Inbox) -> Result<(), TapeError> {
        let mut flushed_at = Instant::now();
        loop {
            // Before draining: what was recorded before a request is drained.
            let new = inbox.take(self.pause());
            self.add(new)?;
            self.drain()?;
            if inbox.is_stopping {
                return Ok(());
            }
            if flushed_at.elapsed() >= FLUSH_EVERY || !inbox.flushes.is_empty() {
                self.parts.writer().flush()?;
                flushed_at = Instant::now();
            }
            for done in inbox.flushes.drain(..) {
                // The waiter may be gone.
                let _ = done.send(());
            }
        }
    }

    fn add(&mut self, new: Vec<RingSource>) -> Result<(), TapeError> {
        if !new.is_empty() {
            self.parts.add_devices(new.iter().map(RingSource::device))?;
            self.sources.extend(new);
        }
        Ok(())
    }

    /// Writes what was recorded until now, a little of each ring in turn.
    fn drain(&mut self) -> Result<(), TapeError> {
        self.sources.iter_mut().for_each(RingSource::set_target);
        loop {
            let now_ns = self.clock.unix_ns();
            let mut is_done = true;
            for source in &mut self.sources {
                is_done &= source.drain(&mut self.parts, now_ns)?;
            }
            if self.parts.is_full() {
                self.turn(now_ns)?;
            }
            if is_done {
                return Ok(());
            }
        }
    }

    /// Ends this part of the tape and begins another.
    fn turn(&mut self, now_ns: u64) -> Result<(), TapeError> {
        let mut cuts = Vec::with_capacity(self.sources.len());
        for source in &mut self.sources {
            cuts.push(source.cut_at_base_state(&mut self.parts, now_ns)?);
        }
        let part_records = self.sources.iter().map(|source| source.part_records).sum();
        self.parts.turn(part_records)?;
        for (source, cut) in self.sources.iter_mut().zip(cuts) {
            source.begin_part(&mut self.parts, cut, now_ns)?;
        }
        self.parts.has_room()
    }

    /// A quarter of the time in which the fastest producer fills the smallest ring, within reason.
    fn pause(&self) -> Duration {
        const FASTEST_RECORD_NS: u64 = 20;
        let slots =
            self.sources.iter().map(|source| source.ring().slots()).min().unwrap_or(u64::MAX);
        let quarter = Duration::from_nanos(slots.saturating_mul(FASTEST_RECORD_NS) / 4);
        quarter.clamp(Duration::from_micros(200), Duration::from_millis(10))
    }
}

fn ended(path: &Path, cause: TapeError, time_ns: u64, lost: u64) -> TapeError {
    TapeError::Ended { path: path.to_owned(), cause: Box::new(cause), time_ns, lost }
}
