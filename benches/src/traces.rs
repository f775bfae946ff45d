//! The recordings kept in `tests/data/traces`, each a real PyTorch run, and what is known of it.

use std::fs;
use std::path::{Path, PathBuf};

use replay::run::DeviceTape;
use replay::tape::Tape;
use replay::verify::RecordedRun;
use settings::Config;
use trace_format::StringId;

/// One recorded run.
pub struct Trace {
    /// Its name, `workload-config`.
    pub name: String,
    /// Its events.
    pub tape: Tape,
    /// The settings it was recorded under.
    pub config: Config,
    /// The most that PyTorch held from the device.
    pub peak_reserved_bytes: u64,
    /// Memory of the device.
    pub capacity_bytes: u64,
}

impl Trace {
    /// All of them, by name.
    ///
    /// # Panics
    /// Where one is missing or damaged.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
        let entries = fs::read_dir(&folder).expect("tests/data/traces");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        assert!(!paths.is_empty(), "no recordings in {}", folder.display());
        paths.iter().map(|path| Self::open(path)).collect()
    }

    fn open(description: &Path) -> Self {
        let name = description.file_stem().expect("a name").to_string_lossy().into_owned();
        let json = fs::read(description).expect("a description");
        let run = RecordedRun::from_json(&json).expect("a description");
        let snapshot = description.with_file_name(format!("{name}.pickle.zst"));
        let tape = Tape::open(snapshot, &run.known()).expect("a snapshot");
        let parsed = Config::parse(&tape.meta.alloc_conf, run.compat());
        let config = parsed.expect("PyTorch ran under these settings").config;
        let capacity_bytes = run.known().capacity_bytes.expect("its device's size");
        let stats = run.memory_stats.expect("its statistics");
        let peak_reserved_bytes = stats["reserved_bytes.all.peak"] as u64;
        Self { name, tape, config, peak_reserved_bytes, capacity_bytes }
    }

    /// Its one device, for a replay.
    pub fn device<'t>(&'t self, text: &'t (dyn Fn(StringId) -> &'t str + Sync)) -> DeviceTape<'t> {
        let device = &self.tape.devices[0];
        DeviceTape { base: &device.base, records: &device.records, text }
    }
}
