//! A moment that `explain` explained, as the page draws it.

use std::cmp::Reverse;
use std::collections::HashSet;

use replay::explain::{Explanation, MomentKind, PinningSet};
use serde::Serialize;
use trace_format::{Addr, BlockStatus, PoolId, SegmentState};

/// Segments that are drawn: those with the most bytes of the pinning set, then the largest.
const SEGMENTS_MAX: usize = 32;
/// Blocks of the pinning set that are listed.
const BLOCKS_MAX: usize = 100;
/// Parts of a segment that are drawn; smaller neighbours are merged into one.
const PARTS_MAX: u64 = 2000;

/// An explained moment of a device (`vramtape explain --html`).
#[derive(Debug, Serialize)]
pub struct ExplainPlot {
    moment: u64,
    heading: String,
    also: Vec<&'static str>,
    request: Option<Request>,
    arithmetic: Vec<Figure>,
    pinning: Option<Pinning>,
    remedies: Vec<String>,
    segments: Vec<Segment>,
    segments_left_out: usize,
}

#[derive(Debug, Serialize)]
struct Request {
    bytes: u64,
    code: String,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    how: &'static str,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Pinning {
    bytes: u64,
    lower_bound_bytes: u64,
    blocks: Vec<Block>,
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct Block {
    bytes: u64,
    code: String,
    module: Option<String>,
    /// Its place among the segments that are drawn.
    segment: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Segment {
    pool: String,
    stream: String,
    bytes: u64,
    pinning_bytes: u64,
    runs: Vec<Run>,
}

/// Neighbouring blocks of one state.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Run {
    offset: u64,
    bytes: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Live,
    Pinning,
    Free,
    #[serde(rename = "pending free")]
    PendingFree,
}

impl ExplainPlot {
    /// Of an explanation.
    pub fn new(explanation: &Explanation) -> Self {
        let oom = explanation.oom.as_ref();
        let set = oom.and_then(|oom| oom.pinning.as_ref());
        let members: HashSet<Addr> =
            set.into_iter().flat_map(|set| &set.blocks).map(|block| block.addr).collect();
        let mut segments: Vec<(&SegmentState, Segment)> = explanation
            .segments
            .iter()
            .map(|segment| (segment, drawn(segment, &members)))
            .collect();
        segments.sort_by_key(|(state, segment)| {
            (Reverse(segment.pinning_bytes), Reverse(segment.bytes), state.addr)
        });
        let segments_left_out = segments.len().saturating_sub(SEGMENTS_MAX);
        segments.truncate(SEGMENTS_MAX);
        let place = |addr| segments.iter().position(|(segment, _)| segment.addr == addr);
        let pinning = set.map(|set| Pinning {
            bytes: set.bytes,
            lower_bound_bytes: set.lower_bound_bytes,
            left_out: set.blocks.len().saturating_sub(BLOCKS_MAX),
            blocks: blocks(set, place),
        });
        Self {
            moment: explanation.moment.after_records,
            heading: heading(explanation),
            also: oom.into_iter().flat_map(|oom| &oom.also).map(|also| also.name()).collect(),
            request: oom.map(|oom| Request {
                bytes: oom.request.size_bytes,
                code: oom.request.origin.code.clone(),
            }),
            arithmetic: oom
                .into_iter()
                .flat_map(|oom| &oom.arithmetic)
                .map(|step| Figure { name: step.name, how: step.how, bytes: step.bytes })
                .collect(),
            pinning,
            remedies: oom
                .into_iter()
                .flat_map(|oom| &oom.remedies)
                .map(|remedy| remedy.text.clone())
                .collect(),
            segments: segments.into_iter().map(|(_, segment)| segment).collect(),
            segments_left_out,
        }
    }
}

fn heading(explanation: &Explanation) -> String {
    if let Some(oom) = &explanation.oom {
        return format!("{}: {}", oom.verdict, oom.why);
    }
    if let Some(oom) = &explanation.host_oom {
        return format!("{}: {}", oom.verdict, oom.why);
    }
    let moment = match explanation.moment.kind {
        MomentKind::Peak => "at the peak",
        _ => "at this moment",
    };
    format!("No request is refused {moment}.")
}

fn blocks(set: &PinningSet, place: impl Fn(Addr) -> Option<usize>) -> Vec<Block> {
    let block = |block: &replay::explain::ExplainedBlock| Block {
        bytes: block.size_bytes,
        code: block.origin.code.clone(),
        module: block.origin.module.clone(),
        segment: place(block.segment),
    };
    set.blocks.iter().take(BLOCKS_MAX).map(block).collect()
}

fn drawn(segment: &SegmentState, members: &HashSet<Addr>) -> Segment {
    let state = |addr, status| match status {
        BlockStatus::Allocated if members.contains(&addr) => State::Pinning,
        BlockStatus::Allocated => State::Live,
        BlockStatus::PendingFree => State::PendingFree,
        BlockStatus::Inactive => State::Free,
    };
    let blocks: Vec<(u64, u64, State)> = segment
        .blocks
        .iter()
        .map(|block| {
            let offset = block.addr.0 - segment.addr.0;
            (offset, block.size_bytes, state(block.addr, block.status))
        })
        .collect();
    let members = blocks.iter().filter(|(.., state)| *state == State::Pinning);
    let pinning_bytes = members.map(|(_, bytes, _)| bytes).sum();
    let pool = match segment.pool {
        PoolId::DEFAULT => "default pool".to_owned(),
        pool => format!("pool {pool}"),
    };
    let bytes = segment.size_bytes;
    let runs = merged(&blocks, bytes / PARTS_MAX);
    Segment { pool, stream: segment.stream.to_string(), bytes, pinning_bytes, runs }
}

/// Neighbours of one state are one part, and so are neighbours that are too small to be seen; the pinning set stays.
fn merged(blocks: &[(u64, u64, State)], least_bytes: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &(offset, bytes, state) in blocks {
        match runs.last_mut() {
            Some(last)
                if last.state == state
                    || (bytes < least_bytes
                        && state != State::Pinning
                        && last.state != State::Pinning) =>
            {
                last.bytes = offset + bytes - last.offset;
            }
            _ => runs.push(Run { offset, bytes, state }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_neighbours_are_one_part_and_the_pinning_set_stays() {
        let blocks = [
            (0, 100, State::Live),
            (100, 50, State::Live),
            (150, 1, State::Free),
            (151, 1, State::Pinning),
            (152, 1, State::Free),
            (153, 1, State::Live),
            (154, 90, State::Free),
        ];
        let run = |offset, bytes, state| Run { offset, bytes, state };
        let expected = [
            run(0, 151, State::Live),
            run(151, 1, State::Pinning),
            run(152, 2, State::Free),
            run(154, 90, State::Free),
        ];
        assert_eq!(merged(&blocks, 10)[..2], expected[..2]);
        assert_eq!(merged(&blocks, 10)[2..], [run(152, 92, State::Free)]);
        let bytes: u64 = merged(&blocks, 0).iter().map(|run| run.bytes).sum();
        assert_eq!(bytes, 244, "nothing is left out");
        assert_eq!(merged(&blocks, 0).len(), 6);
    }
}
