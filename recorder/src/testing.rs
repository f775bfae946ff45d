//! What tests of the recorder need besides the recorder: processes to fork, to limit and to kill.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const DIR: &str = "VRAMTAPE_TEST_DIR";
const PATIENCE: Duration = Duration::from_secs(30);

/// An ignored test of this module, run as a process of its own.
pub(super) struct Process(Child);

impl Process {
    /// Starts the test `name` (its path in this crate), which finds `dir` by [`process_dir`].
    pub(super) fn start(name: &str, dir: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(DIR, dir)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Waits until `condition` gives something, while the process `has` not yet done it.
    pub(super) fn until<T>(&self, has: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = condition() {
                return value;
            }
            assert!(Instant::now() < deadline, "process {} never {has}", self.0.id());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills it with SIGKILL and returns its id.
    pub(super) fn kill(mut self) -> u32 {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        self.0.id()
    }

    /// Waits for its end.
    pub(super) fn wait(mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder that [`Process::start`] was given.
pub(super) fn process_dir() -> PathBuf {
    PathBuf::from(std::env::var_os(DIR).expect("run by another test, as a process"))
}

/// Runs `child` in a forked process, which must end by itself, and returns its exit status.
pub(super) fn in_forked_child(child: impl FnOnce() -> bool) -> i32 {
    in_forked_child_while(child, || ())
}

/// The same, and runs `parent` meanwhile.
#[allow(unsafe_code)]
pub(super) fn in_forked_child_while(child: impl FnOnce() -> bool, parent: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `child` and leaves by `_exit`: it returns into nothing of the test's.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: ends this process without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!passed)) };
    }
    assert!(pid > 0, "fork failed");
    parent();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call; `pid` is our child.
        let done = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if done == pid {
            return status;
        }
        if Instant::now() > deadline {
            // SAFETY: our own child, not yet waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the forked child hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
