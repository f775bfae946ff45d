//! Which crate may depend on which: the manifests say what docs/architecture.md draws.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Each library and the crates of this workspace that it depends on.
const WALLS: [(&str, &[&str]); 22] = [
    ("events", &[]),
    ("gpus", &[]),
    ("settings", &[]),
    ("trace-format", &["events"]),
    ("stacks", &["trace-format"]),
    ("device", &["events"]),
    ("sim-device", &["device", "events"]),
    ("cuda-device", &["device", "events"]),
    ("allocator", &["device", "events", "settings"]),
    ("models", &["device", "events", "settings", "sim-device"]),
    ("oom", &["allocator", "device", "events", "settings", "sim-device"]),
    ("packing", &[]),
    ("recorder", &["events", "trace-format"]),
    ("shared-heap", &["allocator", "device", "events", "recorder"]),
    ("observer", &["allocator", "events", "recorder", "settings", "trace-format"]),
    (
        "replay",
        &[
            "allocator",
            "device",
            "events",
            "models",
            "observer",
            "oom",
            "packing",
            "recorder",
            "settings",
            "sim-device",
            "trace-format",
        ],
    ),
    ("tables", &["replay", "trace-format"]),
    ("viewer", &["replay", "trace-format"]),
    (
        "ffi",
        &[
            "allocator",
            "cuda-device",
            "device",
            "events",
            "observer",
            "oom",
            "recorder",
            "settings",
            "shared-heap",
            "sim-device",
            "stacks",
            "trace-format",
        ],
    ),
    ("simcuda", &["device", "events", "gpus", "settings", "sim-device"]),
    (
        "cli",
        &[
            "allocator",
            "gpus",
            "packing",
            "recorder",
            "replay",
            "settings",
            "tables",
            "trace-format",
            "viewer",
        ],
    ),
    ("tests", &["replay", "trace-format"]),
];

/// All that the heap is built from, besides the crates of this workspace: data structures, the derive of errors, and
/// the facade of its log.
const BELOW_THE_HEAP: [&str; 7] = [
    "foldhash",
    "hashbrown",
    "pin-project-lite",
    "rustc-hash",
    "thiserror",
    "tracing",
    "tracing-core",
];

/// Crates that the compiler keeps from the system: no thread, file, clock or environment.
const WITHOUT_STD: [&str; 4] = ["allocator", "device", "events", "settings"];

/// The names under `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
}

/// The packages that `package` links, itself included, as `cargo tree` lists them.
fn tree(package: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--edges", "normal,no-proc-macro", "--prefix", "none"];
    let cargo = Command::new(env!("CARGO")).args(arguments).args(["-p", package]).output().unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let text = String::from_utf8(cargo.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_crate_depends_only_on_those_below_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = workspace.lines().find(|line| line.starts_with("members = [")).unwrap();
    let ours: BTreeSet<&str> = members.split('"').skip(1).step_by(2).collect();
    let walls: BTreeMap<_, _> = WALLS.into_iter().collect();
    for (name, allowed) in walls {
        let manifest = fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
        let found: Vec<_> = dependencies(&manifest).intersection(&ours).copied().collect();
        assert_eq!(found, allowed, "{name}/Cargo.toml");
    }
}

#[test]
fn the_heap_is_built_from_events_settings_and_data_structures() {
    let found = tree("allocator");
    let expected = WITHOUT_STD.iter().chain(&BELOW_THE_HEAP).map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_heap_and_all_below_it_do_without_the_standard_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in WITHOUT_STD {
        let library = fs::read_to_string(root.join(name).join("src/lib.rs")).unwrap();
        assert!(library.contains("\n#![no_std]\n"), "{name}/src/lib.rs");
    }
}

/// Their unsafe code is what the sanitizer watches, or what calls CUDA and stands in for it.
#[test]
fn all_other_crates_forbid_unsafe_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for (name, _) in WALLS {
        let library = fs::read_to_string(root.join(name).join("src/lib.rs")).unwrap();
        if !library.contains("\n#![forbid(unsafe_code)]\n") {
            found.push(name);
        }
    }
    assert_eq!(found, ["stacks", "cuda-device", "recorder", "ffi", "simcuda"]);
}

#[test]
fn only_one_crate_reaches_for_cuda() {
    for (name, _) in WALLS {
        let has = tree(name).contains("cudarc");
        assert_eq!(has, ["cuda-device", "ffi"].contains(&name), "{name} and cudarc");
    }
}

#[test]
fn the_library_in_a_training_process_has_no_tables_no_server_and_no_command_line() {
    let found = tree("ffi");
    for name in [
        "arrow-array",
        "clap",
        "cli",
        "httparse",
        "indicatif",
        "parquet",
        "prometheus",
        "ratatui",
        "replay",
    ] {
        assert!(!found.contains(name), "libvramtape.so links {name}");
    }
}
