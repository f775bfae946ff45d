//! One virtual environment for each [`Requirements`], in the cache folder.
//!
//! An environment is complete only when its stamp is there and says what is in it: an installation
//! that was interrupted leaves no stamp, and is made anew. Downloads stay in a folder beside the
//! environments, whose files are links to it, so that this costs little.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::FlockOperation;

use crate::progress::Step;
use crate::requirements::{INSTALLER, Requirements};
use crate::{cache, exec, python};

/// Written last, beside what it vouches for.
const STAMP: &str = "vramtape-complete.txt";
/// No installation takes longer, even on a slow network.
const INSTALL_LIMIT: Duration = Duration::from_secs(45 * 60);
const PIP_ADVICE: &str = "The first run needs the network. Behind a mirror or a proxy, set pip's \
    own PIP_INDEX_URL or HTTPS_PROXY; then run the same command again: it continues from here.";

/// A complete environment.
#[derive(Clone)]
pub(crate) struct Venv {
    folder: PathBuf,
    requirements: &'static Requirements,
}

impl Venv {
    /// The environment of `requirements`: made, repaired or simply found.
    pub(crate) fn ensure(requirements: &'static Requirements) -> Result<Self> {
        let all = cache::folder()?.join("venvs");
        fs::create_dir_all(&all).with_context(|| {
            format!("cannot make {}: set VRAMTAPE_CACHE to a folder you may write", all.display())
        })?;
        let venv = Self { folder: all.join(requirements.name), requirements };
        if venv.is_stamped() {
            return Ok(venv);
        }
        let _only_one = lock(&all.join(format!("{}.lock", requirements.name)))?;
        if venv.is_stamped() {
            return Ok(venv); // Another process has just made it.
        }
        if !venv.holds_what_it_should() {
            venv.install(&all)?;
        }
        fs::write(venv.folder.join(STAMP), venv.stamp())
            .with_context(|| format!("cannot write the stamp in {}", venv.folder.display()))?;
        Ok(venv)
    }

    /// Its interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.program("python")
    }

    /// A program of one of its packages.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// The folder that holds its packages.
    pub(crate) fn site_packages(&self) -> Result<PathBuf> {
        packages_of(&self.folder)
    }

    /// Adds the CUDA headers that torch's own headers include, for programs compiled against it.
    pub(crate) fn ensure_cuda_headers(&self) -> Result<()> {
        let Some(package) = self.requirements.headers else { return Ok(()) };
        let installed = package.replace('-', "_").replace("==", "-") + ".dist-info";
        let installed = self.site_packages()?.join(installed);
        let _only_one = lock(&self.folder.join("headers.lock"))?;
        if installed.is_dir() { Ok(()) } else { self.add(&[package]) }
    }

    fn is_stamped(&self) -> bool {
        fs::read_to_string(self.folder.join(STAMP)).is_ok_and(|stamp| stamp == self.stamp())
    }

    fn stamp(&self) -> String {
        self.requirements.pins.join("\n") + "\n"
    }

    /// Whether an environment without a stamp works and has the pinned versions. Packages may print when imported.
    fn holds_what_it_should(&self) -> bool {
        let modules = self.modules();
        let names = self.names().collect::<Vec<_>>().join(", ");
        let versions = format!(
            "import {modules}; from importlib.metadata import version\n\
             for name in '{names}'.split(', '): print(name + '==' + version(name))"
        );
        Command::new(self.python())
            .args(["-c", &versions])
            .output()
            .is_ok_and(|out| out.status.success() && out.stdout.ends_with(self.stamp().as_bytes()))
    }

    /// The names under which the packages are imported.
    fn modules(&self) -> String {
        let module = |name: &str| match name {
            "pytest-xdist" => "xdist".to_owned(),
            "open_clip_torch" => "open_clip".to_owned(),
            "nvidia-cuda-nvcc" => "nvidia".to_owned(),
            _ => name.replace('-', "_"),
        };
        self.names().map(module).collect::<Vec<_>>().join(", ")
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.requirements.pins.iter().filter_map(|pin| Some(pin.split_once("==")?.0))
    }

    fn install(&self, all: &Path) -> Result<()> {
        cache::require_space(all, self.requirements.disk_gib)?;
        let under = self.requirements.on.map(Self::ensure).transpose()?;
        let interpreter = match &under {
            Some(under) => under.python().display().to_string(),
            None => python::find(self.requirements)?,
        };
        let mut step = Step::start(format!("making {}", self.folder.display()));
        let mut make = Command::new(&interpreter);
        make.args(["-m", "venv", "--clear"]).arg(&self.folder);
        let advice = format!("Is the venv module of {interpreter} complete (python3-venv)?");
        let log = format!("venv-{}", self.requirements.name);
        exec::run_or_fail(&mut step, &log, make, INSTALL_LIMIT, &advice)?;
        step.done();
        if let Some(under) = &under {
            // Python reads such a file at its start, so that pip too finds the packages there.
            let line = format!("{}\n", packages_of(&under.folder)?.display());
            let link = packages_of(&self.folder)?.join("under.pth");
            fs::write(&link, line).with_context(|| format!("cannot write {}", link.display()))?;
        }
        self.add(self.requirements.pins)?;
        if !self.holds_what_it_should() {
            bail!(
                "{} was installed, but does not work: run `{} -c 'import {}'` to see why",
                self.folder.display(),
                self.python().display(),
                self.modules()
            );
        }
        Ok(())
    }

    /// Installs packages, with pip where the faster installer fails: pip alone has a user's settings of it.
    fn add(&self, packages: &[&str]) -> Result<()> {
        if self.requirements == &INSTALLER {
            return self.pip(packages);
        }
        self.uv(packages).or_else(|error| {
            eprintln!("{error:#}\npip installs them instead");
            self.pip(packages)
        })
    }

    fn uv(&self, packages: &[&str]) -> Result<()> {
        let mut uv = Command::new(Self::ensure(&INSTALLER)?.program("uv"));
        uv.args(["pip", "install", "--python"]).arg(self.python()).args(packages);
        // It does not see that the environment below has these.
        let below = self.requirements.on.map_or(&[][..], |below| below.pins);
        let names = below.iter().filter_map(|pin| Some(pin.split_once("==")?.0));
        let excludes = self.folder.join("excludes.txt");
        fs::write(&excludes, names.collect::<Vec<_>>().join("\n"))
            .with_context(|| format!("cannot write {}", excludes.display()))?;
        uv.arg("--excludes").arg(&excludes);
        // On the same file system as the environments, so that links are possible.
        uv.env("UV_CACHE_DIR", cache::folder()?.join("uv"));
        if let Some(index) = env::var_os("PIP_INDEX_URL") {
            uv.env("UV_DEFAULT_INDEX", index);
        }
        let mut step = Step::start(format!("installing {}", packages.join(" ")));
        let log = format!("uv-{}", self.requirements.name);
        exec::run_or_fail(&mut step, &log, uv, INSTALL_LIMIT, PIP_ADVICE)?;
        step.done();
        Ok(())
    }

    fn pip(&self, packages: &[&str]) -> Result<()> {
        let mut step = Step::start(format!("installing {}", packages.join(" ")));
        let mut pip = Command::new(self.python());
        pip.args(["-m", "pip", "install", "--disable-pip-version-check"]).args(packages);
        pip.env("TMPDIR", self.scratch()?); // /tmp may be a small tmpfs; wheels are not small.
        let log = format!("pip-{}", self.requirements.name);
        exec::run_or_fail(&mut step, &log, pip, INSTALL_LIMIT, PIP_ADVICE)?;
        fs::remove_dir_all(self.scratch()?).context("cannot remove pip's temporary files")?;
        step.done();
        Ok(())
    }

    fn scratch(&self) -> Result<PathBuf> {
        let scratch = self.folder.join("tmp");
        fs::create_dir_all(&scratch)
            .with_context(|| format!("cannot make {}", scratch.display()))?;
        Ok(scratch)
    }
}

/// The folder of packages in an environment's.
fn packages_of(environment: &Path) -> Result<PathBuf> {
    let lib = environment.join("lib");
    fs::read_dir(&lib)
        .with_context(|| format!("cannot list {}", lib.display()))?
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("site-packages"))
        .find(|path| path.is_dir())
        .with_context(|| format!("no packages under {}: remove that folder", lib.display()))
}

/// Held while an environment is made, so that two commands do not make the same one.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        eprintln!("waiting for another process that holds {}", path.display());
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}
