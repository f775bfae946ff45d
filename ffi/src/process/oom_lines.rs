//! The lines behind PyTorch's sentence: the verdict, the pinning set, and the command that explains more.
//!
//! The state is copied under the device's lock. The rest runs on the copy, without a lock and within a limit of time,
//! and a failure in it leaves lines out: the exception stays as PyTorch words it.

use std::collections::HashMap;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use allocator::heap::OomReport;
use allocator::stats::ByteSize;
use oom::{Effort, Others, Pinning, Situation, free_space, judge, pinning};
use trace_format::{CodeOwner, DeviceId, StackId, code_owner};

use super::{lock, used};
use crate::snapshot::frames_of;

/// Time after which no further trial begins.
const TIME_MAX: Duration = Duration::from_millis(30);
/// Time of all explanations of the process: a program that catches one out of memory after the other is not slowed.
const TIME_OF_PROCESS_MAX: Duration = Duration::from_secs(2);
/// Entries of the tables for the pinning set, which take a few milliseconds.
const ENTRIES_MAX: u64 = 1 << 20;
/// Blocks that one trial frees, which takes a few milliseconds.
const FREED_MAX: usize = 4096;
/// Frames of the largest stack that are printed.
const FRAMES_MAX: usize = 2;

/// Nanoseconds that the process's explanations took until now.
static SPENT_NS: AtomicU64 = AtomicU64::new(0);

/// The verdict of a refused request and its pinning set; none where nothing can be said.
pub(super) fn explained(report: &OomReport) -> Vec<String> {
    let spent = Duration::from_nanos(SPENT_NS.load(Ordering::Relaxed));
    if spent >= TIME_OF_PROCESS_MAX {
        return Vec::new();
    }
    let started = Instant::now();
    // It only reads; a bug in it must not replace the exception.
    let lines = catch_unwind(AssertUnwindSafe(|| explain(report, started))).unwrap_or_default();
    SPENT_NS.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    lines
}

/// These lines and the one of the command, each with a line break before it. `saved` is the tape that was made of this
/// out of memory.
pub(super) fn joined(lines: Vec<String>, device: DeviceId, saved: Option<PathBuf>) -> String {
    let lines = lines.into_iter().chain(command(device, saved));
    lines.flat_map(|line| ["\nvramtape: ".to_owned(), line]).collect()
}

fn explain(report: &OomReport, started: Instant) -> Vec<String> {
    let Ok(Some(heap)) = used(c_int::from(report.device.0)) else { return Vec::new() };
    let (base, config) = match heap.lock() {
        Ok(heap) => (heap.base_state(), heap.config().clone()),
        Err(_) => return Vec::new(),
    };
    let Some(situation) = Situation::restored(report, &base, &config) else { return Vec::new() };
    let free = free_space(&situation.base.segments, &situation.config, Some(&situation));
    let others_bytes = report
        .device_total_bytes
        .saturating_sub(situation.before.reserved_bytes + situation.before.free_bytes);
    let reserved_bytes = situation.before.reserved_bytes;
    let others = Others::new(others_bytes, report.own_used_bytes(), reserved_bytes);
    let judged = judge(&situation, &free, others);
    let verdict = format!("{}: {}", judged.verdict, judged.why);
    let is_over = || started.elapsed() >= TIME_MAX;
    let effort = Effort { entries_max: ENTRIES_MAX, freed_max: FREED_MAX, is_over: &is_over };
    let search = pinning(&situation, effort);
    let set = search.found.map(|found| pinning_line(&situation, &found));
    let bound = || search.lower_bound_bytes.map(bound_line);
    [Some(verdict), set.or_else(bound)].into_iter().flatten().collect()
}

/// The line where no set was found with little effort.
fn bound_line(bytes: u64) -> String {
    format!("pinning set: at least {} of live blocks", ByteSize(bytes))
}

fn pinning_line(situation: &Situation, found: &Pinning) -> String {
    let blocks = found.blocks.len();
    let (noun, pronoun) =
        if blocks == 1 { ("block", "it serves") } else { ("blocks", "they serve") };
    let bound = if found.bytes == found.lower_bound_bytes {
        String::new()
    } else {
        format!(" (no set has less than {})", ByteSize(found.lower_bound_bytes))
    };
    let code = largest_code(situation, found).unwrap_or_else(|| {
        "no stacks: set VRAMTAPE_CONF=stacks_every:1MiB for the code that allocated them".to_owned()
    });
    format!(
        "pinning set: {blocks} live {noun}, {}; freed before the request {pronoun} it{bound}; {code}",
        ByteSize(found.bytes)
    )
}

/// The innermost frames of the stack that allocated most of the set.
fn largest_code(situation: &Situation, found: &Pinning) -> Option<String> {
    let is_member = |addr| found.blocks.binary_search(&addr).is_ok();
    let mut by_stack: HashMap<StackId, u64> = HashMap::new();
    for block in situation.live().filter(|block| is_member(block.addr)) {
        *by_stack.entry(block.stack).or_default() += block.size_bytes;
    }
    by_stack.remove(&StackId::NONE);
    let (stack, bytes) = by_stack.into_iter().max_by_key(|(stack, bytes)| (*bytes, stack.0))?;
    let code = code_of(frames_of(stack)?)?;
    Some(format!("{} of them from {code}", ByteSize(bytes)))
}

/// The user's innermost frames; where the user has none, the innermost frame that is not ours.
fn code_of(frames: Vec<(String, String, u32)>) -> Option<String> {
    let of = |owner: &CodeOwner| *owner != CodeOwner::Vramtape;
    let frames: Vec<_> = frames
        .into_iter()
        .map(|(name, file, line)| (code_owner(&file, line), name, file, line))
        .filter(|(owner, ..)| of(owner))
        .collect();
    let users = frames.iter().filter(|(owner, ..)| *owner == CodeOwner::User).take(FRAMES_MAX);
    let shown: Vec<String> = users.map(show).collect();
    if shown.is_empty() { frames.first().map(show) } else { Some(shown.join(" < ")) }
}

/// `model.py:41 attention`.
fn show((_, name, file, line): &(CodeOwner, String, String, u32)) -> String {
    let file =
        Path::new(file).file_name().map_or(file.as_str().into(), |name| name.to_string_lossy());
    match name.as_str() {
        "" | "<module>" => format!("{file}:{line}"),
        name => format!("{file}:{line} {name}"),
    }
}

/// The command that explains more: of the tape that was saved or is being written, else of the ring.
fn command(device: DeviceId, saved: Option<PathBuf>) -> Option<String> {
    let (path, is_shared) = {
        let process = lock();
        let process = process.as_ref()?;
        let of_ring = || {
            let of_device = |recording: &&super::Recording| recording.device.id == device;
            process.recordings.iter().find(of_device)?.ring.path()
        };
        let of_tape = || process.tape_path_of(device);
        let is_shared = saved.is_none() && of_tape().is_some() && process.recordings.len() > 1;
        (saved.or_else(of_tape).or_else(of_ring)?, is_shared)
    };
    let device = if is_shared { format!(" --device {device}") } else { String::new() };
    Some(format!("to know more: vramtape explain {}{device}", quoted(&path.to_string_lossy())))
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "/._-+:,@%=".contains(it);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, file: &str) -> (String, String, u32) {
        (name.to_owned(), file.to_owned(), 7)
    }

    #[test]
    fn the_users_innermost_frames_are_named_and_a_librarys_where_there_are_none() {
        let torch = frame("forward", "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py");
        let frames = vec![
            torch.clone(),
            frame("block", "/data/ann/model.py"),
            torch.clone(),
            frame("<module>", "/data/ann/train.py"),
            frame("main", "/data/ann/run.py"),
        ];
        assert_eq!(code_of(frames).as_deref(), Some("model.py:7 block < train.py:7"));
        assert_eq!(code_of(vec![torch]).as_deref(), Some("linear.py:7 forward"));
        assert_eq!(code_of(Vec::new()), None);
    }

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        assert_eq!(quoted("/dev/shm/vramtape-1/9.ring"), "/dev/shm/vramtape-1/9.ring");
        assert_eq!(quoted("it's mine.vtape"), r"'it'\''s mine.vtape'");
    }
}
