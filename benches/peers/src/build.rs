//! Compiles the programs in `cpp` against an installed PyTorch.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cpp");

/// An installed PyTorch.
pub(crate) struct Torch {
    /// Its version, such as `2.11.0+cu130`.
    pub(crate) version: String,
    include: Vec<PathBuf>,
    lib: Vec<PathBuf>,
}

impl Torch {
    /// Looks PyTorch and the CUDA headers up in a site-packages folder.
    pub(crate) fn find(site_packages: &Path) -> Result<Self> {
        let torch = site_packages.join("torch");
        let version_file = torch.join("version.py");
        let text = fs::read_to_string(&version_file)
            .with_context(|| format!("no PyTorch: cannot read {}", version_file.display()))?;
        let version = text
            .lines()
            .find_map(|line| line.strip_prefix("__version__ = '")?.strip_suffix('\''))
            .with_context(|| format!("{} names no version", version_file.display()))?;
        let cuda = newest_cuda(site_packages)?;
        if !cuda.join("include/crt/host_defines.h").exists() {
            bail!(
                "{} has no CUDA compiler headers: install the wheel nvidia-cuda-crt of the same CUDA",
                cuda.display()
            );
        }
        Ok(Self {
            version: version.to_owned(),
            include: vec![torch.join("include"), cuda.join("include")],
            lib: vec![torch.join("lib"), cuda.join("lib")],
        })
    }

    /// The program `name`, beside our own. It is compiled anew each time, which takes seconds.
    pub(crate) fn build(&self, name: &str) -> Result<PathBuf> {
        let own = std::env::current_exe().context("cannot find our own program")?;
        let program = own.with_file_name(format!("{name}-torch-{}", self.version));
        let source = format!("{SOURCES}/{name}.cpp");
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
        let mut compile = Command::new(&compiler);
        compile.args(["-O2", "-std=c++20", "-pthread", &source, "-o"]).arg(&program);
        for folder in &self.include {
            compile.arg("-isystem").arg(folder);
        }
        for folder in &self.lib {
            compile.arg("-L").arg(folder);
            compile.arg("-Wl,-rpath").arg(format!("-Wl,{}", folder.display()));
        }
        compile.args(["-lc10_cuda", "-lc10", "-l:libcudart.so.13", "-ldl"]);
        compile.arg("-Wl,--allow-shlib-undefined");
        let status = compile.status().with_context(|| {
            format!("cannot start {}: install a C++ compiler", compiler.to_string_lossy())
        })?;
        if !status.success() {
            bail!(
                "{source} does not compile against PyTorch {}; the errors are above",
                self.version
            );
        }
        Ok(program)
    }
}

/// `nvidia/cu13`, or a later one.
fn newest_cuda(site_packages: &Path) -> Result<PathBuf> {
    let nvidia = site_packages.join("nvidia");
    let mut found: Vec<PathBuf> = fs::read_dir(&nvidia)
        .with_context(|| format!("no CUDA runtime: cannot list {}", nvidia.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("include/cuda_runtime_api.h").exists())
        .collect();
    found.sort();
    found.pop().with_context(|| format!("{} has no CUDA runtime headers", nvidia.display()))
}
