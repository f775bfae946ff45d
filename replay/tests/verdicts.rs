//! Each cause of an out of memory has its verdict, and what helps serves the request.

mod common;

use common::builder::{MIB, Program, options};
use common::explained::{explained, explained_beside, ooms, tape};
use replay::edit::{Edit, edit as edit_run};
use replay::explain::{MomentKind, OomVerdict, RemedyKind};
use trace_format::{Event, PoolId, Record, ScopeFilter};

/// A program, its settings, its device, and the verdict on its last request.
type Case = (fn(&mut Program), &'static str, u64, OomVerdict);

#[test]
fn each_cause_has_its_verdict() {
    let cases: [Case; 10] = [
        (|it| it.alloc("asked", 50 * MIB, 0), "", 40, OomVerdict::HugeRequest),
        (
            |it| {
                it.alloc("a", 30 * MIB, 0);
                it.alloc("asked", 20 * MIB, 0);
            },
            "",
            40,
            OomVerdict::Capacity,
        ),
        (
            |it| {
                for name in ["a", "b", "c", "d"] {
                    it.alloc(name, 5 * MIB, 0);
                }
                it.free("a");
                it.free("c");
                it.alloc("asked", 8 * MIB, 0);
            },
            "",
            20,
            OomVerdict::Fragmentation,
        ),
        (
            |it| {
                it.alloc("a", 18 * MIB, 0);
                it.alloc("b", 2 * MIB, 0);
                it.alloc("asked", 19 * MIB, 0);
            },
            "",
            40,
            OomVerdict::PartlyFragmentation,
        ),
        (
            |it| {
                it.alloc("a", 2 * MIB, 1);
                it.alloc("asked", 5 * MIB, 0);
            },
            "",
            20,
            OomVerdict::OtherStream,
        ),
        (
            |it| {
                it.alloc("a", 9 * MIB, 0);
                it.alloc("b", 9 * MIB, 0);
                it.free_later("a");
                it.alloc("asked", 9 * MIB, 0);
            },
            "",
            20,
            OomVerdict::PendingFree,
        ),
        (
            |it| {
                it.memory_fraction(0.5);
                it.alloc("a", 2 * MIB, 0);
                it.alloc("b", 2 * MIB, 1);
                it.alloc("asked", 19 * MIB, 0);
            },
            "",
            80,
            OomVerdict::Settings,
        ),
        (
            |it| {
                it.memory_fraction(0.5);
                it.alloc("a", 20 * MIB, 0);
                it.alloc("asked", 30 * MIB, 0);
            },
            "",
            80,
            OomVerdict::Settings,
        ),
        (
            |it| {
                it.alloc("a", 26 * MIB, 0);
                it.alloc("b", 34 * MIB, 0);
                it.alloc("asked", 34 * MIB, 0);
            },
            "roundup_power2_divisions:2",
            100,
            OomVerdict::Settings,
        ),
        (
            |it| {
                it.alloc_in("a", 2 * MIB, 0, PoolId(0, 1));
                it.alloc("asked", 5 * MIB, 0);
            },
            "",
            20,
            OomVerdict::Graphs,
        ),
    ];
    for (make, settings, capacity_mib, verdict) in cases {
        let mut program = Program::default();
        make(&mut program);
        let options = options(settings, Some(capacity_mib * MIB));
        let found = explained(&program.records, &options, None).unwrap();
        let oom = found.oom.expect("out of memory");
        assert_eq!(oom.verdict, verdict, "{}", oom.why);
        assert!(!oom.arithmetic.is_empty());
    }
}

#[test]
fn memory_of_others_is_the_cause_where_the_request_fits_without_them() {
    let mut program = Program::default();
    program.alloc("a", 18 * MIB, 0);
    program.alloc("asked", 18 * MIB, 0);
    let of = |others_bytes| {
        let options = options("", Some(30 * MIB));
        let found = explained_beside(&program.records, &options, None, others_bytes).unwrap();
        let oom = found.oom.expect("out of memory");
        (oom.verdict, oom.also)
    };
    assert_eq!(of(20 * MIB), (OomVerdict::OtherProcess, vec![]));
    assert_eq!(of(4 * MIB).0, OomVerdict::Capacity, "without them it does not fit either");
    // Of two parts the larger comes first.
    let mut program = Program::default();
    program.alloc("a", 18 * MIB, 0);
    program.alloc("b", 2 * MIB, 0);
    program.alloc("asked", 19 * MIB, 0);
    let (partly, others) = (OomVerdict::PartlyFragmentation, OomVerdict::OtherProcess);
    for (others_bytes, verdicts) in [(18 * MIB, [partly, others]), (30 * MIB, [others, partly])] {
        let found =
            explained_beside(&program.records, &options("", Some(40 * MIB)), None, others_bytes);
        let oom = found.unwrap().oom.expect("out of memory");
        assert_eq!((oom.verdict, oom.also.first()), (verdicts[0], Some(&verdicts[1])));
    }
}

#[test]
fn a_recorded_refusal_that_the_replay_serves_is_not_kept_back() {
    let mut program = Program::default();
    program.alloc("a", 10 * MIB, 0);
    program.alloc("asked", 20 * MIB, 0);
    let mut records = program.records.clone();
    let Event::Alloc { requested_bytes, size_bytes, stream, pool, .. } = records[1].event else {
        panic!("an allocation")
    };
    for (device_free_bytes, words) in [(70 * MIB, "memory fraction"), (2 * MIB, "graph capture")] {
        records[1].event =
            Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool };
        let found = explained(&records, &options("", Some(80 * MIB)), None).unwrap();
        let oom = found.oom.expect("out of memory");
        assert_eq!((found.moment.kind, found.moment.after_records), (MomentKind::Oom, 1));
        assert_eq!(oom.verdict, OomVerdict::Unknown);
        assert!(oom.why.contains(words), "{}", oom.why);
        assert!(oom.pinning.is_none() && oom.remedies.is_empty());
    }
}

/// What helps really helps: replayed as a person would, over the whole run.
#[test]
fn a_change_that_is_said_to_help_serves_the_request() {
    let mut program = Program::default();
    program.alloc("asked", 33 * MIB, 0);
    let (capacity, recorded) = (40 * MIB, "roundup_power2_divisions:2");
    let asked = options(recorded, Some(capacity));
    let oom = explained(&program.records, &asked, None).unwrap().oom.expect("out of memory");
    assert_eq!(oom.verdict, OomVerdict::Settings, "{}", oom.why);
    let of = |kind| {
        let found = oom.remedies.iter().find(|remedy| remedy.kind == kind);
        found.unwrap_or_else(|| panic!("{kind:?} is not among {:?}", oom.remedies)).value.clone()
    };
    let settings = of(RemedyKind::Settings);
    assert_eq!(ooms(&program.records, &options(&settings, Some(capacity))), 0, "{settings}");
    let more: u64 = of(RemedyKind::DeviceMemory).parse().unwrap();
    assert_eq!(ooms(&program.records, &options(recorded, Some(capacity + more))), 0);
    assert_eq!(ooms(&program.records, &options(recorded, Some(capacity + more - 2 * MIB))), 1);
    let edit: Edit = of(RemedyKind::SmallerBatch).parse().unwrap();
    let (edited, _) = edit_run(&tape(&program.records), &[edit]).unwrap();
    assert_eq!(ooms(&edited.devices[0].records, &asked), 0);
    assert!(oom.remedies.is_sorted_by_key(|remedy| remedy.kind));
}

#[test]
fn the_least_memory_fraction_that_helps_is_printed() {
    let of = |fraction| {
        let mut program = Program::default();
        program.memory_fraction(fraction);
        program.alloc("a", 20 * MIB, 0);
        program.alloc("asked", 30 * MIB, 0);
        program.records
    };
    let options = options("", Some(80 * MIB));
    let oom = explained(&of(0.5), &options, None).unwrap().oom.expect("out of memory");
    let found = oom.remedies.iter().find(|remedy| remedy.kind == RemedyKind::MemoryFraction);
    assert_eq!(found.expect("a fraction").value, "0.63");
    assert_eq!((ooms(&of(0.63), &options), ooms(&of(0.62), &options)), (0, 1));
}

#[test]
fn graphs_with_a_pool_each_may_share_one() {
    let mut program = Program::default();
    for (name, number, mib) in [("a", 1, 30), ("b", 2, 20), ("c", 3, 10)] {
        program.alloc_in(name, mib * MIB, 0, PoolId(0, number));
        program.free(name);
    }
    program.alloc("asked", 40 * MIB, 0);
    let options = options("", Some(80 * MIB));
    let explain = |records: &[Record]| {
        let oom = explained(records, &options, None).unwrap().oom.expect("out of memory");
        assert_eq!(oom.verdict, OomVerdict::Graphs, "{}", oom.why);
        oom.remedies.into_iter().find(|remedy| remedy.kind == RemedyKind::SharedPool)
    };
    assert_eq!(explain(&program.records), None, "pools of other uses are left alone");
    // The same pools, of graphs: a live tape has their scopes.
    let records = captured(&program.records);
    let remedy = explain(&records).expect("one pool");
    assert!(remedy.text.contains("which have 3"), "{}", remedy.text);
}

/// The records with a scope of a capture around each allocation in a private pool.
fn captured(records: &[Record]) -> Vec<Record> {
    let mut captured = Vec::new();
    for record in records {
        let pool = match record.event {
            Event::Alloc { pool, .. } if !pool.is_default() => Some(pool),
            _ => None,
        };
        let event = |event| Record { event, ..*record };
        let begin = |pool| event(Event::PoolBegin { pool, filter: ScopeFilter::Capture });
        captured.extend(pool.map(begin));
        captured.push(*record);
        captured.extend(pool.map(|pool| event(Event::PoolEnd { pool })));
    }
    captured
}
