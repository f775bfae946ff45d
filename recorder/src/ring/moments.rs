//! The ring's time. A record has the low 40 bits of its ticks; every second or so the writer notes a moment, both
//! clocks together, from which readers count on.
//!
//! A moment is two slots of the ring: [`MORE`] with the moment before it and its number, then [`MOMENT`]. The newest
//! is in the header too, in two copies, so that one of them is whole however the process ends. So every record has a
//! moment before it that can be found: in the header, or by going back from there.

use std::sync::atomic::{Ordering, fence};

use super::layout::{Payload, Word};
use super::look::Look;
use super::pack::{MOMENT, MORE};
use super::region::Region;
use super::words;
use crate::clock::Moment;

/// Ticks after which a new moment is noted, about a second: after a suspend, times are wrong for as long.
pub(super) const TICKS_BETWEEN: u64 = 1 << 31;

const COPY_WORDS: usize = 3;

/// A moment, and the number of the first of its slots: it holds for what comes after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) number: u64,
    pub(super) moment: Moment,
}

/// The slots of the moment after `last`.
pub(super) fn slots(last: Noted, now: Moment) -> [Payload; 2] {
    let before = [last.number, last.moment.ticks, last.moment.unix_ns];
    [
        words::bare(now.ticks, (MORE, 0), before),
        words::bare(now.ticks, (MOMENT, 0), [now.ticks, now.unix_ns, 0]),
    ]
}

/// The moment in the raw words of a [`MOMENT`].
pub(super) fn in_slot(words: &Payload) -> Moment {
    Moment { ticks: words[1], unix_ns: words[2] }
}

/// Makes `noted` the newest, after its slots were published.
pub(super) fn set_newest(region: &Region, noted: Noted) {
    let count = region.get(Word::MomentCount) + 1;
    let words = [noted.number, noted.moment.ticks, noted.moment.unix_ns];
    for (word, value) in words.into_iter().enumerate() {
        let at = copy_start(count) + word;
        region.word_behind(Word::Moments, at).store(value, Ordering::Relaxed);
    }
    region.word(Word::MomentCount).store(count, Ordering::Release);
}

/// The newest moment.
pub(super) fn newest(look: &impl Look) -> Noted {
    loop {
        let count = look.field(Word::MomentCount);
        let mut copy = [0; COPY_WORDS];
        look.load_all(Word::Moments as usize + copy_start(count), &mut copy);
        let [number, ticks, unix_ns] = copy;
        fence(Ordering::Acquire);
        // The writer goes to the other copy first: this one changes with the second moment from here, in seconds.
        if look.field(Word::MomentCount) == count {
            return Noted { number, moment: Moment { ticks, unix_ns } };
        }
    }
}

/// The last moment before record `number`; `None` where the way there is overwritten, or damaged.
pub(super) fn before(look: &impl Look, number: u64) -> Option<Moment> {
    let mut noted = newest(look);
    while noted.number > number {
        let mut slot = [Payload::default()];
        if noted.number >= look.written() || !look.copy(noted.number, &mut slot) {
            return None;
        }
        let [[head, before, ticks, unix_ns]] = slot;
        if words::decode(&slot[0]).kind != MORE || head == 0 || before >= noted.number {
            return None;
        }
        noted = Noted { number: before, moment: Moment { ticks, unix_ns } };
    }
    Some(noted.moment)
}

fn copy_start(count: u64) -> usize {
    (count & 1) as usize * COPY_WORDS
}
