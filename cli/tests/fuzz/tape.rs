//! Tapes with valid chunks and meanings that contradict each other.

use std::collections::BTreeMap;

use trace_format::{
    Addr, BaseOrder, BaseState, DeviceId, DeviceMeta, EndKind, Frame, Meta, PageNumber, PoolId,
    PoolState, ProgramEnd, Record, ScopeFilter, ScopeState, Source, StackId, StringId, ThreadId,
    Writer,
};

use crate::chunks;
use crate::program::{Program, SETTINGS};
use crate::rng::Rng;

/// A tape of up to some hundred events.
pub(crate) fn tape(rng: &mut Rng) -> Vec<u8> {
    let devices = *rng.pick(&[1, 1, 1, 2, 3]);
    let meta = meta(rng, devices);
    let mut writer = Writer::new(Vec::new(), "in memory", &meta).expect("memory");
    let mut strings = 0;
    for text in SETTINGS.iter().take(rng.roll(SETTINGS.len() + 1)) {
        strings = writer.string(text).expect("memory").0.max(strings);
    }
    let mut stacks = 0;
    for depth in 0..rng.roll(5) {
        let name = StringId(rng.roll(strings as usize + 1) as u32);
        let frame = Frame { name, filename: name, line: rng.extreme() as u32 };
        stacks = writer.stack(&vec![frame; depth]).expect("memory").0.max(stacks);
    }
    let mut programs: Vec<_> = (0..devices).map(|_| Program::new(rng)).collect();
    let mut bases = Vec::new();
    let mut time_ns = rng.extreme();
    let count = rng.below_one_of(&[4, 20, 60, 60, 300]);
    let starts_at = if rng.once_in(3) { rng.roll(20) } else { usize::MAX };
    for at in 0..count {
        let device = rng.roll(devices);
        let event = programs[device].event(rng, strings);
        time_ns = if rng.once_in(40) { rng.extreme() } else { time_ns.wrapping_add(rng.size()) };
        if starts_at < count && at < starts_at {
            continue; // The tape begins with the state after these.
        }
        if at == starts_at || rng.once_in(100) {
            bases.push(chunks::base(device as u16, &base(rng, &programs[device])));
        }
        let stack = StackId(rng.roll(stacks as usize + 1) as u32);
        let thread = ThreadId(rng.roll(3) as u32);
        let record = Record { time_ns, thread, stack, event };
        // What no tape can hold is left out.
        if writer.push(DeviceId(device as u16), &record).is_err() {
            break;
        }
    }
    let tape = writer.finish().expect("memory");
    if bases.is_empty() && !rng.once_in(3) {
        return tape;
    }
    let mut chunks = chunks::take_apart(&tape);
    for (at, base) in bases.into_iter().enumerate() {
        let first = chunks.iter().position(|chunk| chunk.kind == chunks::EVENTS);
        let place = if at == 0 { first } else { None };
        chunks.insert(place.unwrap_or(chunks.len()), base);
    }
    if rng.once_in(4) {
        chunks::change(rng, &mut chunks);
    }
    let mut tape = chunks::put_together(&chunks);
    if rng.once_in(20) {
        tape.truncate(rng.roll(tape.len()));
    }
    tape
}

fn meta(rng: &mut Rng, devices: usize) -> Meta {
    let sized = |rng: &mut Rng| (!rng.once_in(3)).then(|| rng.extreme());
    let device = |id, rng: &mut Rng| DeviceMeta {
        id: DeviceId(id),
        name: "a GPU".to_owned(),
        total_bytes: sized(rng),
        capacity_bytes: if rng.once_in(4) { sized(rng) } else { None },
        memory_fraction: rng.once_in(8).then(|| *rng.pick(&[0.0, 0.5, 1.0, -3.0, 1e9])),
        ..DeviceMeta::default()
    };
    let kinds = [EndKind::Exit, EndKind::OutOfMemory, EndKind::Killed, EndKind::TapeFailed];
    let end = rng.once_in(2).then(|| ProgramEnd {
        kind: *rng.pick(&kinds),
        detail: "why".to_owned(),
        time_ns: Some(rng.extreme()),
        ..ProgramEnd::default()
    });
    let strategies = ["native", "expandable", "stitch", "bfc", "nothing", ""];
    Meta {
        source: *rng.pick(&[Source::Imported, Source::default()]),
        producer: "a fuzzer".to_owned(),
        strategy: rng.once_in(2).then(|| (*rng.pick(&strategies)).to_owned()),
        torch_version: rng.once_in(2).then(|| (*rng.pick(&["2.11.0", "2.15.0", "x"])).to_owned()),
        compat: rng.once_in(4).then(|| (*rng.pick(&["2.11", "2.15", "0"])).to_owned()),
        alloc_conf: if rng.once_in(2) { (*rng.pick(&SETTINGS)).to_owned() } else { String::new() },
        devices: (0..devices as u16).map(|id| device(id, rng)).collect(),
        start_time_ns: rng.once_in(2).then(|| rng.extreme()),
        end,
        part: rng.once_in(20).then(|| rng.extreme() as u32),
        dropped_records: if rng.once_in(20) { rng.extreme() } else { 0 },
        rank: rng.once_in(4).then(|| rng.extreme() as u32),
        ..Meta::default()
    }
}

fn base(rng: &mut Rng, program: &Program) -> BaseState {
    let segments = program.state(rng);
    let pool = |rng: &mut Rng| PoolId(0, rng.roll(4) as u64);
    let pools = (0..rng.roll(3)).map(|_| PoolState {
        pool: pool(rng),
        use_count: *rng.pick(&[0, 1, 2, u32::MAX]),
        own_source: rng.once_in(4),
        use_on_oom: rng.once_in(4),
        no_split: rng.once_in(4),
    });
    let pools = pools.collect();
    let scopes =
        (0..rng.roll(2)).map(|_| ScopeState { pool: pool(rng), filter: ScopeFilter::Thread });
    let scopes = scopes.collect();
    let pages: BTreeMap<Addr, PageNumber> = (0..rng.roll(4))
        .map(|_| (Addr(rng.extreme()), PageNumber(rng.extreme() as u32)))
        .chain(segments.first().map(|segment| (segment.addr, PageNumber(5))))
        .collect();
    BaseState {
        time_ns: rng.extreme(),
        pages: pages.into_iter().collect(),
        segments,
        pools,
        scopes,
        captures: (0..rng.roll(2)).map(|_| pool(rng)).collect(),
        settings: (*rng.pick(&SETTINGS)).to_owned(),
        memory_fraction: rng.once_in(6).then(|| *rng.pick(&[0.0, 0.5, 1.0, -1.0, f64::NAN])),
        stats: String::new(),
        order: BaseOrder::default(),
    }
}
