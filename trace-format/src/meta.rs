//! A tape's metadata: its origin and the settings it was recorded under.

use serde::{Deserialize, Serialize};

use events::DeviceId;

/// Where the events come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Our own recorder saw them happen.
    #[default]
    Recorded,
    /// They were read from another tool's file.
    Imported,
    /// A value of a later version.
    #[serde(other)]
    Unknown,
}

/// How the recorded program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// It ended by itself: its last line, or `sys.exit`.
    Exit,
    /// An exception that was not caught.
    Exception,
    /// The same, and the exception was `torch.OutOfMemoryError`.
    OutOfMemory,
    /// A signal that the recorder could answer, such as SIGTERM or SIGINT.
    Signal,
    /// It was killed: its rings were found without a process.
    Killed,
    /// The program went on: recording was stopped, or a tape was saved in the middle.
    RecordingStopped,
    /// The program went on: the tape could not be written any more, as on a full disk.
    TapeFailed,
    /// A value of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The end of the recorded program, or of its tape. A tape without one ended with its process: it was killed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramEnd {
    /// How it ended.
    pub kind: EndKind,
    /// The exception's type and first line, the signal's name, the error of the tape; empty where there is nothing to
    /// add.
    pub detail: String,
    /// When, in nanoseconds since the Unix epoch.
    pub time_ns: Option<u64>,
    /// Fields that a later version added; kept as they are.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

/// A device's metadata.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceMeta {
    /// Which device.
    pub id: DeviceId,
    /// Its product name.
    pub name: String,
    /// Its UUID as NVML and DCGM write it (`GPU-...`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Bytes of memory that the device has.
    pub total_bytes: Option<u64>,
    /// Bytes that the run could have, where less than `total_bytes` (other processes, a simulated device).
    pub capacity_bytes: Option<u64>,
    /// Per-process memory fraction at the start; `None` where no limit was set.
    pub memory_fraction: Option<f64>,
    /// Fields that a later version added; kept as they are.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

/// The first chunk of every tape; a later one replaces it (a device that was opened later, a final figure).
///
/// Absent values stay absent: an importer leaves out fields that its source does not hold, and lists in `inferred`
/// the facts it inferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Where the events come from.
    pub source: Source,
    /// The program that wrote the tape, with its version.
    pub producer: String,
    /// The strategy that placed the blocks (`native`, `stitch`, ...).
    pub strategy: Option<String>,
    /// Version of the PyTorch that made the requests.
    pub torch_version: Option<String>,
    /// Version of the CUDA runtime that this PyTorch was built for (`13.0`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda_version: Option<String>,
    /// Version of the GPU's driver (`580.65.06`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// The command line of the recorded program; `None` where it is not known or was left out on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The PyTorch version whose behaviour `native` reproduced (`2.11`, `2.15`).
    pub compat: Option<String>,
    /// The text of `PYTORCH_CUDA_ALLOC_CONF`.
    pub alloc_conf: String,
    /// The text of `VRAMTAPE_CONF`.
    pub vramtape_conf: String,
    /// The devices.
    pub devices: Vec<DeviceMeta>,
    /// Process id of the recorded program.
    pub pid: Option<u32>,
    /// Its rank in a distributed job.
    pub rank: Option<u32>,
    /// The machine's name.
    pub hostname: Option<String>,
    /// When recording started, in nanoseconds since the Unix epoch.
    pub start_time_ns: Option<u64>,
    /// The clock behind the records' times (`unix`, `none`, ...).
    pub clock: Option<String>,
    /// How the recorded program ended; `None` where the tape ends with its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<ProgramEnd>,
    /// Number of this file among the parts of a tape with a size limit (`tape_max`), from 1; `None` for any other tape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Records on earlier parts that were removed to keep the limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_records: u64,
    /// Size of those parts.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_bytes: u64,
    /// Facts that an importer inferred because its source does not hold them, one sentence each.
    pub inferred: Vec<String>,
    /// Fields that a later version added; kept as they are.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_sources_of_later_versions_are_kept() {
        let text = r#"{"source":"dreamt","moon":"full","devices":[{"id":1,"colour":"red"}]}"#;
        let meta: Meta = serde_json::from_str(text).unwrap();
        assert_eq!(meta.source, Source::Unknown);
        assert_eq!(meta.devices[0].id, DeviceId(1));
        let again: Meta = serde_json::from_str(&serde_json::to_string(&meta).unwrap()).unwrap();
        assert_eq!(again.other["moon"], "full");
        assert_eq!(again.devices[0].other["colour"], "red");
    }

    #[test]
    fn the_end_of_a_program_is_written_and_unknown_kinds_are_kept_apart() {
        let detail = "SIGTERM".to_owned();
        let end = ProgramEnd { kind: EndKind::Signal, detail, ..ProgramEnd::default() };
        let text =
            serde_json::to_string(&Meta { end: Some(end.clone()), ..Meta::default() }).unwrap();
        assert_eq!(serde_json::from_str::<Meta>(&text).unwrap().end, Some(end));
        let later: Meta =
            serde_json::from_str(r#"{"end":{"kind":"eaten","by":"wolves"}}"#).unwrap();
        let later = later.end.unwrap();
        assert_eq!((later.kind, &later.other["by"]), (EndKind::Unknown, &"wolves".into()));
        assert!(!serde_json::to_string(&Meta::default()).unwrap().contains("\"end\""));
    }
}
