//! The program that runs: what a tape says about it, and how it ends.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use serde::Deserialize;
use settings::{DeviceKind, Settings};
use trace_format::{EndKind, Meta, ProgramEnd};

use super::with;
use crate::error::Error;
use crate::torch;

/// What `vramtape_describe` takes. Absent fields leave what is known.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Description {
    torch_version: Option<String>,
    cuda_version: Option<String>,
    command: Option<Vec<String>>,
    end: Option<End>,
}

#[derive(Debug, Deserialize)]
struct End {
    kind: EndKind,
    #[serde(default)]
    detail: String,
}

/// Facts about the program.
#[derive(Debug, Default)]
pub(super) struct Program {
    torch_version: Option<String>,
    cuda_version: Option<String>,
    driver_version: Option<String>,
    command: Option<Vec<String>>,
    is_command_wanted: bool,
    /// When this process began to record.
    started_ns: Option<u64>,
    /// How it ends, where that was said beforehand.
    end: Option<ProgramEnd>,
}

impl Program {
    pub(super) fn new(settings: &Settings) -> Self {
        let is_command_wanted = settings.command;
        Self {
            torch_version: torch::version(),
            cuda_version: None,
            driver_version: driver_version(settings.device),
            command: if is_command_wanted { command_line() } else { None },
            is_command_wanted,
            started_ns: Some(now_ns()),
            end: None,
        }
    }

    /// A forked child begins anew.
    pub(super) fn after_fork_child(&mut self) {
        (self.started_ns, self.end) = (Some(now_ns()), None);
    }

    /// `meta` with all that is known.
    pub(super) fn described(&self, meta: Meta) -> Meta {
        Meta {
            torch_version: self.torch_version.clone(),
            cuda_version: self.cuda_version.clone(),
            driver_version: self.driver_version.clone(),
            command: self.command.clone(),
            start_time_ns: self.started_ns,
            ..meta
        }
    }

    fn learn(&mut self, description: Description) {
        let Description { torch_version, cuda_version, command, end } = description;
        self.torch_version = torch_version.or_else(|| self.torch_version.take());
        self.cuda_version = cuda_version.or_else(|| self.cuda_version.take());
        if self.is_command_wanted && self.command.is_none() {
            self.command = command;
        }
        if let Some(End { kind, detail }) = end {
            self.end = Some(ended(kind, detail));
        }
    }

    /// How the program ends at `exit`.
    pub(super) fn end(&self) -> ProgramEnd {
        let end = self.end.clone().unwrap_or_else(|| ended(EndKind::Exit, ""));
        ProgramEnd { time_ns: Some(now_ns()), ..end }
    }

    /// The same for a tape that is made before: unless the end was said, the program goes on.
    pub(super) fn end_so_far(&self) -> ProgramEnd {
        self.end.clone().unwrap_or_else(|| ended(EndKind::RecordingStopped, ""))
    }
}

/// An end that comes now.
pub(super) fn ended(kind: EndKind, detail: impl Into<String>) -> ProgramEnd {
    let (detail, time_ns) = (detail.into(), Some(now_ns()));
    ProgramEnd { kind, detail, time_ns, ..ProgramEnd::default() }
}

/// Takes what the Python package knows.
pub(crate) fn describe(text: &str) -> Result<(), Error> {
    let description = serde_json::from_str(text).map_err(|error| {
        Error::value(format!(
            "the description cannot be read: {error}; expected JSON such as \
             {{\"torch_version\": \"2.11.0\"}}"
        ))
    })?;
    with(|process| {
        process.program.learn(description);
        Ok(())
    })
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The process's arguments; `None` where no `/proc` is mounted.
fn command_line() -> Option<Vec<String>> {
    let bytes = fs::read("/proc/self/cmdline").ok()?;
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    let arguments = bytes.split(|byte| *byte == 0);
    Some(arguments.map(|one| String::from_utf8_lossy(one).into_owned()).collect())
}

/// The version of the GPU's driver, as its kernel module says it.
fn driver_version(device: DeviceKind) -> Option<String> {
    let is_simulated = env::var_os("VRAMTAPE_SIMCUDA").is_some_and(|folder| !folder.is_empty());
    if is_simulated || device == DeviceKind::Sim {
        return Some("simulated".to_owned());
    }
    let version = fs::read_to_string(Path::new("/sys/module/nvidia/version")).ok()?;
    Some(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(text: &str, settings: &str) -> (Program, Meta) {
        let (settings, _) = Settings::parse(settings).unwrap();
        let mut program = Program::new(&settings);
        program.learn(serde_json::from_str(text).unwrap());
        let meta = program.described(Meta::default());
        (program, meta)
    }

    #[test]
    fn a_tape_names_the_program_and_its_versions() {
        let text =
            r#"{"torch_version": "2.11.0+cu130", "cuda_version": "13.0", "command": ["no"]}"#;
        let (program, meta) = learned(text, "device:sim");
        assert_eq!(meta.torch_version.as_deref(), Some("2.11.0+cu130"));
        assert_eq!(meta.cuda_version.as_deref(), Some("13.0"));
        assert_eq!(meta.driver_version.as_deref(), Some("simulated"));
        let own: Vec<_> = env::args().collect();
        assert_eq!(meta.command, Some(own));
        assert!(meta.start_time_ns > Some(1_700_000_000_000_000_000));
        assert_eq!(program.end().kind, EndKind::Exit);
    }

    #[test]
    fn the_command_line_is_left_out_on_request() {
        let (_, meta) = learned(r#"{"command": ["train.py", "--token=secret"]}"#, "command:off");
        assert_eq!(meta.command, None);
    }

    #[test]
    fn an_end_that_was_said_is_the_one_at_exit() {
        let text = r#"{"end": {"kind": "exception", "detail": "ValueError: no"}}"#;
        let end = learned(text, "").0.end();
        assert_eq!((end.kind, end.detail.as_str()), (EndKind::Exception, "ValueError: no"));
        assert!(end.time_ns.is_some());
    }
}
