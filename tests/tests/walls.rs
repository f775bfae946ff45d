//! Which crate may depend on which: the manifests say what docs/architecture.md draws.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Each library and the crates of this workspace that it depends on.
const WALLS: [(&str, &[&str]); 11] = [
    ("trace-format", &[]),
    ("settings", &[]),
    ("stacks", &["trace-format"]),
    ("allocator", &["settings", "trace-format"]),
    ("models", &["allocator", "settings", "trace-format"]),
    ("replay", &["allocator", "models", "settings", "trace-format"]),
    ("tables", &["replay", "trace-format"]),
    ("ffi", &["allocator", "settings", "stacks", "trace-format"]),
    ("simcuda", &["allocator", "settings", "trace-format"]),
    ("cli", &["allocator", "replay", "settings", "tables", "trace-format"]),
    ("tests", &["replay", "trace-format"]),
];

/// The names under `[dependencies]` of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
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
