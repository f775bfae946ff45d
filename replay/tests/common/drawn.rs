//! A recorded run that goes on with its steps in an order drawn at random.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use trace_format::{Addr, Event, Record};

/// Names of the blocks of drawn steps: no device has such addresses.
const NAMES: u64 = 1 << 62;

/// The records up to the last of `begins`, and behind them `count` of the steps that begin there. A block lives as many
/// records as in the recording. One that outlives the recording is left out of drawn steps.
pub(crate) fn drawn(records: &[Record], begins: &[usize], count: usize, seed: u64) -> Vec<Record> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let ends = ends(records);
    let last = *begins.last().expect("a step");
    let mut run = Drawn { made: records[..last].to_vec(), ..Drawn::default() };
    for (at, end) in ends.iter().enumerate().take(last) {
        if let Some(end) = end.filter(|end| end.at >= last) {
            run.meet(records[at], end.at - last, end.freed < last);
        }
    }
    for _ in 0..count {
        let step = rng.usize(..begins.len() - 1);
        run.append(records, &ends, begins[step]..begins[step + 1]);
    }
    run.passed = usize::MAX;
    run.make_due();
    run.made
}

/// Where the block of a request is freed, and where it becomes reusable: later, if other streams use it.
#[derive(Clone, Copy)]
struct End {
    freed: usize,
    at: usize,
}

fn ends(records: &[Record]) -> Vec<Option<End>> {
    let mut ends = vec![None; records.len()];
    let (mut live, mut waiting) = (HashMap::new(), HashMap::new());
    for (at, record) in records.iter().enumerate() {
        match record.event {
            Event::Alloc { addr, .. } => _ = live.insert(addr, at),
            Event::Free { addr, pending, .. } => {
                let Some(request) = live.remove(&addr) else { continue };
                if pending {
                    waiting.insert(addr, (request, at));
                } else {
                    ends[request] = Some(End { freed: at, at });
                }
            }
            Event::FreeCompleted { addr, .. } => {
                if let Some((request, freed)) = waiting.remove(&addr) {
                    ends[request] = Some(End { freed, at });
                }
            }
            _ => {}
        }
    }
    ends
}

#[derive(Default)]
struct Drawn {
    made: Vec<Record>,
    /// Records of steps that were drawn.
    passed: usize,
    /// Ends of blocks to come, by the number of drawn records before them.
    due: BinaryHeap<Reverse<(usize, usize)>>,
    ends: Vec<Record>,
    names: u64,
}

impl Drawn {
    /// Notes the end of a block for when so many drawn records have passed.
    fn meet(&mut self, request: Record, passed: usize, is_freed: bool) {
        let Event::Alloc { addr, requested_bytes, size_bytes, .. } = request.event else { return };
        let event = if is_freed {
            Event::FreeCompleted { addr, requested_bytes, size_bytes }
        } else {
            Event::Free { addr, requested_bytes, size_bytes, pending: false }
        };
        self.due.push(Reverse((passed, self.ends.len())));
        self.ends.push(Record { event, ..request });
    }

    fn append(&mut self, records: &[Record], ends: &[Option<End>], step: Range<usize>) {
        for at in step {
            self.make_due();
            if let Event::Alloc { requested_bytes, size_bytes, stream, pool, .. } =
                records[at].event
                && let Some(end) = ends[at]
            {
                let addr = Addr(NAMES + self.names * 512);
                self.names += 1;
                let event = Event::Alloc { addr, requested_bytes, size_bytes, stream, pool };
                let request = Record { event, ..records[at] };
                self.push(request);
                self.meet(request, self.passed + end.at - at, false);
            }
            self.passed += 1;
        }
    }

    /// Appends the ends whose time has come.
    fn make_due(&mut self) {
        while let Some(Reverse((passed, end))) = self.due.peek().copied() {
            if passed > self.passed {
                return;
            }
            self.due.pop();
            self.push(self.ends[end]);
        }
    }

    fn push(&mut self, record: Record) {
        let time_ns = self.made.last().map_or(0, |last| last.time_ns + 1);
        self.made.push(Record { time_ns, ..record });
    }
}
