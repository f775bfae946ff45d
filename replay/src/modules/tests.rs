use proptest::prelude::*;
use trace_format::{Addr, Category, PoolId, StackId, Stream};

use super::*;
use MarkKind::{ModuleBackward, ModuleBegin, ModuleEnd, ModuleOwner, Phase};

const MODEL: StringId = StringId(1);
const LAYER: StringId = StringId(2);
const BACKWARD: StringId = StringId(3);
const FORWARD: StringId = StringId(4);

fn stacks() -> Stacks {
    let mut stacks = Stacks::default();
    for (text, id) in
        [("GPT", MODEL), ("layers.0", LAYER), ("backward", BACKWARD), ("forward", FORWARD)]
    {
        assert_eq!(stacks.add_string(text), id);
    }
    stacks
}

fn record(thread: u32, event: Event) -> Record {
    Record { time_ns: 0, thread: ThreadId(thread), stack: StackId::NONE, event }
}

fn mark(thread: u32, kind: MarkKind, name: StringId) -> Record {
    record(thread, Event::Mark { kind, name })
}

fn alloc(thread: u32, addr: u64) -> Record {
    let (requested_bytes, size_bytes) = (100, 512);
    let (addr, stream, pool) = (Addr(addr), Stream(0), PoolId::DEFAULT);
    record(thread, Event::Alloc { addr, requested_bytes, size_bytes, stream, pool })
}

fn free(thread: u32, addr: u64) -> Record {
    let (requested_bytes, size_bytes, pending) = (100, 512, false);
    record(thread, Event::Free { addr: Addr(addr), requested_bytes, size_bytes, pending })
}

fn parameter(thread: u32, addr: u64) -> Record {
    record(thread, Event::Category { addr: Addr(addr), category: Category::Parameter })
}

/// The modules of the live blocks at the end, with what they hold.
fn held(records: &[Record]) -> Vec<(String, Vec<(&'static str, u64)>)> {
    let rows = held_after(&stacks(), &[], records, records.len());
    rows.into_iter().map(|row| (row.module.clone(), contents(&row))).collect()
}

fn contents(row: &ModuleMemory) -> Vec<(&'static str, u64)> {
    row.contents.iter().map(|(name, content)| (*name, content.allocated_bytes)).collect()
}

fn of(records: &[Record], thread: u32) -> ModuleOfAlloc {
    let mut open = OpenModules::new(&stacks());
    for record in records {
        open.follow(record);
    }
    open.of_alloc(ThreadId(thread))
}

#[test]
fn an_allocation_belongs_to_the_innermost_open_call_of_its_thread() {
    let records = [mark(1, ModuleBegin, MODEL), mark(1, ModuleBegin, LAYER)];
    assert_eq!(of(&records, 1).module, LAYER);
    assert_eq!(of(&records, 2), ModuleOfAlloc::default());
    let ended = [&records[..], &[mark(1, ModuleEnd, LAYER)]].concat();
    assert_eq!(of(&ended, 1).module, MODEL);
}

#[test]
fn the_end_of_a_call_ends_those_inside_it_and_no_other() {
    let begun = [mark(1, ModuleBegin, MODEL), mark(1, ModuleBegin, LAYER)];
    let interrupted = [&begun[..], &[mark(1, ModuleEnd, MODEL)]].concat();
    assert_eq!(of(&interrupted, 1), ModuleOfAlloc::default());
    let unknown = [&begun[..1], &[mark(1, ModuleEnd, LAYER), mark(2, ModuleEnd, MODEL)]].concat();
    assert_eq!(of(&unknown, 1).module, MODEL);
    let lost = [&begun[..], &[record(1, Event::Lost { count: 3 })]].concat();
    assert_eq!(of(&lost, 1), ModuleOfAlloc::default());
}

#[test]
fn the_next_phase_ends_the_backward_pass_of_a_module() {
    let mut records = vec![mark(1, Phase, BACKWARD), mark(2, ModuleBackward, LAYER)];
    assert_eq!(of(&records, 2), ModuleOfAlloc { module: LAYER, call: None });
    assert_eq!(of(&records, 1).module, StringId::default());
    records.push(mark(1, Phase, FORWARD));
    assert_eq!(of(&records, 2), ModuleOfAlloc::default());
}

#[test]
fn a_checkpoints_call_is_inside_the_backward_pass_and_not_of_the_forward_pass() {
    let mut records =
        vec![mark(1, Phase, BACKWARD), mark(2, ModuleBackward, MODEL), mark(2, ModuleBegin, LAYER)];
    assert_eq!(of(&records, 2), ModuleOfAlloc { module: LAYER, call: None });
    records.push(mark(2, ModuleEnd, LAYER));
    assert_eq!(of(&records, 2).module, MODEL);
}

#[test]
fn what_outlives_its_call_is_kept() {
    let mut records = vec![
        mark(1, ModuleBegin, MODEL),
        alloc(1, 0),
        mark(1, ModuleBegin, LAYER),
        alloc(1, 1024),
        alloc(1, 2048),
        free(1, 2048),
        mark(1, ModuleEnd, LAYER),
    ];
    let layer = |contents: &[(&'static str, u64)]| ("layers.0".to_owned(), contents.to_vec());
    let model = ("GPT".to_owned(), vec![("other", 512)]);
    assert_eq!(held(&records), [model.clone(), layer(&[("kept", 512)])]);
    let inside = held_after(&stacks(), &[], &records, 5);
    assert_eq!(contents(&inside[0]), [("kept", 512), ("temporary", 512)], "later records count");
    // The call of what is freed now is still open.
    records.extend([free(1, 1024), free(1, 0), mark(1, ModuleEnd, MODEL), alloc(1, 0)]);
    assert_eq!(held(&records), [(OUTSIDE.to_owned(), vec![("other", 512)])]);
    let first = &held_after(&stacks(), &[], &records, 2)[0];
    assert_eq!(contents(first), [("temporary", 512)]);
    assert_eq!((first.requested_bytes, first.contents["temporary"].requested_bytes), (100, 100));
}

#[test]
fn a_category_with_an_owner_gives_the_block_to_it() {
    let records = [
        alloc(1, 0),
        alloc(1, 512),
        mark(1, ModuleOwner, LAYER),
        parameter(1, 0),
        parameter(2, 512),
        mark(1, ModuleOwner, StringId::default()),
        parameter(1, 512),
    ];
    let rows = [("layers.0", "parameter"), (OUTSIDE, "parameter")];
    assert_eq!(held(&records), rows.map(|(module, what)| (module.to_owned(), vec![(what, 512)])));
}

#[test]
fn a_run_without_modules_has_no_rows() {
    assert!(held_after(&stacks(), &[], &[alloc(1, 0), mark(1, Phase, FORWARD)], 1).is_empty());
}

#[test]
fn endless_calls_are_bounded() {
    let mut open = OpenModules::new(&stacks());
    for _ in 0..3 * OPEN_CALLS_MAX {
        open.follow(&mark(1, ModuleBegin, MODEL));
    }
    assert_eq!(open.threads[&ThreadId(1)].open.len(), OPEN_CALLS_MAX);
}

/// Any marks, allocations, frees and categories of two threads.
fn records() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec((0..12u8, 0..2u32, 0..8u64, 0..5u32), 0..200).prop_map(|chosen| {
        let mut live = [false; 8];
        let mut records = Vec::new();
        for (what, thread, block, name) in chosen {
            let is_live = &mut live[block as usize];
            records.push(match what {
                0..=4 => mark(
                    thread,
                    [ModuleBegin, ModuleEnd, ModuleBackward, ModuleOwner, Phase][what as usize],
                    StringId(name),
                ),
                5 => record(thread, Event::Lost { count: 1 }),
                6 if *is_live => parameter(thread, block * 512),
                _ if *is_live => {
                    *is_live = false;
                    free(thread, block * 512)
                }
                _ => {
                    *is_live = true;
                    alloc(thread, block * 512)
                }
            });
        }
        records
    })
}

proptest! {
    #[test]
    fn the_modules_add_up_to_what_is_allocated_at_every_moment(records in records()) {
        let mut live_bytes = 0;
        for after in 0..=records.len() {
            if let Some(record) = after.checked_sub(1).map(|last| &records[last]) {
                match record.event {
                    Event::Alloc { size_bytes, .. } => live_bytes += size_bytes,
                    Event::Free { size_bytes, .. } => live_bytes -= size_bytes,
                    _ => {}
                }
            }
            let rows = held_after(&stacks(), &[], &records, after);
            if are_marked(&records) {
                let by_module: u64 = rows.iter().map(|row| row.allocated_bytes).sum();
                let contents = rows.iter().flat_map(contents).map(|(_, bytes)| bytes);
                prop_assert_eq!(by_module, live_bytes);
                prop_assert_eq!(contents.sum::<u64>(), live_bytes);
            } else {
                prop_assert!(rows.is_empty());
            }
        }
    }
}
