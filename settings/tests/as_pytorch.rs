//! Every settings string that a real PyTorch was asked about is accepted or refused as it did, with
//! the same values.
//!
//! `tests/python/config/record.py` asks PyTorch and writes the golden files.

use serde::Deserialize;
use settings::{Compat, Config, ConfigError, UNLIMITED};

#[derive(Deserialize)]
struct Case {
    /// Applied in this order to a fresh allocator that runs.
    #[serde(default)]
    settings: Vec<String>,
    /// In place of them: what the environment had at the start.
    environment: Option<String>,
    /// After all of them, where none was refused.
    values: Option<Values>,
    refused_at: Option<usize>,
    #[serde(rename = "type")]
    exception: Option<String>,
    message: Option<String>,
    /// How PyTorch's process ended, where it did.
    died: Option<i32>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Values {
    max_split_size: i64,
    max_non_split_rounding_size: u64,
    large_segment_size: u64,
    garbage_collection_threshold: f64,
    roundup_power2_divisions: Vec<i64>,
    expandable_segments: bool,
    release_lock_on_cudamalloc: bool,
    graph_capture_record_stream_reuse: bool,
    per_process_memory_fraction: f64,
}

impl From<&Config> for Values {
    fn from(config: &Config) -> Self {
        Self {
            max_split_size: match config.max_split_size_bytes {
                UNLIMITED => -1,
                bytes => bytes as i64,
            },
            max_non_split_rounding_size: config.max_non_split_rounding_bytes,
            large_segment_size: config.large_segment_size_bytes,
            garbage_collection_threshold: config.garbage_collection_threshold,
            roundup_power2_divisions: config
                .roundup_power2_divisions
                .iter()
                .map(|divisions| *divisions as i64)
                .collect(),
            expandable_segments: config.expandable_segments,
            release_lock_on_cudamalloc: config.release_lock_on_cudamalloc,
            graph_capture_record_stream_reuse: config.graph_capture_record_stream_reuse,
            per_process_memory_fraction: config.per_process_memory_fraction,
        }
    }
}

#[test]
fn settings_are_read_as_pytorch_2_11_reads_them() {
    check(Compat::V2_11, include_str!("../../tests/python/config/golden-2.11.jsonl"));
}

#[test]
fn settings_are_read_as_pytorch_2_15_reads_them() {
    check(Compat::V2_15, include_str!("../../tests/python/config/golden-2.15.jsonl"));
}

fn check(compat: Compat, golden: &str) {
    let mut differences = Vec::new();
    let cases: Vec<Case> =
        golden.lines().map(|line| serde_json::from_str(line).expect("a golden line")).collect();
    assert!(cases.len() > 400, "the golden file has {} cases", cases.len());
    for case in &cases {
        if let Some(difference) = difference(compat, case) {
            differences.push(format!("{:?}{:?}: {difference}", case.environment, case.settings));
        }
    }
    assert!(differences.is_empty(), "{compat:?}:\n{}", differences.join("\n"));
}

/// How ours departs from what PyTorch did.
fn difference(compat: Compat, case: &Case) -> Option<String> {
    let ours = match &case.environment {
        Some(text) => Config::parse(text, compat).map(|ours| ours.config).map_err(|e| (None, e)),
        None => apply(compat, &case.settings).map_err(|(at, error)| (Some(at), error)),
    };
    match (&case.values, ours) {
        (Some(theirs), Ok(config)) => {
            let ours = Values::from(&config);
            let text = case.environment.as_ref().or(case.settings.last())?;
            (ours != *theirs || config.text != *text)
                .then(|| format!("ours {ours:?}, PyTorch {theirs:?}"))
        }
        (Some(_), Err((_, error))) => Some(format!("PyTorch accepts, ours: {error}")),
        (None, Ok(_)) => Some(format!("ours accepts, PyTorch: {:?}", case.message)),
        // PyTorch ends the process: nothing but refusing can be the same.
        (None, Err(_)) if case.died.is_some() => None,
        (None, Err((at, error))) => {
            let (exception, words) =
                (case.exception.as_deref()?, case.message.as_deref()?.trim_end());
            let is_same = case.refused_at == at
                && error.exception.name() == exception
                && error.message.contains(words)
                && !error.advice.is_empty();
            (!is_same).then(|| {
                format!("ours {} {error}; PyTorch {exception} {words}", error.exception.name())
            })
        }
    }
}

fn apply(compat: Compat, texts: &[String]) -> Result<Config, (usize, ConfigError)> {
    let mut config = Config { compat, ..Config::default() };
    for (at, text) in texts.iter().enumerate() {
        config = config.reparse(text).map_err(|error| (at, error))?.config;
    }
    Ok(config)
}
