//! The data of a page against the records that it was made of.

mod decode;
mod envelopes;
mod picture;

use std::collections::HashMap;
use std::ops::Range;

use decode::Decoded;
use replay::import::RunLimits;
use replay::modules::held_after;
use replay::tape::{Device, Tape};
use serde_json::Value;
use trace_format::{
    Addr, BlockState, BlockStatus, Category, DeviceId, Event, MarkKind, PoolId, Record,
    SegmentState, StackId, State, Stream, StringId, ThreadId,
};
use viewer::{Page, PageDevice, Source, ViewError};

/// The devices of a run, as a page has them.
fn devices(tape: &Tape) -> Result<Vec<PageDevice>, ViewError> {
    let source = |device| Source { run: "run.vtape", tape, device, facts: &[] };
    tape.devices.iter().map(|device| PageDevice::new(source(device), &mut |_| ())).collect()
}

fn page(tape: &Tape) -> Decoded {
    let mut page = Vec::new();
    Page::new("run", devices(tape).expect("a page")).write(&mut page).expect("memory");
    Decoded::of(std::str::from_utf8(&page).expect("UTF-8"))
}

/// A tape of random requests on two streams and two pools, some of them pending for a while; half of the memory is
/// there before the first record.
fn random_tape(seed: u64, records: usize) -> Tape {
    let mut random = fastrand::Rng::with_seed(seed);
    let keys = [(0, PoolId::DEFAULT), (7, PoolId::DEFAULT), (0, PoolId(0, 3))];
    let mut tape = Tape::default();
    let phases = ["forward", "backward"].map(|name| tape.stacks.add_string(name));
    let modules = ["GPT", "layers.0", "layers.1"].map(|name| tape.stacks.add_string(name));
    for (key, (stream, pool)) in keys.iter().enumerate() {
        let addr = (key as u64 + 1) << 32;
        let block = |place: u64, status| BlockState {
            addr: Addr(addr + (place << 20)),
            size_bytes: 512 << (place % 9),
            requested_bytes: 500 << (place % 9),
            status,
            stack: StackId::NONE,
        };
        let mut blocks = Vec::new();
        for place in 0..64 {
            let status =
                if place % 8 == 7 { BlockStatus::PendingFree } else { BlockStatus::Allocated };
            let used = block(place, status);
            let rest = Addr(used.addr.0 + used.size_bytes);
            let size_bytes = (1 << 20) - used.size_bytes;
            let status = BlockStatus::Inactive;
            blocks.push(used);
            blocks.push(BlockState { addr: rest, size_bytes, requested_bytes: 0, status, ..used });
        }
        let (stream, pool, size_bytes) = (Stream(*stream), *pool, 64 << 20);
        let (is_large, is_expandable, stack) = (true, false, StackId::NONE);
        let base = SegmentState {
            addr: Addr(addr),
            size_bytes,
            stream,
            pool,
            is_large,
            is_expandable,
            stack,
            blocks,
        };
        if tape.devices.is_empty() {
            tape.devices.push(Device { id: DeviceId(0), ..Device::default() });
        }
        tape.devices[0].base.segments.push(base);
    }
    let device = &mut tape.devices[0];
    let mut live: Vec<(Addr, u64, u64)> = Vec::new();
    let mut pending = Vec::new();
    for block in device.base.segments.iter().flat_map(|segment| &segment.blocks) {
        let known = (block.addr, block.size_bytes, block.requested_bytes);
        match block.status {
            BlockStatus::Allocated => live.push(known),
            BlockStatus::PendingFree => pending.push(known),
            BlockStatus::Inactive => {}
        }
    }
    let mut free: Vec<(usize, Addr)> = Vec::new();
    let mut time_ns = 1_700_000_000_000_000_000;
    while device.records.len() < records {
        let event = match random.u32(0..100) {
            0 => {
                let name = phases[random.usize(0..2)];
                Event::Mark { kind: MarkKind::Phase, name }
            }
            1 if random.bool() => {
                use MarkKind::{ModuleBackward, ModuleBegin, ModuleEnd, ModuleOwner};
                let kinds = [ModuleBegin, ModuleEnd, ModuleBackward, ModuleOwner];
                Event::Mark { kind: kinds[random.usize(0..4)], name: modules[random.usize(0..3)] }
            }
            1 => Event::Mark { kind: MarkKind::Step, name: StringId::default() },
            2 if !live.is_empty() => {
                let category = Category::ALL[random.usize(0..3)];
                Event::Category { addr: live[random.usize(0..live.len())].0, category }
            }
            3 => {
                let (addr, size_bytes) = (Addr((100 + device.records.len() as u64) << 32), 2 << 20);
                let (stream, pool) = (Stream(7), PoolId::DEFAULT);
                Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: true }
            }
            4..=20 if !pending.is_empty() => {
                let (addr, size_bytes, requested_bytes) =
                    pending.swap_remove(random.usize(0..pending.len()));
                free.push(((addr.0 >> 32) as usize - 1, addr));
                Event::FreeCompleted { addr, requested_bytes, size_bytes }
            }
            21..=60 if !free.is_empty() => {
                let (key, addr) = free.swap_remove(random.usize(0..free.len()));
                let size_bytes = 512 * random.u64(1..2000);
                let requested_bytes = size_bytes - random.u64(0..512);
                live.push((addr, size_bytes, requested_bytes));
                let (stream, pool) = (Stream(keys[key].0), keys[key].1);
                Event::Alloc { addr, requested_bytes, size_bytes, stream, pool }
            }
            _ if !live.is_empty() => {
                let (addr, size_bytes, requested_bytes) =
                    live.swap_remove(random.usize(0..live.len()));
                let is_pending = random.bool();
                if is_pending {
                    pending.push((addr, size_bytes, requested_bytes));
                } else {
                    free.push(((addr.0 >> 32) as usize - 1, addr));
                }
                Event::Free { addr, requested_bytes, size_bytes, pending: is_pending }
            }
            _ => continue,
        };
        time_ns += random.u64(0..3000);
        let (thread, stack) = (ThreadId(random.u32(1..3)), StackId::NONE);
        device.records.push(Record { time_ns, thread, stack, event });
    }
    tape
}

/// What the recorded memory is at each moment.
struct Truth {
    allocated: Vec<u64>,
    active: Vec<u64>,
    requested: Vec<u64>,
    reserved: Vec<u64>,
    /// Bytes by category, with the category that counts at the end.
    categories: Vec<[u64; 4]>,
    /// Bytes reserved by pool and stream.
    pools: Vec<HashMap<String, u64>>,
}

fn truth(device: &Device) -> Truth {
    let mut state = State::from_base(&device.base).expect("a start");
    let categories = replay::categories::Categories::of(&device.base.segments, &device.records);
    let place = |category: Option<Category>| {
        category.map_or(3, |it| Category::ALL.iter().position(|known| *known == it).unwrap())
    };
    let (mut by_category, mut requested) = ([0; 4], 0);
    let mut of_addr = HashMap::new();
    let mut pools: HashMap<String, u64> = HashMap::new();
    let key = |pool: PoolId, stream: Stream| format!("{pool}, stream {stream}");
    for segment in &device.base.segments {
        *pools.entry(key(segment.pool, segment.stream)).or_default() += segment.size_bytes;
        for block in segment.blocks.iter().filter(|it| it.status == BlockStatus::Allocated) {
            let at = place(categories.of_base(block.addr));
            of_addr.insert(block.addr, at);
            by_category[at] += block.size_bytes;
            requested += block.requested_bytes;
        }
    }
    let mut truth = Truth {
        allocated: vec![state.allocated_bytes()],
        active: vec![state.active_bytes()],
        requested: vec![requested],
        reserved: vec![state.reserved_bytes()],
        categories: vec![by_category],
        pools: vec![pools.clone()],
    };
    for (at, record) in device.records.iter().enumerate() {
        state.apply(record).expect("a record that fits");
        match record.event {
            Event::Alloc { addr, size_bytes, requested_bytes, .. } => {
                let category = place(categories.of_alloc(at));
                of_addr.insert(addr, category);
                by_category[category] += size_bytes;
                requested += requested_bytes;
            }
            Event::Free { addr, size_bytes, requested_bytes, .. } => {
                by_category[of_addr[&addr]] -= size_bytes;
                requested -= requested_bytes;
            }
            Event::SegmentAlloc { size_bytes, pool, stream, .. } => {
                *pools.entry(key(pool, stream)).or_default() += size_bytes;
            }
            _ => {}
        }
        truth.allocated.push(state.allocated_bytes());
        truth.active.push(state.active_bytes());
        truth.requested.push(requested);
        truth.reserved.push(state.reserved_bytes());
        truth.categories.push(by_category);
        truth.pools.push(pools.clone());
    }
    truth
}

fn number(value: &Value, key: &str) -> usize {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}")) as usize
}

/// The moments of each column of a level.
fn columns(device: &Value, level: usize) -> Vec<Range<usize>> {
    let (width, moments) =
        (number(&device["levels"][level], "column_moments"), number(device, "moments"));
    let columns = (0..moments).step_by(width).map(|begin| begin..moments.min(begin + width));
    let columns: Vec<_> = columns.collect();
    assert_eq!(columns.len(), number(&device["levels"][level], "columns"));
    columns
}

/// Checks the counters of a level, and returns the peak moment of each column.
fn check_series(page: &Decoded, level: usize, truth: &Truth) -> Vec<usize> {
    let columns = columns(&page.header["devices"][0], level);
    let mut peaks = Vec::new();
    for (tile, columns) in columns.chunks(4096).enumerate() {
        let mut arrays = page.arrays(&format!("d0/series/{level}/{tile}")).expect("a tile");
        let offsets = arrays.plain();
        let counters: Vec<Vec<u64>> = (0..9).map(|_| arrays.bytes_delta()).collect();
        arrays.end();
        for (at, moments) in columns.iter().enumerate() {
            let peak = moments.start + offsets[at] as usize;
            assert!(moments.contains(&peak));
            let most = |of: &[u64]| *of[moments.clone()].iter().max().unwrap();
            let least = |of: &[u64]| *of[moments.clone()].iter().min().unwrap();
            let last = |of: &[u64]| of[moments.end - 1];
            assert_eq!(most(&truth.allocated), truth.allocated[peak], "the peak is the highest");
            let expected = [
                truth.allocated[peak],
                least(&truth.allocated),
                last(&truth.allocated),
                truth.active[peak],
                truth.requested[peak],
                most(&truth.reserved),
                least(&truth.reserved),
                last(&truth.reserved),
                truth.reserved[peak],
            ];
            assert_eq!(counters.iter().map(|of| of[at]).collect::<Vec<_>>(), expected);
            peaks.push(peak);
        }
    }
    peaks
}

/// The bytes of each group at each column of a level; the tile's rest is left out.
fn bands(page: &Decoded, grouping: usize, level: usize) -> Vec<HashMap<usize, u64>> {
    let columns = columns(&page.header["devices"][0], level);
    let mut bands = Vec::new();
    for (tile, columns) in columns.chunks(512).enumerate() {
        let mut arrays =
            page.arrays(&format!("d0/bands/{grouping}/{level}/{tile}")).expect("a tile");
        let groups = arrays.rising();
        let (mut bytes, unit) = arrays.bytes();
        let (counts, places, steps) = (arrays.plain(), arrays.plain(), arrays.signed());
        arrays.end();
        assert!(groups.len() <= 64 && counts.len() == columns.len() - 1);
        let mut changes = places.iter().zip(steps);
        for count in [0].into_iter().chain(counts) {
            let mut place = 0;
            for (step, change) in changes.by_ref().take(count as usize) {
                place += *step as usize;
                bytes[place] = bytes[place]
                    .checked_add_signed(change * unit.cast_signed())
                    .expect("no group falls below zero");
            }
            bands.push(
                groups.iter().zip(&bytes).map(|(group, it)| (*group as usize, *it)).collect(),
            );
        }
        assert!(changes.next().is_none());
    }
    bands
}

fn grouping(page: &Decoded, name: &str) -> (usize, Vec<String>) {
    let groupings = page.header["devices"][0]["groupings"].as_array().unwrap();
    let at = groupings.iter().position(|it| it["name"] == name).expect(name);
    let labels = page.json("d0/names")["groups"][at].clone();
    (at, serde_json::from_value(labels).unwrap())
}

#[test]
fn at_every_level_the_stack_is_exact_at_the_peak_of_its_columns() {
    for seed in 1..=3 {
        let tape = random_tape(seed, 400_000);
        let (page, truth) = (page(&tape), truth(&tape.devices[0]));
        let levels = page.header["devices"][0]["levels"].as_array().unwrap().len();
        assert_eq!(levels, 2, "seed {seed}");
        let (category, labels) = grouping(&page, "category");
        let names = ["parameter", "gradient", "optimizer_state", "other"];
        let (pool, pool_labels) = grouping(&page, "pool and stream");
        for level in 0..levels {
            let peaks = check_series(&page, level, &truth);
            let heights = bands(&page, category, level);
            let reserved = bands(&page, pool, level);
            for (column, &peak) in peaks.iter().enumerate() {
                for (group, bytes) in &heights[column] {
                    let at = names.iter().position(|name| *name == labels[*group]).unwrap();
                    assert_eq!(*bytes, truth.categories[peak][at], "seed {seed}, moment {peak}");
                }
                assert_eq!(heights[column].values().sum::<u64>(), truth.allocated[peak]);
                for (group, bytes) in &reserved[column] {
                    assert_eq!(*bytes, truth.pools[peak][&pool_labels[*group]], "seed {seed}");
                }
                assert_eq!(reserved[column].values().sum::<u64>(), truth.reserved[peak]);
            }
        }
    }
}

#[test]
fn the_modules_are_exact_and_those_of_info() {
    let tape = random_tape(4, 20_000);
    let (page, device) = (page(&tape), &tape.devices[0]);
    let (base, records) = (&device.base.segments, &device.records);
    let (module, labels) = grouping(&page, "module");
    let (module_use, use_labels) = grouping(&page, "module use");
    let peaks = check_series(&page, 0, &truth(device));
    let (heights, uses) = (bands(&page, module, 0), bands(&page, module_use, 0));
    for (column, &peak) in peaks.iter().enumerate() {
        let rows = held_after(&tape.stacks, base, records, peak);
        let shown: HashMap<&str, u64> = heights[column]
            .iter()
            .filter(|(_, bytes)| **bytes > 0)
            .map(|(group, bytes)| (labels[*group].as_str(), *bytes))
            .collect();
        let known: HashMap<&str, u64> =
            rows.iter().map(|row| (row.module.as_str(), row.allocated_bytes)).collect();
        assert_eq!(shown, known, "moment {peak}");
        // A category hides the use in `info`.
        for name in ["kept", "temporary"] {
            let group = use_labels.iter().position(|label| label == name).expect(name);
            let listed = rows.iter().filter_map(|row| row.contents.get(name));
            let listed: u64 = listed.map(|content| content.allocated_bytes).sum();
            assert!(uses[column].get(&group).is_some_and(|bytes| *bytes >= listed), "{name}");
        }
    }
}

#[test]
fn every_life_is_in_the_lowest_node_that_covers_it_and_nowhere_else() {
    let tape = random_tape(11, 400_000);
    let (page, truth) = (page(&tape), truth(&tape.devices[0]));
    let device = &page.header["devices"][0];
    let (leaf, height) =
        (number(&device["lives"], "leaf_moments"), number(&device["lives"], "height"));
    let moments = number(device, "moments");
    let mut kinds = page.arrays("d0/kinds").unwrap();
    let (sizes, _) = kinds.bytes();
    let mut addresses = HashMap::new();
    for (at, record) in tape.devices[0].records.iter().enumerate() {
        if let Event::Alloc { addr, size_bytes, .. } = record.event {
            addresses.insert(at + 1, (addr.0, size_bytes));
        }
    }
    let (mut count, mut before) = (0, 0);
    let mut changes = vec![0_i64; moments + 1];
    for id in page.ids().filter(|id| id.starts_with("d0/lives/")) {
        let place: Vec<usize> = id.split('/').skip(2).map(|part| part.parse().unwrap()).collect();
        let (span, begin) = (leaf << place[0], place[1] * (leaf << place[0]));
        assert!(place[0] <= height);
        let mut arrays = page.arrays(id).unwrap();
        let (starts, lengths, kind) = (arrays.rising(), arrays.plain(), arrays.plain());
        let (steps, unit) = arrays.steps();
        let before_tape = arrays.rising();
        arrays.end();
        let mut last_of_kind: HashMap<u64, u64> = HashMap::new();
        for at in 0..starts.len() {
            let start = begin + starts[at] as usize;
            let end = if lengths[at] == 0 { moments } else { start + lengths[at] as usize };
            assert!(end <= begin + span, "{id} covers its lives");
            let halves = (start - begin) / (span / 2) == (end - 1 - begin) / (span / 2);
            assert!(place[0] == 0 || !halves, "no lower node covers a life of {id}");
            let addr = last_of_kind.entry(kind[at]).or_default();
            *addr = addr.wrapping_add_signed(steps[at]);
            let size_bytes = sizes[kind[at] as usize];
            if let Some(known) = addresses.get(&start) {
                assert_eq!((*addr * unit, size_bytes), *known, "{id}, life {at}");
            } else {
                assert_eq!(start, 0);
            }
            changes[start] += size_bytes.cast_signed();
            changes[end] -= size_bytes.cast_signed();
        }
        (count, before) = (count + starts.len(), before + before_tape.len());
    }
    assert_eq!(count, number(&device["lives"], "count"));
    assert_eq!(before, 3 * 56, "the allocated blocks of the start");
    let mut allocated = 0;
    for (moment, expected) in truth.allocated.iter().enumerate() {
        allocated += changes[moment];
        assert_eq!(allocated.cast_unsigned(), *expected, "moment {moment}");
    }
}

#[test]
fn a_tape_without_a_record_has_a_page_with_one_moment() {
    let tape = Tape { devices: vec![Device::default()], ..Tape::default() };
    let page = page(&tape);
    let device = &page.header["devices"][0];
    assert_eq!((number(device, "records"), number(device, "moments")), (0, 1));
    let truth = truth(&tape.devices[0]);
    assert_eq!(check_series(&page, 0, &truth), [0]);
    assert!(page.arrays("d0/times").is_none());
}

#[test]
fn a_tape_without_a_device_has_a_page() {
    assert_eq!(page(&Tape::default()).header["devices"], Value::Array(Vec::new()));
}

#[test]
fn a_record_that_contradicts_is_an_error_that_names_it() {
    let mut tape = random_tape(1, 10);
    let free =
        Event::Free { addr: Addr(0x42), requested_bytes: 1, size_bytes: 512, pending: false };
    tape.devices[0].records[7].event = free;
    let error = devices(&tape).unwrap_err().to_string();
    assert!(error.starts_with("run.vtape: device 0: record 7 (free at 0x42)"), "{error}");
}

#[test]
fn marks_and_times_are_those_of_the_records() {
    let tape = random_tape(2, 30_000);
    let page = page(&tape);
    let records = &tape.devices[0].records;
    let marked: Vec<u64> = (1..)
        .zip(records)
        .filter(|(_, record)| {
            use MarkKind::{Phase, Step};
            matches!(record.event, Event::Mark { kind: Phase | Step, .. })
        })
        .map(|(moment, _)| moment)
        .collect();
    let mut marks = page.arrays("d0/marks").unwrap();
    let (moments, kinds) = (marks.rising(), marks.plain());
    // The kinds behind are those of patterns, which are found in the records.
    let found = moments.into_iter().zip(kinds).filter(|(_, kind)| *kind < 8);
    assert_eq!(found.map(|(moment, _)| moment).collect::<Vec<_>>(), marked);
    let mut times = page.arrays("d0/times").unwrap();
    let times = times.rising();
    assert_eq!(number(&page.header["devices"][0], "time_step_moments"), 1);
    let start_ns = records[0].time_ns;
    let expected = records.iter().map(|record| record.time_ns - start_ns);
    assert_eq!(times[1..=records.len()], expected.collect::<Vec<_>>());
}

#[test]
fn the_lower_bound_is_the_most_requested_bytes_until_other_streams_are_done() {
    let tape = random_tape(6, 20_000);
    let page = page(&tape);
    let device = &tape.devices[0];
    let unit = |bytes: u64| bytes.max(1).next_multiple_of(512);
    let blocks = device.base.segments.iter().flat_map(|segment| &segment.blocks);
    let live = blocks.filter(|block| block.status != BlockStatus::Inactive);
    let mut live: HashMap<Addr, u64> =
        live.map(|block| (block.addr, unit(block.requested_bytes))).collect();
    let mut now: u64 = live.values().sum();
    let mut most = now;
    for record in &device.records {
        match record.event {
            Event::Alloc { addr, requested_bytes, .. } => {
                now += unit(requested_bytes);
                live.insert(addr, unit(requested_bytes));
            }
            Event::Free { addr, pending: false, .. } | Event::FreeCompleted { addr, .. } => {
                now -= live.remove(&addr).unwrap();
            }
            _ => {}
        }
        most = most.max(now);
    }
    assert_eq!(number(&page.header["devices"][0]["peaks"], "live_bytes") as u64, most);
}

type Patterns = HashMap<&'static str, Vec<(usize, usize)>>;

/// The patterns of a snapshot in the repository, by name, and its allocated bytes at each moment.
fn patterns(trace: &str) -> (Patterns, Vec<u64>) {
    let file = format!("{}/../tests/data/traces/{trace}.pickle.zst", env!("CARGO_MANIFEST_DIR"));
    let tape = Tape::open(file, &RunLimits::default()).unwrap();
    let mut found = Patterns::new();
    for it in &devices(&tape).unwrap()[0].patterns {
        found.entry(it.name).or_default().push((it.start as usize, it.end as usize));
    }
    (found, truth(&tape.devices[0]).allocated)
}

#[test]
fn memory_rises_in_forward_passes_and_falls_in_backward_passes() {
    for (trace, steps) in [("gpt2_train-default", 4), ("resnet50_batchsweep-oom", 6)] {
        let (found, allocated) = patterns(trace);
        let (forward, backward) = (&found["forward"], &found["backward"]);
        assert_eq!((forward.len(), backward.len()), (steps, steps), "{trace}");
        let peak = *allocated.iter().max().unwrap();
        for (up, down) in forward.iter().zip(backward) {
            assert!(up.1 <= down.0, "{trace}: {up:?}, {down:?}");
            // Activations of the smallest batch are a fifth of the parameters.
            assert!(allocated[up.1] > allocated[up.0] * 6 / 5, "{trace}: {up:?}");
            // Gradients of a small batch are as large as its activations.
            let is_large = allocated[up.1] > allocated[up.0] + peak / 3;
            assert!(
                !is_large || allocated[down.0] > allocated[down.1] * 5 / 4,
                "{trace}: {down:?}"
            );
        }
        let [spike] = found["tallest spike"][..] else { panic!("{trace}: one spike") };
        assert_eq!(allocated[spike.0], peak, "{trace}");
        let parameters = found["parameters"][0];
        assert!(parameters.1 <= forward[0].0, "{trace}: {parameters:?}");
    }
}

#[test]
fn the_logits_of_a_language_model_lie_at_the_turn() {
    let (found, _) = patterns("gpt2_train-default");
    assert_eq!(found["logits"].len(), found["forward"].len());
    for ((logits, up), down) in
        found["logits"].iter().zip(&found["forward"]).zip(&found["backward"])
    {
        assert!(up.0 < logits.0 && logits.0 < up.1 && down.0 < logits.1 && logits.1 < down.1);
    }
    assert!(
        !patterns("resnet50_batchsweep-oom").0.contains_key("logits"),
        "of a language model only"
    );
}

#[test]
fn a_run_without_a_backward_pass_has_no_patterns() {
    for trace in ["fragmentation_exercise-default", "cudagraph_pools-default"] {
        assert_eq!(patterns(trace).0.len(), 0, "{trace}");
    }
}

#[test]
fn ranges_add_up_to_the_reserved_bytes_at_every_moment() {
    let tape = random_tape(3, 20_000);
    let (page, truth) = (page(&tape), truth(&tape.devices[0]));
    let mut arrays = page.arrays("d0/ranges").unwrap();
    let (starts, lengths, addrs) = (arrays.rising(), arrays.plain(), arrays.bytes_delta());
    let (sizes, _) = arrays.bytes();
    let (owners, expandable) = (arrays.plain(), arrays.plain());
    arrays.end();
    assert!(expandable.iter().all(|it| *it == 0) && addrs[0] == 1 << 32);
    let (_, labels) = grouping(&page, "pool and stream");
    let at = |moment: u64, place: usize| {
        starts[place] <= moment && (lengths[place] == 0 || moment < starts[place] + lengths[place])
    };
    for moment in (0..20_000).step_by(997) {
        let mut sums: HashMap<String, u64> = HashMap::new();
        for place in (0..starts.len()).filter(|place| at(moment, *place)) {
            *sums.entry(labels[owners[place] as usize].clone()).or_default() += sizes[place];
        }
        assert_eq!(sums, truth.pools[moment as usize], "moment {moment}");
    }
}
