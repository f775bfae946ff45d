//! Runs other programs: shows their last line while they run, keeps everything in a log.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::progress::Step;

/// How many lines of a failed program are shown.
const TAIL_LINES: usize = 40;

thread_local! {
    static PROCESSOR_TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Processor time of the programs that this thread has run, their children included.
pub(crate) fn processor_time() -> Duration {
    PROCESSOR_TIME.get()
}

/// The result of a program.
pub(crate) struct Output {
    /// How it ended; `None` if it ran out of time and was killed.
    pub(crate) status: Option<ExitStatus>,
    /// Everything it wrote, both streams in the order they came.
    pub(crate) text: String,
    /// Where the same is kept.
    pub(crate) log: PathBuf,
}

impl Output {
    /// Whether it ended by itself and well.
    pub(crate) fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Its last lines, and where the rest is.
    pub(crate) fn tail(&self) -> String {
        let lines: Vec<_> = self.text.lines().collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        let how = self.status.map_or("ran out of time".to_owned(), |status| status.to_string());
        format!("{}\n({how}; all of it in {})", lines[from..].join("\n"), self.log.display())
    }
}

/// Runs `command` for at most `limit`, into the log `target/xtask/NAME.log`.
pub(crate) fn run(
    step: &mut Step,
    name: &str,
    mut command: Command,
    limit: Duration,
) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let log = log_path(name)?;
    let mut file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(std::process::Stdio::null());
    command.stdout(writer.try_clone().context("cannot share a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    drop(command); // It holds the writing ends; without them the reader sees the end.

    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let deadline = Instant::now() + limit;
    let mut text = String::new();
    let in_time = loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                step.doing(line.trim_end());
                writeln!(file, "{line}").with_context(|| format!("writing {}", log.display()))?;
                text.push_str(&line);
                text.push('\n');
            }
            Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) => break false,
        }
    };
    if !in_time {
        child.kill().with_context(|| format!("cannot stop {program}"))?;
    }
    let status = wait(&mut child).with_context(|| format!("waiting for {program}"))?;
    Ok(Output { status: in_time.then_some(status), text, log })
}

/// Runs a program whose output is shown as it comes.
pub(crate) fn status(command: &mut Command) -> std::io::Result<ExitStatus> {
    wait(&mut command.spawn()?)
}

/// Waits for a program, and adds its processor time to this thread's, where the system has it.
fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    // Before its status is taken, an ended process still has its times.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let has_ended = waitid(WaitId::Pid(Pid::from_child(child)), ended).is_ok();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok();
    let used = stat.filter(|_| has_ended).and_then(|stat| times(&stat));
    PROCESSOR_TIME.set(PROCESSOR_TIME.get() + used.unwrap_or_default());
    child.wait()
}

/// User and system time of a process and of its children that ended, from its `/proc/PID/stat`.
fn times(stat: &str) -> Option<Duration> {
    // Fields 14 to 17. The second is the program's name, in parentheses and with any character in it.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks = fields.map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// As [`run`], for a program that has to succeed; `advice` says what to do if it does not.
pub(crate) fn run_or_fail(
    step: &mut Step,
    name: &str,
    command: Command,
    limit: Duration,
    advice: &str,
) -> Result<Output> {
    let output = run(step, name, command, limit)?;
    if !output.success() {
        bail!("`{name}` failed; its last lines:\n{}\n{advice}", output.tail());
    }
    Ok(output)
}

fn log_path(name: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let folder = folder.canonicalize().context("cannot resolve target/xtask")?;
    Ok(folder.join(format!("{name}.log")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str, limit: Duration) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(&mut Step::start(name), name, command, limit).unwrap()
    }

    #[test]
    fn both_streams_and_the_status_are_kept() {
        let output =
            shell("exec-streams", "echo one; echo two >&2; exit 3", Duration::from_secs(10));
        assert_eq!(output.text, "one\ntwo\n");
        assert_eq!(output.status.and_then(|status| status.code()), Some(3));
        assert!(output.tail().contains("exec-streams.log"), "{}", output.tail());
    }

    #[test]
    fn the_processor_time_of_a_program_and_its_children_is_added_up() {
        let before = processor_time();
        let busy = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; true";
        assert!(shell("exec-times", busy, Duration::from_secs(60)).success());
        let used = processor_time().saturating_sub(before);
        assert!(used > Duration::from_millis(20), "{used:?}");
        assert_eq!(times("1 (a ) b) S 0 0 0 0 0 0 0 0 0 0 x"), None);
    }

    #[test]
    fn a_program_that_hangs_is_stopped() {
        let output = shell("exec-hang", "echo started; exec sleep 60", Duration::from_millis(300));
        assert!(output.status.is_none());
        assert!(output.tail().contains("ran out of time"), "{}", output.tail());
    }
}
