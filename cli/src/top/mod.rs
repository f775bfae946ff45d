//! `vramtape top [PID]`: the memory of a running job, as it changes.

mod device;
mod draw;
mod frame;
mod held;
mod terminal;

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::process::{self, Process};
use crate::rings::RingFolder;
use crate::{Verdict, output};
use device::Device;
use frame::Frame;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The process [default: the only one that records]
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Print one look as text, as is done where standard output is no terminal
    #[arg(long)]
    once: bool,
    /// Print one look as JSON
    #[arg(long)]
    json: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    #[command(flatten)]
    rings: RingFolder,
}

/// The rings are read this often: far more often than a usual job turns one over.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Width of the output where no terminal gives one.
const WIDTH: usize = 120;

/// Prints one frame, or shows the process on the terminal.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let folder = options.rings.path();
    let process = process::choose(&folder, options.pid)?;
    let mut watch = Watch::new(process, folder)?;
    if options.json {
        let frame = watch.frame_after(options.interval);
        watch.check()?;
        output::print_json(&frame)?;
    } else if options.once || !io::stdout().is_terminal() {
        let frame = watch.frame_after(options.interval);
        watch.check()?;
        let lines = draw::lines(&frame, None, WIDTH).into_iter();
        let lines = lines.map(|line| line.to_string().trim_end().to_owned() + "\n");
        output::print(&lines.collect::<String>())?;
    } else {
        terminal::run(&mut watch, options.interval)?;
    }
    Ok(Verdict::Good)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds from 0.05 to 3600".to_owned()),
    }
}

/// The rings of a process, followed.
pub(super) struct Watch {
    process: Process,
    folder: PathBuf,
    opened: HashSet<PathBuf>,
    devices: Vec<Device>,
}

impl Watch {
    fn new(process: Process, folder: PathBuf) -> Result<Self> {
        let mut watch = Self { process, folder, opened: HashSet::new(), devices: Vec::new() };
        watch.open_rings();
        if watch.devices.is_empty() {
            bail!("process {} has ended just now", watch.process.pid);
        }
        Ok(watch)
    }

    /// Opens rings that are new: a job may begin to use a device at any time.
    fn open_rings(&mut self) {
        for path in &self.process.rings {
            if !self.opened.contains(path)
                && let Ok(device) = Device::open(path)
            {
                self.opened.insert(path.clone());
                self.devices.push(device);
            }
        }
    }

    /// Reads the records since the last call.
    fn poll(&mut self) {
        self.devices.iter_mut().for_each(Device::poll);
    }

    /// An error if a ring cannot be read any more.
    pub(super) fn check(&mut self) -> Result<()> {
        self.devices.iter_mut().try_for_each(Device::check).map_err(Into::into)
    }

    fn frame(&mut self) -> Frame {
        if let Ok(processes) = process::list(&self.folder)
            && let Some(now) = processes.into_iter().find(|now| now.pid == self.process.pid)
        {
            self.process.rings = now.rings;
            self.open_rings();
        }
        // Asked before the last records are read, so that the end is complete.
        let is_live = self.devices.iter().any(Device::is_live);
        self.poll();
        let mut devices: Vec<_> = self.devices.iter_mut().map(Device::frame).collect();
        devices.sort_by_key(|device| device.device);
        Frame { pid: self.process.pid, command: self.process.command.clone(), is_live, devices }
    }

    /// A frame whose rates are those of the time until then.
    fn frame_after(&mut self, interval: Duration) -> Frame {
        self.frame();
        let began = Instant::now();
        while let Some(left) = interval.checked_sub(began.elapsed()) {
            thread::sleep(left.min(POLL_EVERY));
            self.poll();
        }
        self.frame()
    }
}
