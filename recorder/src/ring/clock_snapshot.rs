//! The ring's time. A record has the low 40 bits of its ticks; every second or so the writer records a clock snapshot,
//! a reading of both clocks together, from which readers count on.
//!
//! A snapshot is two slots of the ring: [`MORE`] with the snapshot before it and its number, then [`CLOCK_SNAPSHOT`].
//! The newest is in the header too, double-buffered. So every record has a snapshot before it that can be found: in the
//! header, or by going back from there.

use super::layout::{HeaderField, Payload};
use super::look::Look;
use super::pack::{CLOCK_SNAPSHOT, MORE};
use super::protocol::double_buffer::DoubleBuffer;
use super::protocol::store_all;
use super::region::Region;
use super::words;
use crate::clock::Moment;

/// Ticks between two snapshots, about a second: after a suspend, times are wrong for as long.
pub(super) const TICKS_BETWEEN: u64 = 1 << 31;

/// The newest snapshot in the header: the number of its record, ticks, Unix time.
const NEWEST: DoubleBuffer = DoubleBuffer {
    count_at: HeaderField::ClockSnapshotCount as usize,
    start: HeaderField::ClockSnapshots as usize,
    copy_words: 3,
};

/// A moment, and the number of the first of its slots: it holds for what comes after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClockSnapshot {
    pub(super) number: u64,
    pub(super) moment: Moment,
}

/// The slots of the snapshot after `last`.
pub(super) fn slots(last: ClockSnapshot, now: Moment) -> [Payload; 2] {
    let before = [last.number, last.moment.ticks, last.moment.unix_ns];
    [
        words::bare(now.ticks, (MORE, 0), before),
        words::bare(now.ticks, (CLOCK_SNAPSHOT, 0), [now.ticks, now.unix_ns, 0]),
    ]
}

/// The moment in the raw words of a [`CLOCK_SNAPSHOT`].
pub(super) fn in_slot(words: &Payload) -> Moment {
    Moment { ticks: words[1], unix_ns: words[2] }
}

/// Makes `snapshot` the newest, after its slots were published.
pub(super) fn set_newest(region: &Region, snapshot: ClockSnapshot) {
    let ClockSnapshot { number, moment: Moment { ticks, unix_ns } } = snapshot;
    NEWEST.write(region.words(), |copy, _| store_all(copy, &[number, ticks, unix_ns]));
}

/// The newest snapshot; zeros in a damaged ring that has none.
pub(super) fn newest(look: &impl Look) -> ClockSnapshot {
    let mut copy = [0; NEWEST.copy_words];
    let _ = NEWEST.read(look, &mut copy);
    let [number, ticks, unix_ns] = copy;
    ClockSnapshot { number, moment: Moment { ticks, unix_ns } }
}

/// The last snapshot's moment before record `number`; `None` where the way there is overwritten, or damaged.
pub(super) fn before(look: &impl Look, number: u64) -> Option<Moment> {
    let mut snapshot = newest(look);
    while snapshot.number > number {
        let mut slot = [Payload::default()];
        if snapshot.number >= look.written() || !look.copy(snapshot.number, &mut slot) {
            return None;
        }
        let [[head, before, ticks, unix_ns]] = slot;
        if words::decode(&slot[0]).kind != MORE || head == 0 || before >= snapshot.number {
            return None;
        }
        snapshot = ClockSnapshot { number: before, moment: Moment { ticks, unix_ns } };
    }
    Some(snapshot.moment)
}
