//! The tape's thread: from the rings into the file, until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::parts::Parts;
use super::recorder::{FLUSH_EVERY, Shared};
use super::source::Feed;
use super::{TapeError, TapeSummary};
use crate::record::clock::Clock;

/// What the thread works with.
pub(super) struct Drainer<C> {
    pub(super) parts: Parts,
    pub(super) feeds: Vec<Feed>,
    pub(super) shared: Arc<Shared>,
    pub(super) clock: C,
}

impl<C: Clock> Drainer<C> {
    pub(super) fn run(mut self) -> Result<TapeSummary, TapeError> {
        let mut flushed_at = Instant::now();
        loop {
            // Asked before draining, so that what was recorded before the stop is drained.
            let is_stopping = self.shared.is_stopping.load(Ordering::Acquire);
            let flushes = std::mem::take(&mut *self.shared.flushes());
            self.take_new_feeds()?;
            self.drain()?;
            if is_stopping {
                break;
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
        let sum = |count: fn(&Feed) -> u64| self.feeds.iter().map(count).sum();
        let (records, lost) = (sum(|feed| feed.records), sum(|feed| feed.lost));
        Ok(TapeSummary { path: self.parts.finish()?, records, lost })
    }

    fn take_new_feeds(&mut self) -> Result<(), TapeError> {
        let new = std::mem::take(&mut *self.shared.new_feeds());
        if new.is_empty() {
            return Ok(());
        }
        self.parts.add_devices(new.iter().map(Feed::device))?;
        self.feeds.extend(new);
        Ok(())
    }

    /// Writes what was recorded until now, a little of each ring in turn.
    fn drain(&mut self) -> Result<(), TapeError> {
        self.feeds.iter_mut().for_each(Feed::aim);
        loop {
            let now_ns = self.clock.unix_ns();
            let mut is_done = true;
            for feed in &mut self.feeds {
                is_done &= feed.drain(&mut self.parts, now_ns)?;
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
        let mut cuts = Vec::with_capacity(self.feeds.len());
        for feed in &mut self.feeds {
            cuts.push(feed.cut(&mut self.parts, now_ns)?);
        }
        self.parts.turn()?;
        for (feed, cut) in self.feeds.iter_mut().zip(cuts) {
            feed.begin_part(&mut self.parts, cut, now_ns)?;
        }
        self.parts.has_room()
    }

    /// A quarter of the time in which the fastest producer fills the smallest ring, within reason.
    fn pause(&self) -> Duration {
        const FASTEST_RECORD_NS: u64 = 20;
        let slots = self.feeds.iter().map(|feed| feed.ring().slots()).min().unwrap_or(u64::MAX);
        let quarter = Duration::from_nanos(slots.saturating_mul(FASTEST_RECORD_NS) / 4);
        quarter.clamp(Duration::from_micros(200), Duration::from_millis(10))
    }
}
