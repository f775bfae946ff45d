//! Which program a run is of, and where it ran.

use std::path::{Path, PathBuf};

use recorder::{RING_DIR_VARIABLE, RingReader, list_rings, ring_dir};
use replay::tape::Tape;
use trace_format::{Meta, utc};

use crate::bytes;

/// The rows about the program: name and value.
pub(super) fn rows(meta: &Meta) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("command", meta.command.as_deref().map(command_line)),
        ("started", meta.start_time_ns.map(utc)),
        ("torch", meta.torch_version.clone()),
        ("CUDA", meta.cuda_version.clone()),
        ("driver", meta.driver_version.clone()),
        ("GPU", gpus(meta)),
        ("strategy", meta.strategy.clone()),
        ("settings", Some(meta.alloc_conf.clone())),
        ("vramtape", Some(meta.vramtape_conf.clone())),
        ("machine", meta.hostname.clone()),
        ("process", meta.pid.map(|pid| pid.to_string())),
        ("rank", meta.rank.map(|rank| rank.to_string())),
        ("parts", parts(meta)),
    ]
}

/// The arguments as a shell takes them.
fn command_line(arguments: &[String]) -> String {
    arguments.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(" ")
}

fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    // One line, whatever a `-c` has.
    format!("'{}'", argument.replace('\'', r"'\''").replace('\n', "; "))
}

/// Each product once, with its number.
fn gpus(meta: &Meta) -> Option<String> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for device in meta.devices.iter().filter(|device| !device.name.is_empty()) {
        match counted.iter_mut().find(|(name, _)| *name == device.name) {
            Some((_, count)) => *count += 1,
            None => counted.push((&device.name, 1)),
        }
    }
    let shown = counted.iter().map(|(name, count)| match count {
        1 => (*name).to_owned(),
        count => format!("{count} x {name}"),
    });
    let shown: Vec<_> = shown.collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Parts that a tape with a size limit has dropped.
fn parts(meta: &Meta) -> Option<String> {
    let dropped = (meta.dropped_records > 0).then(|| {
        format!(
            "{} records ({}) before these were removed to keep tape_max",
            meta.dropped_records,
            bytes::show(meta.dropped_bytes)
        )
    });
    match (meta.part.filter(|part| *part > 1), dropped) {
        (None, dropped) => dropped,
        (Some(part), None) => Some(format!("part {part}, read alone")),
        (Some(part), Some(dropped)) => Some(format!("part {part}, read alone; {dropped}")),
    }
}

/// The command that joins a killed process's tape with its rings, where those are still there.
pub(super) fn recovery_command(path: &Path, tape: &Tape) -> Option<String> {
    let pid = tape.meta.pid.filter(|_| !tape.recovery.finished)?;
    let rings = list_rings(&ring_dir(std::env::var_os(RING_DIR_VARIABLE))).ok()?;
    let is_its = |ring: &PathBuf| {
        let Ok(mut reader) = RingReader::open(ring) else { return false };
        if reader.info().pid != pid || reader.is_live() {
            return false;
        }
        // Another process may have had that number since.
        let started = reader.meta().and_then(|meta| meta.start_time_ns);
        started.is_none() || started == tape.meta.start_time_ns
    };
    let stem = path.with_extension("");
    let whole = format!("{}-whole.vtape", stem.display());
    let tape = quoted(&path.display().to_string());
    rings
        .iter()
        .any(is_its)
        .then(|| format!("vramtape recover {pid} --tape {tape} -o {}", quoted(&whole)))
}

#[cfg(test)]
mod tests {
    use trace_format::DeviceMeta;

    use super::*;

    #[test]
    fn a_command_line_can_be_given_to_a_shell_again() {
        let command = ["python", "train.py", "--name", "it's a run", ""].map(str::to_owned);
        assert_eq!(command_line(&command), r"python train.py --name 'it'\''s a run' ''");
    }

    #[test]
    fn gpus_of_one_product_are_one_row() {
        let device = |name: &str| DeviceMeta { name: name.to_owned(), ..DeviceMeta::default() };
        let devices = vec![device("NVIDIA H100"), device("NVIDIA H100"), device("NVIDIA L4")];
        let meta = Meta { devices, ..Meta::default() };
        assert_eq!(gpus(&meta).as_deref(), Some("2 x NVIDIA H100, NVIDIA L4"));
        assert_eq!(gpus(&Meta::default()), None);
    }

    #[test]
    fn parts_removed_by_tape_max_are_counted() {
        let meta = Meta { dropped_records: 12, dropped_bytes: 3 << 20, ..Meta::default() };
        let text = parts(&meta).unwrap();
        assert!(text.starts_with("12 records (3.00 MiB) before these"), "{text}");
        let text = parts(&Meta { part: Some(2), ..Meta::default() });
        assert_eq!(text.as_deref(), Some("part 2, read alone"));
        assert_eq!(parts(&Meta { part: Some(1), ..Meta::default() }), None);
    }
}
