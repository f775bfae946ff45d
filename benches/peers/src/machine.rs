//! The machine that a measurement was taken on.

use std::fmt;
use std::fs;
use std::thread;

use serde::Serialize;

/// The machine and how busy it is.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    /// The first of the load averages when the measurement began.
    load_before: String,
    /// And when it ended; the measurement itself is a part of it.
    load_after: String,
}

impl Machine {
    /// The description of this machine; missing facts are "unknown".
    pub(crate) fn look() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            processor: model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.to_owned()),
            cores: thread::available_parallelism().map_or(0, usize::from),
            kernel: kernel.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned()),
            load_before: load(),
            load_after: String::new(),
        }
    }

    /// The measurement is over.
    pub(crate) fn look_again(&mut self) {
        self.load_after = load();
    }
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|first| !first.is_empty()).unwrap_or("unknown").to_owned()
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, kernel, load_before, load_after } = self;
        write!(
            f,
            "{processor}, {cores} cores, Linux {kernel}; load {load_before} before, {load_after} after"
        )
    }
}
