//! The pickle reader reads what Python writes, and survives everything else.

mod common;

use std::fs;
use std::path::Path;

use replay::import::{RunLimits, import};
use replay::pickle::{Limits, PickleError, Problem, Tree, Value, read};
use replay::snapshot;

fn values(protocol: u8) -> Vec<u8> {
    let name = format!("../tests/data/pickles/values-{protocol}.pickle");
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn small_snapshot() -> Vec<u8> {
    let own = common::own_traces();
    let path = own.iter().find(|path| path.to_string_lossy().contains("fragmentation")).unwrap();
    replay::source::read_all(path, 1).unwrap().bytes
}

fn whole(bytes: &[u8]) -> Result<Tree, PickleError> {
    read(bytes, Limits::default())
}

/// Every step of an import; whether they succeed does not matter here, that they return does.
fn import_bytes(bytes: &[u8]) {
    if let Ok(tree) = whole(bytes)
        && let Ok(snapshot) = snapshot::from_tree(&tree)
    {
        let _ = import(snapshot, &RunLimits::default());
    }
}

/// The value as Python would print it, near enough to compare.
fn show(tree: &Tree, value: Value) -> String {
    let list =
        |node| -> String { tree.values(node).map(|value| show(tree, value) + ", ").collect() };
    let dict = |node| -> String {
        let mut keys: Vec<_> = tree.keys_back(node).collect();
        keys.reverse();
        let pairs = keys.into_iter().zip(tree.values(node));
        pairs.map(|(key, value)| show(tree, key) + ": " + &show(tree, value) + ", ").collect()
    };
    match value {
        Value::Text(text) => format!("{:?}", tree.text(text)),
        Value::Int(value) => value.to_string(),
        Value::Big(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::List(node) => format!("[{}]", list(node)),
        Value::Tuple(node) => format!("({})", list(node)),
        Value::Dict(node) => format!("{{{}}}", dict(node)),
        Value::Bool(_) | Value::None => format!("{value:?}"),
    }
}

#[test]
fn every_protocol_holds_the_same_values() {
    let newest = whole(&values(5)).unwrap();
    let expected = show(&newest, newest.root());
    for sample in [
        "18446744073709551615, -1, ",
        "-1099511627776",
        "-2147483648",
        "-2.25e300",
        "(Bool(true), Bool(false), None, )",
        "(1, 2, 3, 4, )",
        "\"café 😀 \\\\ ' \\n\"",
        "2498, 2499, ]",
    ] {
        assert!(expected.contains(sample), "{sample} in {expected}");
    }
    for protocol in 0..5 {
        let tree = whole(&values(protocol)).unwrap();
        assert_eq!(show(&tree, tree.root()), expected, "protocol {protocol}");
    }
}

#[test]
fn shared_objects_are_one_node() {
    for protocol in 0..=5 {
        let tree = whole(&values(protocol)).unwrap();
        let Value::Dict(root) = tree.root() else { panic!("a dict") };
        let Some(Value::List(shared)) = tree.get(root, "shared") else { panic!("a list") };
        let values: Vec<_> = tree.values(shared).collect();
        assert_eq!(values, [values[0]; 2], "protocol {protocol}");
    }
}

#[test]
fn nothing_is_imported_or_called() {
    let cases: [(&[u8], u64, &str); 5] = [
        (b"cposix\nsystem\n(S'true'\ntR.", 0, "posix.system"),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.", 17, "posix.system"),
        (b"(S'true'\niposix\nsystem\n.", 9, "posix.system"),
        (b"\x80\x02}}b.", 4, "of a class"),
        (b"\x80\x02U\x01aQ.", 5, "persistent id"),
    ];
    for (bytes, offset, name) in cases {
        let error = whole(bytes).unwrap_err();
        assert_eq!(error.offset, offset, "{error}");
        assert!(matches!(error.problem, Problem::Code(_)), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_cut_file_is_an_error_at_every_byte() {
    for bytes in [values(0), values(2), values(4), small_snapshot()] {
        // Every byte of what is short; of what is long, enough to be done in seconds.
        for len in (0..bytes.len()).step_by(1 + bytes.len() / 8000) {
            let error = whole(&bytes[..len]).unwrap_err();
            assert!(error.offset as usize <= len, "{error}");
        }
        assert!(whole(&bytes).is_ok());
    }
}

#[test]
fn flipped_bits_never_panic() {
    let values = values(4);
    let head = 700; // Every opcode but the long list's.
    for bit in 0..head * 8 {
        let mut bytes = values.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        import_bytes(&bytes);
    }
    let snapshot = small_snapshot();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    println!("seed {seed:#x}");
    for _ in 0..3000 {
        let mut bytes = snapshot.clone();
        for _ in 0..3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize % bytes.len();
            bytes[at] ^= 1 << ((seed >> 20) % 8);
        }
        import_bytes(&bytes);
    }
}

#[test]
fn depth_costs_no_stack() {
    const DEPTH: usize = 1_000_000;
    let mut bytes = b"]".repeat(DEPTH);
    bytes.extend(b"a".repeat(DEPTH - 1));
    bytes.push(b'.');
    assert_eq!(whole(&bytes).unwrap().node_count(), DEPTH);
    let marks = b"(".repeat(DEPTH);
    assert_eq!(whole(&marks).unwrap_err().problem, Problem::Truncated);
}

#[test]
fn lengths_are_not_believed() {
    let cases: [&[u8]; 7] = [
        b"\x80\x04X\xff\xff\xff\xffabc.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc.",
        b"\x80\x04\x8b\xff\xff\xff\x7f\x01.",
        b"\x80\x04\x8b\xff\xff\xff\xff\x01.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\x04T\xff\xff\xff\x7fabc.",
        b"\x80\x04\x8a\xff\x01",
    ];
    for bytes in cases {
        assert_eq!(whole(bytes).unwrap_err().problem, Problem::Truncated, "{bytes:?}");
    }
    // A memo index alone takes no memory.
    let tree = whole(b"\x80\x02Nr\xff\xff\xff\xff0j\xff\xff\xff\xff.").unwrap();
    assert_eq!(tree.root(), Value::None);
    assert_eq!(whole(b"h\x07.").unwrap_err().problem, Problem::NoSuchMemo(7));
}

#[test]
fn misused_stacks_are_errors() {
    for bytes in
        [&b"."[..], b"a.", b"(u.", b"]Ns.", b"(t(t\x86a.", b"]e.", b"N(a.", b"}(Nu.", b"0.", b"2."]
    {
        assert!(whole(bytes).is_err(), "{bytes:?}");
    }
    let error = whole(b"](NNu.").unwrap_err().to_string();
    assert!(
        error.starts_with("byte 4, opcode SETITEMS: it needs a dict and found a list"),
        "{error}"
    );
}

#[test]
fn memory_stays_within_the_limit() {
    // Each list holds the one before it twice: 2^64 leaves if it were expanded.
    let mut bomb = b"\x80\x04]\x94".to_vec();
    for level in 0..64 {
        bomb.extend([b']', 0x94, b'(', b'h', level, b'h', level, b'e']);
    }
    bomb.push(b'.');
    let tree = whole(&bomb).unwrap();
    assert_eq!(tree.node_count(), 65);

    // Two lists that grow in turn keep moving; their memory is linear all the same.
    let items = 50_000;
    let mut turns = b"\x80\x04]\x94]\x94".to_vec();
    turns.extend(b"h\x00Na0h\x01Na0".repeat(items));
    turns.push(b'.');
    assert!(read(&turns, Limits { values: 8 * 2 * items as u64, ..Limits::default() }).is_ok());

    let many = [&b"]("[..], &b"N".repeat(2000), b"e."].concat();
    let error = read(&many, Limits { values: 1000, ..Limits::default() }).unwrap_err();
    assert_eq!(error.problem, Problem::TooManyValues(1000));
}

/// Each of these took many times its own size, or would have.
#[test]
fn memory_is_bounded_by_the_length_of_the_file() {
    const LEN: usize = 24 << 20;
    let memos: Vec<u8> =
        (0..LEN as u32 / 6).flat_map(|i| [b"Nr", &i.to_le_bytes()[..]].concat()).collect();
    let keys: Vec<u8> =
        (0..LEN as u32 / 7).flat_map(|i| [b"J", &i.to_le_bytes()[..], b"Ns"].concat()).collect();
    let lists = b"]".repeat(LEN);
    let nones = [&b"("[..], &b"N".repeat(LEN)].concat();
    let tuples = b")".repeat(LEN);
    let dict = [&b"}"[..], &keys].concat();
    for (name, bytes) in [
        ("lists in lists", lists),
        ("a stack of nothing", nones),
        ("tuples", tuples),
        ("a dict with another key each time", dict),
    ] {
        let problem = whole(&bytes).unwrap_err().problem;
        assert!(matches!(problem, Problem::TooManyValues(_)), "{name}: {problem}");
    }
    // This much is less than ten times the file, and let through: it ends in the middle of nothing.
    assert_eq!(whole(&memos).unwrap_err().problem, Problem::Truncated);
}

/// A value that is used many times is read once.
#[test]
fn sharing_costs_no_time() {
    let text = |text: &str| [&b"\x8c"[..], &[text.len() as u8], text.as_bytes()].concat();
    let many = |what: &[u8], times: usize| [b"(", &what.repeat(times)[..], b"e"].concat();
    // One event with a hundred thousand keys, named a hundred thousand times.
    let junk: Vec<u8> =
        (0..100_000_u32).flat_map(|i| [b"J", &i.to_le_bytes()[..], b"N"].concat()).collect();
    let action = [text("action"), text("snapshot")].concat();
    let event = [&b"}\x94("[..], &junk, &action, b"u0"].concat();
    let wide = [
        b"\x80\x04".to_vec(),
        event,
        b"}(".to_vec(),
        text("segments"),
        b"]".to_vec(),
        text("device_traces"),
        b"](]".to_vec(),
        many(b"h\0", 100_000),
        b"eu.".to_vec(),
    ];
    let tree = whole(&wide.concat()).unwrap();
    assert_eq!(snapshot::from_tree(&tree).unwrap().traces[0].len(), 100_000);
    // One trace of a hundred thousand events for each of a thousand devices.
    let trace = [&b"}("[..], &action, b"u\x940]\x94", &many(b"h\0", 100_000), b"0"].concat();
    let traces = [
        b"\x80\x04".to_vec(),
        trace,
        b"}(".to_vec(),
        text("segments"),
        b"]".to_vec(),
        text("device_traces"),
        b"]".to_vec(),
        many(b"h\x01", 1000),
        b"u.".to_vec(),
    ];
    let tree = whole(&traces.concat()).unwrap();
    let error = snapshot::from_tree(&tree).unwrap_err().to_string();
    assert!(error.contains("a list of its own"), "{error}");
}

#[test]
fn a_list_may_hold_itself() {
    let tree = whole(b"\x80\x04]\x94h\x00a.").unwrap();
    let Value::List(node) = tree.root() else { panic!("a list") };
    assert_eq!(tree.values(node).collect::<Vec<_>>(), [tree.root()]);
    assert!(snapshot::from_tree(&tree).is_err());
}

#[test]
fn absurd_numbers_are_errors_with_their_place() {
    let with = |key: &str, value: &str| {
        let text = r#"{"segments": [{"device": 0, "address": 512, "total_size": 512, "blocks": []}],
            "device_traces": [[{"action": "alloc", "addr": 1, "size": 2}]]}"#;
        let from = text.find(&format!("\"{key}\": ")).unwrap() + key.len() + 4;
        let to = from + text[from..].find([',', '}']).unwrap();
        let changed = format!("{}{value}{}", &text[..from], &text[to..]);
        let tree = replay::pickle::read_json(changed.as_bytes(), Limits::default()).unwrap();
        snapshot::from_tree(&tree).unwrap_err().to_string()
    };
    let cases = [
        ("device", "1000000", "segments[0].device"),
        ("total_size", "18446744073709551615", "segments[0].total_size"),
        ("address", "-1", "segments[0].address"),
        ("size", "1152921504606846976", "device_traces[0][0].size"),
        ("addr", "\"0x7f\"", "device_traces[0][0].addr"),
    ];
    for (key, value, place) in cases {
        let error = with(key, value);
        assert!(error.starts_with(place), "{error}");
    }
}
