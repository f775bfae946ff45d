//! The tape's thread: from the rings into the file, until it is stopped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use trace_format::{EndKind, ProgramEnd};

use super::recorder::{FLUSH_EVERY, Shared, TapeFailure};
use super::ring_source::RingSource;
use super::rotation::Parts;
use super::{TapeError, TapeSummary};
use crate::clock::Clock;

const PANICKED: &str = "internal error in vramtape";

/// What the thread works with.
pub(super) struct Drainer<C> {
    pub(super) parts: Parts,
    pub(super) sources: Vec<RingSource>,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: C,
}

impl<C: Clock> Drainer<C> {
    /// [Writes](Self::run). A panic, which is a mistake of ours, ends the tape where it is: readable, without an index.
    pub(super) fn run_to_end(self) -> Result<TapeSummary, TapeError> {
        let (shared, clock) = (Arc::clone(&self.shared), self.clock.clone());
        let path = self.parts.path().to_owned();
        // The drainer is gone then; its owner looks at what they share, which is whole at any time.
        let run = AssertUnwindSafe(|| self.run());
        catch_unwind(run).unwrap_or_else(|_| {
            let cause = TapeError::Panicked { path };
            tracing::warn!("{cause}; please report it. The program goes on without a tape");
            let failure = TapeFailure { reason: PANICKED.to_owned(), time_ns: clock.unix_ns() };
            *shared.failure() = Some(failure);
            shared.has_failed.store(true, Ordering::Release);
            shared.flushes().clear(); // Their owners see that the tape has failed.
            Err(cause)
        })
    }

    /// Writes until it is to stop. Where the tape cannot be written any more, it counts what is missing until then.
    fn run(mut self) -> Result<TapeSummary, TapeError> {
        match self.write() {
            Ok(()) => {
                let end = self.shared.end().take();
                let (records, lost) = self.counts();
                let written = self.parts.path().to_owned();
                match self.parts.finish(end) {
                    Ok(path) => Ok(TapeSummary { path, records, lost }),
                    Err(cause) => Err(ended(&written, cause.into(), self.clock.unix_ns(), lost)),
                }
            }
            Err(cause) => Err(self.fail(cause)),
        }
    }

    fn counts(&self) -> (u64, u64) {
        let sum = |count: fn(&RingSource) -> u64| self.sources.iter().map(count).sum();
        (sum(|source| source.records), sum(|source| source.lost))
    }

    /// Ends the tape where it is, and then counts.
    fn fail(&mut self, cause: TapeError) -> TapeError {
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
        *self.shared.failure() = Some(TapeFailure { reason, time_ns });
        self.shared.has_failed.store(true, Ordering::Release);
        loop {
            let is_stopping = self.shared.is_stopping.load(Ordering::Acquire);
            self.shared.flushes().clear(); // Their owners see that the tape has failed.
            self.sources.append(&mut self.shared.new_sources());
            self.sources.iter_mut().for_each(RingSource::lose_new);
            if is_stopping {
                break;
            }
            thread::park_timeout(self.pause());
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

    fn write(&mut self) -> Result<(), TapeError> {
        let mut flushed_at = Instant::now();
        loop {
            // Asked before draining, so that what was recorded before the stop is drained.
            let is_stopping = self.shared.is_stopping.load(Ordering::Acquire);
            let flushes = std::mem::take(&mut *self.shared.flushes());
            self.take_new_sources()?;
            self.drain()?;
            if is_stopping {
                return Ok(());
            }
            if flushed_at.elapsed() >= FLUSH_EVERY || !flushes.is_empty() {
                self.parts.writer().flush()?;
                flushed_at = Instant::now();
            }
            for done in flushes {
                // One who no longer listens needs no answer.
                let _ = done.send(());
            }
            thread::park_timeout(self.pause());
        }
    }

    fn take_new_sources(&mut self) -> Result<(), TapeError> {
        let new = std::mem::take(&mut *self.shared.new_sources());
        if new.is_empty() {
            return Ok(());
        }
        self.parts.add_devices(new.iter().map(RingSource::device))?;
        self.sources.extend(new);
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
