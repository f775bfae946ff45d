//! Which buffers live at the same time.

use crate::Buffer;

/// Buffers between two notes of all that live.
const NOTED_EVERY: usize = 64;

/// The lives of buffers in order.
pub(crate) struct Lives {
    /// The buffers by the beginning of their lives.
    pub(crate) order: Vec<u32>,
    /// The place of each in this order.
    place: Vec<u32>,
    /// At every 64th place, the buffers before it that live on.
    notes: Vec<Vec<u32>>,
}

impl Lives {
    pub(crate) fn new(buffers: &[Buffer]) -> Self {
        let mut order: Vec<u32> = (0..buffers.len() as u32).collect();
        order.sort_by_key(|at| buffers[*at as usize].lower);
        let mut place = vec![0; buffers.len()];
        let mut notes = Vec::new();
        let mut live: Vec<u32> = Vec::new();
        for (at, id) in order.iter().enumerate() {
            place[*id as usize] = at as u32;
            if at % NOTED_EVERY == 0 {
                let now = buffers[*id as usize].lower;
                live.retain(|other| buffers[*other as usize].upper > now);
                notes.push(live.clone());
            }
            live.push(*id);
        }
        Self { order, place, notes }
    }

    /// The buffers that live at some time together with this one.
    pub(crate) fn beside<'l>(
        &'l self,
        buffers: &'l [Buffer],
        id: u32,
    ) -> impl Iterator<Item = u32> + 'l {
        let buffer = &buffers[id as usize];
        let place = self.place[id as usize] as usize;
        let first = place - place % NOTED_EVERY;
        let before = self.notes[place / NOTED_EVERY].iter().chain(&self.order[first..place]);
        let before = before.filter(|other| buffers[**other as usize].upper > buffer.lower);
        let after = self.order[place + 1..].iter();
        let after = after.take_while(|other| buffers[**other as usize].lower < buffer.upper);
        before.chain(after).copied()
    }

    /// The most bytes that live at once.
    pub(crate) fn bound_bytes(&self, buffers: &[Buffer]) -> u64 {
        let mut ends: Vec<(i64, u64)> =
            buffers.iter().map(|buffer| (buffer.upper, buffer.size_bytes)).collect();
        ends.sort_unstable();
        let (mut ended, mut live_bytes, mut most_bytes) = (0, 0, 0);
        for id in &self.order {
            let buffer = &buffers[*id as usize];
            while ends[ended].0 <= buffer.lower {
                live_bytes -= ends[ended].1;
                ended += 1;
            }
            live_bytes += buffer.size_bytes;
            most_bytes = live_bytes.max(most_bytes);
        }
        most_bytes
    }
}
