//! Tapes of every released version stay readable, down to each field of each event.

use std::path::PathBuf;

use trace_format::{
    Addr, BaseOrder, BaseState, BlockState, BlockStatus, Category, DeviceId, DeviceMeta, Event,
    FIRST_VERSION, Frame, FrameText, Index, Item, MarkKind, Meta, PageNumber, PoolId, PoolState,
    Reader, Record, ScopeFilter, ScopeState, SegmentState, Source, StackId, Stream, StringId,
    ThreadId, VERSION, Writer,
};

const GPU: DeviceId = DeviceId(0);
const OTHER_GPU: DeviceId = DeviceId(3);
const POOL: PoolId = PoolId(0, 7);
const SEGMENT: Addr = Addr(0x7f00_0020_0000);

fn path(version: u32) -> PathBuf {
    let name = format!("tests/golden/v{version}.vtape");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn meta() -> Meta {
    Meta {
        source: Source::Imported,
        producer: "vramtape 0.1.0".to_owned(),
        strategy: Some("native".to_owned()),
        torch_version: Some("2.11.0+cu130".to_owned()),
        compat: Some("2.11".to_owned()),
        alloc_conf: "max_split_size_mb:128".to_owned(),
        vramtape_conf: "record:file".to_owned(),
        devices: vec![DeviceMeta {
            id: GPU,
            name: "Simulated".to_owned(),
            total_bytes: Some(80 << 30),
            capacity_bytes: Some(40 << 30),
            memory_fraction: Some(0.5),
            ..DeviceMeta::default()
        }],
        pid: Some(4711),
        rank: Some(2),
        hostname: Some("golden".to_owned()),
        start_time_ns: Some(1_800_000_000_000_000_000),
        clock: Some("unix".to_owned()),
        inferred: vec!["empty_cache from segments that went away".to_owned()],
        ..Meta::default()
    }
}

fn base(version: u32) -> BaseState {
    let block = |at: u64, size_bytes, status| BlockState {
        addr: Addr(SEGMENT.0 + at),
        size_bytes,
        requested_bytes: size_bytes - 12,
        status,
        stack: StackId(1),
    };
    BaseState {
        time_ns: 1_800_000_000_000_000_001,
        segments: vec![SegmentState {
            addr: SEGMENT,
            size_bytes: 2 << 20,
            stream: Stream(0x5555_0001),
            pool: POOL,
            is_large: false,
            is_expandable: true,
            stack: StackId(2),
            blocks: vec![
                block(0, 512, BlockStatus::Allocated),
                block(512, 1024, BlockStatus::PendingFree),
                block(1536, (2 << 20) - 1536, BlockStatus::Inactive),
            ],
        }],
        pages: if version < 4 {
            vec![]
        } else {
            vec![(SEGMENT, PageNumber(9)), (Addr(SEGMENT.0 + (6 << 20)), PageNumber(3))]
        },
        pools: vec![PoolState {
            pool: POOL,
            use_count: 2,
            own_source: true,
            use_on_oom: false,
            no_split: true,
        }],
        scopes: vec![ScopeState { pool: POOL, filter: ScopeFilter::Thread }],
        captures: vec![POOL],
        settings: "expandable_segments:True".to_owned(),
        memory_fraction: Some(0.25),
        stats: r#"{"num_ooms":3}"#.to_owned(),
        order: BaseOrder::default(),
    }
}

/// Each event of a version, and each of its flags both ways.
fn events(version: u32) -> Vec<Event> {
    let (addr, stream, pool) = (Addr(SEGMENT.0 + 4096), Stream(9), POOL);
    let (requested_bytes, size_bytes, is_large) = (1000, 1024, true);
    let mut events = vec![
        Event::SegmentAlloc { addr: Addr(1 << 40), size_bytes: 20 << 20, stream, pool, is_large },
        Event::SegmentMap { addr, size_bytes: 2 << 20, stream, pool, is_large: false },
        Event::Alloc { addr, requested_bytes, size_bytes, stream, pool: PoolId::DEFAULT },
        Event::RecordStream { addr, stream: Stream(u64::MAX) },
        Event::Free { addr, requested_bytes, size_bytes, pending: true },
        Event::FreeCompleted { addr, requested_bytes, size_bytes },
        Event::Alloc { addr, requested_bytes: 1, size_bytes: 512, stream, pool },
        Event::Free { addr, requested_bytes: 1, size_bytes: 512, pending: false },
        Event::SegmentUnmap { addr, size_bytes: 2 << 20, stream, pool, is_large: false },
        Event::SegmentFree { addr: Addr(1 << 40), size_bytes: 20 << 20, stream, pool, is_large },
        Event::PoolEnd { pool },
        Event::PoolRelease { pool },
        Event::PoolNoSplit { pool },
        Event::CaptureBegin { pool },
        Event::CaptureEnd { pool },
        Event::Settings { text: StringId(3) },
        Event::MemoryFraction { fraction: 0.75 },
        Event::ResetPeak,
        Event::ResetAccumulated,
        Event::DriverRefused { size_bytes: 5 << 30 },
        Event::Oom { requested_bytes, size_bytes, device_free_bytes: 77, stream, pool },
        Event::Snapshot { active_bytes: 1536 },
        Event::Lost { count: 1 << 33 },
    ];
    for flag in [false, true] {
        events.push(Event::EmptyCache { pool, inferred: flag });
        events.push(Event::PoolCreate { pool, own_source: flag });
        events.push(Event::PoolUseOnOom { pool, enabled: flag });
    }
    for filter in [ScopeFilter::Capture, ScopeFilter::Thread, ScopeFilter::Unknown] {
        events.push(Event::PoolBegin { pool, filter });
    }
    events.extend(MarkKind::ALL.map(|kind| Event::Mark { kind, name: StringId(4) }));
    events.extend(Category::ALL.map(|category| Event::Category { addr, category }));
    if version >= 3 {
        events.push(Event::StreamPassed { stream, frees: 300 });
    }
    if version >= 4 {
        let page = PageNumber(70_000);
        events.push(Event::PageMap { addr, page });
        events.push(Event::PageUnmap { addr, page });
    }
    events
}

fn records(version: u32) -> Vec<Record> {
    let times = (0..).map(|n: u64| 1_800_000_000_000_000_000 + n * n * 1000);
    let numbered = events(version).into_iter().zip(times).zip(0u32..);
    let record = |((event, time_ns), n): (_, u32)| Record {
        time_ns,
        thread: ThreadId(100 + n / 8),
        stack: StackId(n % 3),
        event,
    };
    numbered.map(record).collect()
}

/// The content of the golden tape, in order.
fn items(version: u32) -> Vec<Item> {
    let mut items = vec![Item::Base(GPU, Box::new(base(version)))];
    items.extend(records(version).into_iter().map(|record| Item::Event(GPU, record)));
    items.push(Item::Meta(Box::new(Meta { rank: Some(3), ..meta() })));
    items.extend(records(version).into_iter().map(|record| Item::Event(OTHER_GPU, record)));
    items
}

fn write(mut writer: Writer<impl std::io::Write>) {
    let strings = ["forward", "model.py", "roundup_power2_divisions:4", "step 1"];
    let [name, filename, ..] = strings.map(|text| writer.string(text).unwrap());
    let frame = |line| Frame { name, filename, line };
    assert_eq!(writer.stack(&[frame(7)]).unwrap(), StackId(1));
    assert_eq!(writer.stack(&[frame(8), frame(7)]).unwrap(), StackId(2));
    for item in items(VERSION) {
        match item {
            Item::Base(device, base) => writer.base(device, &base).unwrap(),
            Item::Meta(meta) => {
                writer.flush().unwrap();
                writer.meta(&meta).unwrap();
            }
            Item::Event(device, record) => {
                writer.push(device, &record).unwrap();
                // Several chunks for one device.
                if matches!(record.event, Event::Lost { .. }) {
                    writer.flush().unwrap();
                }
            }
        }
    }
    writer.finish().unwrap();
}

/// Today's writer and reader agree on the same items, whatever the bytes between them.
#[test]
fn todays_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("today.vtape");
    write(Writer::create(&path, &meta()).unwrap());
    let read: Vec<Item> = Reader::open(&path).unwrap().map(|item| item.unwrap()).collect();
    assert_eq!(read, items(VERSION));
}

/// Made the golden file; a released version's file is never made again.
#[test]
#[ignore = "writes the golden file of a new version"]
fn write_the_golden_file() {
    let path = path(VERSION);
    assert!(!path.exists(), "{} is there and stays as it is", path.display());
    write(Writer::create(&path, &meta()).unwrap());
}

#[test]
fn released_versions_are_read() {
    for version in FIRST_VERSION..=VERSION {
        check_golden(version);
    }
}

fn check_golden(version: u32) {
    let path = path(version);
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.meta(), &meta());
    let read: Vec<Item> = reader.by_ref().map(|item| item.unwrap()).collect();
    let expected = items(version);
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(read, expected);
    }
    assert_eq!(read.len(), expected.len());
    assert_eq!(reader.recovered().to_string(), "complete");
    let tables = reader.tables();
    let frames = tables.stack(StackId(2)).unwrap().iter().map(|&id| tables.frame(id).unwrap());
    let frame = |line| FrameText { name: "forward", filename: "model.py", line };
    assert_eq!(frames.collect::<Vec<_>>(), [frame(8), frame(7)]);
    assert_eq!(tables.string(StringId(4)), Some("step 1"));
    let index = Index::read(&mut std::fs::File::open(path).unwrap()).unwrap().unwrap();
    let records_indexed: u32 = index
        .entries
        .iter()
        .filter(|entry| entry.kind == trace_format::ChunkKind::Events)
        .map(|entry| entry.items)
        .sum();
    assert_eq!(records_indexed as usize, 2 * records(version).len());
}
