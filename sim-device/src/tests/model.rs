//! Random calls against a naive model: one entry per granule, searched from the lowest.

use proptest::prelude::*;

use super::*;

/// Granules of address space and of physical memory: small, so that both run out.
const SPACE: usize = 24;
const CAPACITY: u64 = 16;
/// In the middle of the space is a number of granules that 64 divides, where leaves of page tables meet.
const BASE: u64 = 52 * GRANULE;

#[derive(Clone, Copy, Debug)]
enum Call {
    Malloc(u64),
    Free(u64),
    Reserve(u64),
    Unreserve(u64, u64),
    Create(u64),
    Release(u64),
    Map(u64, u64, u64),
    Unmap(u64, u64),
    SetAccess(u64, u64),
    MapPages(u64, u64),
    UnmapPages(u64, u64),
    MovePages(u64, u64, u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Taken {
    No,
    /// Allocation or reservation by number.
    Allocated(usize),
    Reserved(usize),
}

/// A call that was granted, with the granule or the number of pages that it answered with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Granted(Option<usize>);

const DONE: Granted = Granted(None);

/// The naive model. Handles are numbered from 1 as they are created.
struct Model {
    taken: [Taken; SPACE],
    /// Per granule the mapping there, as (number of the mapping, handle).
    mapped: [Option<(usize, u64)>; SPACE],
    accessible: [bool; SPACE],
    /// Per granule whether a page without a handle is there.
    paged: [bool; SPACE],
    /// Per handle its granules and whether it is still held.
    handles: Vec<(u64, bool)>,
    serial: usize,
}

impl Model {
    fn new() -> Self {
        Self {
            taken: [Taken::No; SPACE],
            mapped: [None; SPACE],
            accessible: [false; SPACE],
            paged: [false; SPACE],
            handles: Vec::new(),
            serial: 0,
        }
    }

    fn used(&self) -> u64 {
        let allocated =
            self.taken.iter().filter(|taken| matches!(taken, Taken::Allocated(_))).count();
        let alive = self.handles.iter().enumerate().filter(|&(index, &(_, held))| {
            held || self.mapped.iter().flatten().any(|&(_, handle)| handle == index as u64 + 1)
        });
        let paged = self.paged.iter().filter(|paged| **paged).count();
        (allocated + paged) as u64 + alive.map(|(_, &(size, _))| size).sum::<u64>()
    }

    fn lowest_hole(&self, size: u64) -> Option<usize> {
        let size = size as usize;
        (0..=SPACE.checked_sub(size)?)
            .find(|&at| self.taken[at..at + size].iter().all(|&taken| taken == Taken::No))
    }

    /// The granules from `at`, when the whole range is inside the space.
    fn range(at: u64, size: u64) -> Option<std::ops::Range<usize>> {
        let (start, end) = (at as usize, (at + size) as usize);
        (size > 0 && end <= SPACE).then_some(start..end)
    }

    /// Whether the range is inside one reservation and nothing is mapped there.
    fn is_vacant(&self, range: &std::ops::Range<usize>) -> bool {
        let taken = self.taken[range.start];
        let inside = self.taken[range.clone()].iter().all(|&t| t == taken);
        let empty = range.clone().all(|at| self.mapped[at].is_none() && !self.paged[at]);
        matches!(taken, Taken::Reserved(_)) && inside && empty
    }

    /// Whether mappings cover the range exactly.
    fn whole(&self, range: &std::ops::Range<usize>) -> bool {
        let mapping = |at: usize| self.mapped.get(at).copied().flatten().map(|(number, _)| number);
        range.clone().all(|at| mapping(at).is_some())
            && (range.start == 0 || mapping(range.start - 1) != mapping(range.start))
            && mapping(range.end - 1) != mapping(range.end)
    }

    /// Whether the call is granted, and the granule it answers with, if any.
    fn apply(&mut self, call: Call) -> Option<Granted> {
        self.serial += 1;
        match call {
            Call::Malloc(size) | Call::Reserve(size) => {
                let malloc = matches!(call, Call::Malloc(_));
                if size == 0 || (malloc && self.used() + size > CAPACITY) {
                    return None;
                }
                let at = self.lowest_hole(size)?;
                let mark = if malloc { Taken::Allocated } else { Taken::Reserved };
                self.taken[at..at + size as usize].fill(mark(self.serial));
                Some(Granted(Some(at)))
            }
            Call::Free(at) => {
                let taken = *self.taken.get(at as usize)?;
                let starts = at == 0 || self.taken[at as usize - 1] != taken;
                if !matches!(taken, Taken::Allocated(_)) || !starts {
                    return None;
                }
                self.taken.iter_mut().filter(|t| **t == taken).for_each(|t| *t = Taken::No);
                Some(DONE)
            }
            Call::Unreserve(at, size) => {
                let range = Self::range(at, size)?;
                let taken = self.taken[range.start];
                let whole = (0..SPACE).all(|i| (self.taken[i] == taken) == range.contains(&i));
                let mapped = range.clone().any(|at| self.mapped[at].is_some() || self.paged[at]);
                if !matches!(taken, Taken::Reserved(_)) || !whole || mapped {
                    return None;
                }
                self.taken[range].fill(Taken::No);
                Some(DONE)
            }
            Call::Create(size) => {
                if size == 0 || self.used() + size > CAPACITY {
                    return None;
                }
                self.handles.push((size, true));
                Some(DONE)
            }
            Call::Release(handle) => {
                let (_, held) = self.handles.get_mut((handle as usize).checked_sub(1)?)?;
                std::mem::take(held).then_some(DONE)
            }
            Call::Map(at, size, handle) => {
                let range = Self::range(at, size)?;
                let &(whole, held) = self.handles.get((handle as usize).checked_sub(1)?)?;
                if !held || whole != size || !self.is_vacant(&range) {
                    return None;
                }
                self.mapped[range.clone()].fill(Some((self.serial, handle)));
                self.accessible[range].fill(false);
                Some(DONE)
            }
            Call::Unmap(at, size) => {
                let range = Self::range(at, size).filter(|range| self.whole(range))?;
                self.mapped[range.clone()].fill(None);
                self.accessible[range].fill(false);
                Some(DONE)
            }
            Call::SetAccess(at, size) => {
                let range = Self::range(at, size).filter(|range| self.whole(range))?;
                self.accessible[range].fill(true);
                Some(DONE)
            }
            Call::MapPages(at, count) => {
                let range = Self::range(at, count).filter(|range| self.is_vacant(range))?;
                let mapped = count.min(CAPACITY - self.used()) as usize;
                self.paged[range.start..range.start + mapped].fill(true);
                Some(Granted(Some(mapped)))
            }
            Call::UnmapPages(at, count) => {
                let all = |range: &std::ops::Range<usize>| range.clone().all(|at| self.paged[at]);
                let range = Self::range(at, count).filter(all)?;
                self.paged[range].fill(false);
                Some(DONE)
            }
            Call::MovePages(from, to, count) => {
                let to = Self::range(to, count).filter(|to| self.is_vacant(to))?;
                self.apply(Call::UnmapPages(from, count))?;
                self.paged[to].fill(true);
                Some(DONE)
            }
        }
    }
}

fn addr(granule: u64) -> Addr {
    Addr(BASE + granule * GRANULE)
}

fn perform(sim: &mut SimDevice, call: Call) -> Option<Granted> {
    let granule = |addr: Addr| Granted(Some(((addr.0 - BASE) / GRANULE) as usize));
    let bytes = |granules: u64| granules * GRANULE;
    match call {
        Call::Malloc(size) => sim.malloc(bytes(size)).map(granule),
        Call::Free(at) => sim.free(addr(at)).map(|()| DONE),
        Call::Reserve(size) => sim.reserve(bytes(size)).map(granule),
        Call::Unreserve(at, size) => sim.unreserve(addr(at), bytes(size)).map(|()| DONE),
        Call::Create(size) => sim.create(bytes(size), HandleType::None).map(|_| DONE),
        Call::Release(handle) => sim.release(PhysicalHandle(handle)).map(|()| DONE),
        Call::Map(at, size, handle) => {
            sim.map(addr(at), bytes(size), PhysicalHandle(handle)).map(|()| DONE)
        }
        Call::Unmap(at, size) => sim.unmap(addr(at), bytes(size)).map(|()| DONE),
        Call::SetAccess(at, size) => {
            sim.set_access(addr(at), bytes(size), DeviceId(0)).map(|()| DONE)
        }
        Call::MapPages(at, count) => {
            let mapped = sim.map_pages(addr(at), GRANULE, count);
            mapped.map(|mapped| Granted(Some(mapped as usize)))
        }
        Call::UnmapPages(at, count) => sim.unmap_pages(addr(at), GRANULE, count).map(|()| DONE),
        Call::MovePages(from, to, count) => {
            sim.move_pages(addr(from), addr(to), GRANULE, count).map(|()| DONE)
        }
    }
    .ok()
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let at = || 0..SPACE as u64;
    let size = || 0..6_u64;
    let call = prop_oneof![
        size().prop_map(Call::Malloc),
        at().prop_map(Call::Free),
        size().prop_map(Call::Reserve),
        (at(), size()).prop_map(|(at, size)| Call::Unreserve(at, size)),
        (1..3_u64).prop_map(Call::Create),
        (0..12_u64).prop_map(Call::Release),
        (at(), 1..3_u64, 1..6_u64).prop_map(|(at, size, handle)| Call::Map(at, size, handle)),
        (at(), 1..4_u64).prop_map(|(at, size)| Call::Unmap(at, size)),
        (at(), 1..4_u64).prop_map(|(at, size)| Call::SetAccess(at, size)),
        (at(), size()).prop_map(|(at, count)| Call::MapPages(at, count)),
        (at(), size()).prop_map(|(at, count)| Call::UnmapPages(at, count)),
        (at(), at(), 1..3_u64).prop_map(|(from, to, count)| Call::MovePages(from, to, count)),
    ];
    proptest::collection::vec(call, 0..120)
}

proptest! {
    #[test]
    fn memory_calls_answer_as_the_naive_model(calls in calls()) {
        let mut model = Model::new();
        let mut sim = SimDevice::new(SimConfig {
            base: Addr(BASE),
            length_bytes: SPACE as u64 * GRANULE,
            ..SimConfig::with_capacity(CAPACITY * GRANULE)
        });
        for (step, &call) in calls.iter().enumerate() {
            prop_assert_eq!(perform(&mut sim, call), model.apply(call), "step {}: {:?}", step, call);
            prop_assert_eq!(sim.used_bytes(), model.used() * GRANULE);
            for at in 0..SPACE {
                let allocated = matches!(model.taken[at], Taken::Allocated(_));
                let usable = allocated || model.accessible[at] || model.paged[at];
                prop_assert_eq!(sim.accessible(addr(at as u64), DeviceId(0)), usable);
            }
        }
        let empty = model.taken.iter().all(|&t| t == Taken::No) && model.used() == 0;
        prop_assert_eq!(sim.is_empty(), empty);
    }
}
