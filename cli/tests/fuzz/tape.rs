//! Tapes with valid chunks and meanings that contradict each other.

use trace_format::{
    BaseOrder, BaseState, DeviceId, DeviceMeta, EndKind, Frame, Meta, PoolId, PoolState,
    ProgramEnd, Record, ScopeFilter, ScopeState, Source, StackId, StringId, ThreadId, Writer,
};

use crate::chunks;
use crate::dice::Dice;
use crate::program::{Program, SETTINGS};

/// A tape of up to some hundred events.
pub(crate) fn tape(dice: &mut Dice) -> Vec<u8> {
    let devices = *dice.pick(&[1, 1, 1, 2, 3]);
    let meta = meta(dice, devices);
    let mut writer = Writer::new(Vec::new(), "in memory", &meta).expect("memory");
    let mut strings = 0;
    for text in SETTINGS.iter().take(dice.roll(SETTINGS.len() + 1)) {
        strings = writer.string(text).expect("memory").0.max(strings);
    }
    let mut stacks = 0;
    for depth in 0..dice.roll(5) {
        let name = StringId(dice.roll(strings as usize + 1) as u32);
        let frame = Frame { name, filename: name, line: dice.extreme() as u32 };
        stacks = writer.stack(&vec![frame; depth]).expect("memory").0.max(stacks);
    }
    let mut programs: Vec<_> = (0..devices).map(|_| Program::new(dice)).collect();
    let mut bases = Vec::new();
    let mut time_ns = dice.extreme();
    let count = dice.below_one_of(&[4, 20, 60, 60, 300]);
    let starts_at = if dice.once_in(3) { dice.roll(20) } else { usize::MAX };
    for at in 0..count {
        let device = dice.roll(devices);
        let event = programs[device].event(dice, strings);
        time_ns = if dice.once_in(40) { dice.extreme() } else { time_ns.wrapping_add(dice.size()) };
        if starts_at < count && at < starts_at {
            continue; // The tape begins with the state after these.
        }
        if at == starts_at || dice.once_in(100) {
            bases.push(chunks::base(device as u16, &base(dice, &programs[device])));
        }
        let stack = StackId(dice.roll(stacks as usize + 1) as u32);
        let thread = ThreadId(dice.roll(3) as u32);
        let record = Record { time_ns, thread, stack, event };
        // What no tape can hold is left out.
        if writer.push(DeviceId(device as u16), &record).is_err() {
            break;
        }
    }
    let tape = writer.finish().expect("memory");
    if bases.is_empty() && !dice.once_in(3) {
        return tape;
    }
    let mut chunks = chunks::take_apart(&tape);
    for (at, base) in bases.into_iter().enumerate() {
        let first = chunks.iter().position(|chunk| chunk.kind == chunks::EVENTS);
        let place = if at == 0 { first } else { None };
        chunks.insert(place.unwrap_or(chunks.len()), base);
    }
    if dice.once_in(4) {
        chunks::change(dice, &mut chunks);
    }
    let mut tape = chunks::put_together(&chunks);
    if dice.once_in(20) {
        tape.truncate(dice.roll(tape.len()));
    }
    tape
}

fn meta(dice: &mut Dice, devices: usize) -> Meta {
    let sized = |dice: &mut Dice| (!dice.once_in(3)).then(|| dice.extreme());
    let device = |id, dice: &mut Dice| DeviceMeta {
        id: DeviceId(id),
        name: "a GPU".to_owned(),
        total_bytes: sized(dice),
        capacity_bytes: if dice.once_in(4) { sized(dice) } else { None },
        memory_fraction: dice.once_in(8).then(|| *dice.pick(&[0.0, 0.5, 1.0, -3.0, 1e9])),
        ..DeviceMeta::default()
    };
    let kinds = [EndKind::Exit, EndKind::OutOfMemory, EndKind::Killed, EndKind::TapeFailed];
    let end = dice.once_in(2).then(|| ProgramEnd {
        kind: *dice.pick(&kinds),
        detail: "why".to_owned(),
        time_ns: Some(dice.extreme()),
        ..ProgramEnd::default()
    });
    let strategies = ["native", "expandable", "stitch", "bfc", "nothing", ""];
    Meta {
        source: *dice.pick(&[Source::Imported, Source::default()]),
        producer: "a fuzzer".to_owned(),
        strategy: dice.once_in(2).then(|| (*dice.pick(&strategies)).to_owned()),
        torch_version: dice.once_in(2).then(|| (*dice.pick(&["2.11.0", "2.15.0", "x"])).to_owned()),
        compat: dice.once_in(4).then(|| (*dice.pick(&["2.11", "2.15", "0"])).to_owned()),
        alloc_conf: if dice.once_in(2) {
            (*dice.pick(&SETTINGS)).to_owned()
        } else {
            String::new()
        },
        devices: (0..devices as u16).map(|id| device(id, dice)).collect(),
        start_time_ns: dice.once_in(2).then(|| dice.extreme()),
        end,
        part: dice.once_in(20).then(|| dice.extreme() as u32),
        dropped_records: if dice.once_in(20) { dice.extreme() } else { 0 },
        rank: dice.once_in(4).then(|| dice.extreme() as u32),
        ..Meta::default()
    }
}

fn base(dice: &mut Dice, program: &Program) -> BaseState {
    let segments = program.state(dice);
    let pool = |dice: &mut Dice| PoolId(0, dice.roll(4) as u64);
    let pools = (0..dice.roll(3)).map(|_| PoolState {
        pool: pool(dice),
        use_count: *dice.pick(&[0, 1, 2, u32::MAX]),
        own_source: dice.once_in(4),
        use_on_oom: dice.once_in(4),
        no_split: dice.once_in(4),
    });
    let pools = pools.collect();
    let scopes =
        (0..dice.roll(2)).map(|_| ScopeState { pool: pool(dice), filter: ScopeFilter::Thread });
    let scopes = scopes.collect();
    BaseState {
        time_ns: dice.extreme(),
        segments,
        pools,
        scopes,
        captures: (0..dice.roll(2)).map(|_| pool(dice)).collect(),
        settings: (*dice.pick(&SETTINGS)).to_owned(),
        memory_fraction: dice.once_in(6).then(|| *dice.pick(&[0.0, 0.5, 1.0, -1.0, f64::NAN])),
        stats: String::new(),
        order: BaseOrder::default(),
    }
}
