//! What every strategy keeps to, on random tapes. A row of the table is tested by being there.

use std::collections::BTreeMap;

use allocator::heap::{PoolChoice, Request};
use models::model::Model;
use proptest::collection::vec;
use proptest::prelude::*;
use settings::Compat;
use sim_device::{SimConfig, SimDevice};
use trace_format::{
    Addr, BaseState, Event, PoolId, Record, ScopeFilter, StackId, Stream, ThreadId,
};

use super::table::Visitor;
use super::{Choice, Hosted, Strategy as Placing, TABLE};
use crate::driver::Follow;
use crate::pool_peaks::PoolsApart;
use crate::report::Report;
use crate::run::{Addresses, DeviceTape, Options, run};

/// One thing a random run does.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Asks for memory.
    Alloc {
        size_bytes: u64,
        stream: u64,
        pool: u64,
    },
    /// Gives one of the blocks back, at once or later.
    Free {
        which: usize,
        pending: bool,
    },
    /// Completes the oldest pending free.
    Complete,
    EmptyCache,
    /// Time passes.
    Wait {
        us: u64,
    },
    /// The device refuses, and its flush completes what waits.
    Refused,
}

fn act() -> impl Strategy<Value = Act> {
    let size = prop_oneof![
        4 => 1_u64..2000,
        3 => 2000_u64..(1 << 20),
        3 => (1_u64 << 20)..(40 << 20),
        1 => (40_u64 << 20)..(700 << 20),
    ];
    prop_oneof![
        10 => (size, 0_u64..3, 0_u64..8).prop_map(|(size_bytes, stream, pool)| {
            Act::Alloc { size_bytes, stream, pool: pool.saturating_sub(5) }
        }),
        8 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(which, pending)| Act::Free { which, pending }),
        1 => Just(Act::Complete),
        1 => Just(Act::EmptyCache),
        1 => (0_u64..5000).prop_map(|us| Act::Wait { us }),
        1 => Just(Act::Refused),
    ]
}

/// The tape of a run that does this: two private pools, in which blocks outlive the pools' last users.
fn tape(acts: &[Act]) -> Vec<Record> {
    let mut time_ns = 1_000_000;
    let mut records = Vec::new();
    let mut push = |time_ns: u64, event: Event| {
        records.push(Record { time_ns, thread: ThreadId(0), stack: StackId::NONE, event });
    };
    let pool_id = |pool: u64| if pool == 0 { PoolId::DEFAULT } else { PoolId(0, pool) };
    for pool in 1..=2 {
        push(time_ns, Event::PoolBegin { pool: pool_id(pool), filter: ScopeFilter::Unknown });
        push(time_ns, Event::PoolEnd { pool: pool_id(pool) });
    }
    let mut live: Vec<(Addr, u64)> = Vec::new();
    let mut waiting: Vec<(Addr, u64)> = Vec::new();
    let mut named = 0;
    for (at, act) in acts.iter().enumerate() {
        time_ns += 1000;
        if at == acts.len() * 3 / 4 {
            push(time_ns, Event::PoolRelease { pool: pool_id(1) });
            push(time_ns, Event::PoolRelease { pool: pool_id(2) });
        }
        let completed = |(addr, requested_bytes): (Addr, u64)| Event::FreeCompleted {
            addr,
            requested_bytes,
            size_bytes: requested_bytes,
        };
        match *act {
            Act::Alloc { size_bytes, stream, pool } => {
                named += 1;
                let (addr, stream) = (Addr(named), Stream(stream));
                let pool = if at < acts.len() * 3 / 4 { pool_id(pool) } else { PoolId::DEFAULT };
                let requested_bytes = size_bytes;
                push(time_ns, Event::Alloc { addr, requested_bytes, size_bytes, stream, pool });
                live.push((addr, size_bytes));
            }
            Act::Free { which, pending } if !live.is_empty() => {
                let (addr, requested_bytes) = live.swap_remove(which % live.len());
                let size_bytes = requested_bytes;
                push(time_ns, Event::Free { addr, requested_bytes, size_bytes, pending });
                if pending {
                    waiting.push((addr, requested_bytes));
                }
            }
            Act::Complete if !waiting.is_empty() => push(time_ns, completed(waiting.remove(0))),
            Act::EmptyCache => {
                push(time_ns, Event::EmptyCache { pool: PoolId::DEFAULT, inferred: false });
                waiting.drain(..).for_each(|block| push(time_ns, completed(block)));
            }
            Act::Refused => {
                push(time_ns, Event::DriverRefused { size_bytes: 1 });
                waiting.drain(..).for_each(|block| push(time_ns, completed(block)));
            }
            Act::Wait { us } => time_ns += us * 1000,
            Act::Free { .. } | Act::Complete => {}
        }
    }
    records
}

/// The table, and settings that change what a strategy does.
fn choices() -> Vec<Choice> {
    let names = TABLE.iter().map(|row| row.name);
    let more = [
        "bfc:streams:separate,garbage_collection:False,fragmentation_fraction:0.001",
        "async-pool:release_threshold:4MiB,synchronises_every:20us,passes_after:5us",
        "async-pool:remap:False,reuse_opportunistic:False,reuse_internal_dependencies:False",
        "rmm-pool:maximum_pool_size:8TiB,initial_pool_size:2MiB",
    ];
    names.chain(more).map(|text| Choice::parse(text, Compat::default()).unwrap()).collect()
}

fn replay(choice: &Choice, records: &[Record], capacity_bytes: Option<u64>) -> Report {
    let options = Options {
        strategy: choice.clone(),
        capacity_bytes,
        memory_fraction: None,
        addresses: Addresses::Lowest,
        follow: Follow::default(),
    };
    let base = BaseState::default();
    run(DeviceTape { base: &base, records, text: &|_| "" }, &options, &mut |_| {}).unwrap()
}

proptest! {
    #[test]
    fn no_strategy_reserves_less_than_lives_or_more_than_there_is(
        acts in vec(act(), 1..250),
        capacity_mib in prop::option::of(64_u64..2000),
    ) {
        let records = tape(&acts);
        let capacity_bytes = capacity_mib.map(|mib| mib << 20);
        for choice in choices() {
            let report = replay(&choice, &records, capacity_bytes);
            prop_assert!(report.peak_live_bytes <= report.peak_reserved_bytes, "{report:?}");
            prop_assert!(report.peak_allocated_bytes <= report.peak_reserved_bytes, "{report:?}");
            match capacity_bytes {
                Some(capacity) => {
                    prop_assert!(report.peak_reserved_bytes <= capacity, "{report:?}");
                }
                None => prop_assert!(report.num_ooms == 0, "{report:?}"),
            }
            let is_private = |record: &Record| {
                matches!(record.event, Event::Alloc { pool, .. } if !pool.is_default())
            };
            prop_assert_eq!(report.pools.is_some(), records.iter().any(is_private));
            if let Some(PoolsApart { default, private }) = report.pools {
                for one in [default, private] {
                    prop_assert!(one.peak_live_bytes <= one.peak_reserved_bytes, "{report:?}");
                    prop_assert!(one.peak_reserved_bytes <= report.peak_reserved_bytes, "{report:?}");
                }
                let live_bytes = default.peak_live_bytes + private.peak_live_bytes;
                prop_assert!(report.peak_live_bytes <= live_bytes, "{report:?}");
            }
            let again = Report { elapsed_s: report.elapsed_s, ..replay(&choice, &records, capacity_bytes) };
            prop_assert_eq!(again, report);
        }
    }

    #[test]
    fn no_two_blocks_of_a_model_share_a_byte(
        acts in vec(act(), 1..250),
        capacity_mib in prop::option::of(64_u64..2000),
    ) {
        let capacity_bytes = capacity_mib.map_or(SimConfig::UNLIMITED_CAPACITY_BYTES, |mib| mib << 20);
        for choice in choices() {
            choice.visit(Placements { acts: &acts, capacity_bytes })?;
        }
    }
}

/// Follows a random run and looks at the places of its blocks.
struct Placements<'a> {
    acts: &'a [Act],
    capacity_bytes: u64,
}

impl Visitor for Placements<'_> {
    type Output = Result<(), TestCaseError>;

    /// The heap checks itself (`Heap::check`).
    fn native(self, _config: &settings::Config) -> Self::Output {
        Ok(())
    }

    fn model<M: Model>(self, settings: &M::Settings) -> Self::Output {
        let device = SimDevice::new(SimConfig {
            base: Addr(SimConfig::GRANULARITY_BYTES),
            length_bytes: 1 << 60,
            ..SimConfig::with_capacity(self.capacity_bytes)
        });
        let mut model = Hosted::<M>::new(device, settings.clone()).unwrap();
        let mut held = Vec::new();
        // Where blocks are, up to the moment their frees complete.
        let mut places: BTreeMap<u64, u64> = BTreeMap::new();
        let mut waiting = Vec::new();
        for (at, act) in self.acts.iter().enumerate() {
            let time_ns = at as u64 * 1000;
            let event = Event::ResetPeak;
            let record = Record { time_ns, thread: ThreadId(0), stack: StackId::NONE, event };
            model.at(&record);
            match *act {
                Act::Alloc { size_bytes, stream, pool } => {
                    let pool = if pool == 0 { PoolId::DEFAULT } else { PoolId(0, pool) };
                    let request = Request {
                        requested_bytes: size_bytes,
                        stream: Stream(stream),
                        pool: PoolChoice::Exactly(pool),
                        stack: StackId::NONE,
                    };
                    let block = model.malloc(&request).unwrap();
                    if model.has_waited() {
                        waiting.drain(..).for_each(|(_, addr)| {
                            places.remove(&addr);
                        });
                    }
                    let Some(block) = block else { continue };
                    let (addr, bytes) = block.place();
                    prop_assert!(bytes >= size_bytes, "{}: {bytes} for {size_bytes}", M::NAME);
                    let before = places.range(..addr.0 + bytes).next_back();
                    prop_assert!(
                        before.is_none_or(|(other, bytes)| other + bytes <= addr.0),
                        "{}: {addr} of {bytes} bytes lies over {before:?}",
                        M::NAME
                    );
                    places.insert(addr.0, bytes);
                    held.push(block);
                }
                Act::Free { which, pending } if !held.is_empty() => {
                    let block = held.swap_remove(which % held.len());
                    let addr = block.place().0.0;
                    if pending {
                        let ticket = model.free_deferred(block, StackId::NONE).unwrap();
                        waiting.push((ticket, addr));
                    } else {
                        model.free(block, StackId::NONE).unwrap();
                        places.remove(&addr);
                    }
                }
                Act::Complete | Act::Refused if !waiting.is_empty() => {
                    let (ticket, addr) = waiting.remove(0);
                    model.complete_free(ticket);
                    places.remove(&addr);
                }
                Act::EmptyCache => {
                    model.empty_cache(PoolId::DEFAULT, StackId::NONE).unwrap();
                    model.has_waited();
                    waiting.drain(..).for_each(|(_, addr)| {
                        places.remove(&addr);
                    });
                }
                _ => {}
            }
            let placed: u64 = places.values().sum();
            prop_assert!(placed <= model.memory().reserved_bytes(), "{}", M::NAME);
        }
        Ok(())
    }
}
