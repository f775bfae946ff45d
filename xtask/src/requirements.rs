//! The packages of each environment.

/// Packages that belong together, pinned, and the Pythons that wheels of all of them exist for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Requirements {
    /// The environment's name.
    pub(crate) name: &'static str,
    /// The packages, `name==version`; `Venv::modules` has the names under which they are imported.
    pub(crate) pins: &'static [&'static str],
    /// The environment that this one extends: it has the same Python and finds the same packages.
    pub(crate) on: Option<&'static Requirements>,
    /// One more, with headers of CUDA, for what is compiled against them.
    pub(crate) headers: Option<&'static str>,
    /// Oldest Python (3.N).
    pub(crate) python_min: u32,
    /// Newest Python (3.N).
    pub(crate) python_max: u32,
    /// Disk space an installation needs while it runs: the unpacked wheels and the downloads.
    pub(crate) disk_gib: u64,
}

/// The installer of all other environments: it unpacks PyTorch in a quarter of pip's time.
pub(crate) static INSTALLER: Requirements = Requirements {
    name: "installer",
    pins: &["uv==0.13.9"],
    on: None,
    headers: None,
    python_min: 10,
    python_max: 14,
    disk_gib: 1,
};

/// For the tests of the Python package: the builder of its wheel (as in pyproject.toml; the pyelftools is
/// auditwheel's), its checkers, and its extras.
pub(crate) static PACKAGE: Requirements = Requirements {
    name: "package",
    pins: &[
        "hatchling==1.27.0",
        "auditwheel==6.8.2",
        "jsonschema==4.26.0",
        "ray==2.60.0",
        "pyarrow==26.0.1",
    ],
    on: None,
    headers: None,
    python_min: 10,
    python_max: 14,
    disk_gib: 1,
};

/// The checkers of Python, C and C++ code, and the pytest whose types the plugin uses.
pub(crate) static LINTERS: Requirements = Requirements {
    name: "linters",
    pins: &["ruff==0.17.6", "mypy==2.4.1", "clang-format==23.1.5", "pytest==9.2.0"],
    on: None,
    headers: None,
    python_min: 10,
    python_max: 14,
    disk_gib: 1,
};

/// For the tests of exported tables: the readers that query them.
pub(crate) static TABLES: Requirements = Requirements {
    name: "tables",
    pins: &[
        "duckdb==2.0.0",
        "pandas==3.1.1",
        "perfetto==0.59.1",
        "polars==2.1.0",
        "pyarrow==26.0.1",
    ],
    on: None,
    headers: None,
    python_min: 11,
    python_max: 14,
    disk_gib: 2,
};
