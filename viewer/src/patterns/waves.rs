//! Waves: memory that is allocated in order and freed in reverse order, as a checkpointed part of a model does when the
//! backward pass computes it again.

use super::Sized;
use crate::follow::Life;

/// Lives of fewer moments are temporary memory of one operation.
const MOMENTS_MIN: u32 = 8;
/// How far the bytes have to rise and fall around a peak, as a part of the highest one.
const RISE_PART: f64 = 0.2;
/// A peak of fewer lives has no order to speak of.
const LIVES_MIN: usize = 8;
/// Pairs of lives that are freed in reverse order, of all that are compared.
const REVERSED_PART: f64 = 0.8;
/// Bytes before a wave's begin: what is allocated early for something else.
const EDGE_PART: f64 = 0.02;

/// The rising parts of the waves between two moments, of lives that begin and end there.
pub(super) fn waves(lives: &[Sized], from: u32, to: u32) -> Vec<(u32, u32)> {
    let is_inside =
        |life: &Life| life.start >= from && life.end <= to && life.end - life.start >= MOMENTS_MIN;
    let lives: Vec<Sized> = lives.iter().filter(|(life, _)| is_inside(life)).copied().collect();
    if lives.is_empty() {
        return Vec::new();
    }
    let wave = |(low, peak, high): (usize, usize, usize)| {
        let [low, peak, high] = [low, peak, high].map(|at| from + at as u32);
        let first = lives.partition_point(|(life, _)| life.start < low);
        let last = lives.partition_point(|(life, _)| life.start <= peak);
        let over =
            lives[first..last].iter().filter(|(life, _)| life.end > peak && life.end <= high);
        let over: Vec<Sized> = over.copied().collect();
        is_reversed(&over).then(|| (begin(&over), peak))
    };
    peaks(&curve(&lives, from, to)).into_iter().filter_map(wave).collect()
}

/// Bytes at each moment.
fn curve(lives: &[Sized], from: u32, to: u32) -> Vec<i64> {
    let mut curve = vec![0; (to - from) as usize + 1];
    for (life, bytes) in lives {
        curve[(life.start - from) as usize] += bytes.cast_signed();
        curve[(life.end.min(to) - from) as usize] -= bytes.cast_signed();
    }
    let mut sum = 0;
    for bytes in &mut curve {
        sum += *bytes;
        *bytes = sum;
    }
    curve
}

/// Each peak with the lowest places before and behind it.
fn peaks(curve: &[i64]) -> Vec<(usize, usize, usize)> {
    let most = curve.iter().copied().max().unwrap_or(0);
    let rise = ((most as f64 * RISE_PART) as i64).max(1);
    let (mut found, mut low, mut peak) = (Vec::new(), 0, None);
    for (at, bytes) in curve.iter().enumerate() {
        match peak {
            None if *bytes < curve[low] => low = at,
            None if *bytes >= curve[low] + rise => peak = Some(at),
            Some(top) if *bytes > curve[top] => peak = Some(at),
            Some(top) if *bytes <= curve[top] - rise => {
                found.push((low, top, at));
                (low, peak) = (at, None);
            }
            None | Some(_) => {}
        }
    }
    // A stretch ends where the next one begins to rise.
    let lows: Vec<usize> = found.iter().skip(1).map(|(low, ..)| *low).collect();
    let last = curve.len() - 1;
    for (at, stretch) in found.iter_mut().enumerate() {
        stretch.2 = lows.get(at).copied().unwrap_or(last);
    }
    found
}

/// Whether lives that were allocated later are freed earlier.
fn is_reversed(lives: &[Sized]) -> bool {
    let count = lives.len();
    if count < LIVES_MIN {
        return false;
    }
    let (mut reversed, mut compared) = (0usize, 0usize);
    for distance in [count / 4, count / 2] {
        for at in 0..count - distance {
            compared += 1;
            reversed += usize::from(lives[at].0.end >= lives[at + distance].0.end);
        }
    }
    reversed as f64 >= REVERSED_PART * compared as f64
}

/// The moment at which more than the edge's part of the bytes is reached.
fn begin(lives: &[Sized]) -> u32 {
    let all: u64 = lives.iter().map(|(_, bytes)| bytes).sum();
    let mut sum = 0;
    let reached = lives.iter().find(|(_, bytes)| {
        sum += bytes;
        sum as f64 > EDGE_PART * all as f64
    });
    reached.map_or(0, |(life, _)| life.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waves of ten lives of 1 KiB each, freed in the order that `end` gives from the place of the allocation.
    fn lives(count: u32, end: impl Fn(u32) -> u32) -> Vec<Sized> {
        let life = |wave: u32, at: u32| {
            let start = 100 * wave + 2 * at;
            (Life { start, end: 100 * wave + end(at), addr: 0, kind: 0 }, 1024)
        };
        (0..count)
            .flat_map(|wave| (0..10).map(move |at| (wave, at)))
            .map(|(w, at)| life(w, at))
            .collect()
    }

    #[test]
    fn memory_freed_in_reverse_order_is_a_wave() {
        let lives = lives(3, |at| 80 - 2 * at);
        assert_eq!(waves(&lives, 0, 300), [(0, 18), (100, 118), (200, 218)]);
        assert_eq!(waves(&lives, 100, 200), [(100, 118)], "lives beyond the moments are left out");
    }

    #[test]
    fn memory_freed_in_its_order_is_none() {
        assert_eq!(waves(&lives(3, |at| 40 + 2 * at), 0, 300), []);
        assert_eq!(waves(&[], 0, 300), []);
    }
}
