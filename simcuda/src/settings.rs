//! `VRAMTAPE_SIM_GPU`, `VRAMTAPE_SIM_MEMORY`, `VRAMTAPE_SIM_DEVICES`, `VRAMTAPE_SIM_EVENT_LAG`,
//! `VRAMTAPE_SIM_NEIGHBOUR` and `VRAMTAPE_SIM_PINNED`.

use std::env;
use std::path::Path;

use gpus::Gpu;
use settings::parse_bytes_with_unit;
use sim_device::SimConfig;

use crate::device;

/// The properties of the simulated machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The GPU that each device reports.
    pub(crate) gpu: Gpu,
    /// Memory of each device.
    pub(crate) memory_bytes: u64,
    /// Memory of a device that this process's context takes.
    pub(crate) context_bytes: u64,
    /// Number of devices.
    pub(crate) devices: u16,
    /// Queries that a recorded event answers with "not ready".
    pub(crate) event_lag: u32,
    /// Another process, which holds memory of every device.
    pub(crate) neighbour: Option<Neighbour>,
    /// Host memory that can be pinned; without a limit, as much as the machine has.
    pub(crate) pinned_bytes: Option<u64>,
}

/// Another process on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) pid: u32,
    /// The memory that it holds of each device: whole granules.
    pub(crate) used_bytes: u64,
}

const GPU: &str = "VRAMTAPE_SIM_GPU";
const MEMORY: &str = "VRAMTAPE_SIM_MEMORY";
const DEVICES: &str = "VRAMTAPE_SIM_DEVICES";
const EVENT_LAG: &str = "VRAMTAPE_SIM_EVENT_LAG";
const NEIGHBOUR: &str = "VRAMTAPE_SIM_NEIGHBOUR";
const PINNED: &str = "VRAMTAPE_SIM_PINNED";

/// Below one granule nothing can be allocated; above, a device's part of the address space has no room for it.
const MEMORY_RANGE: std::ops::RangeInclusive<u64> = 2 << 20..=1 << 40;
const MAX_DEVICES: u32 = 16;
const MAX_EVENT_LAG: u32 = 1_000_000;

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// A sentence that names the variable, its value and what is accepted.
    pub(crate) fn from_env() -> Result<Self, String> {
        Self::from_lookup(|name| match env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(env::VarError::NotPresent) => Ok(None),
            Err(env::VarError::NotUnicode(value)) => {
                Err(format!("{name}={} is not text", value.display()))
            }
        })
    }

    fn from_lookup(
        lookup: impl Fn(&str) -> Result<Option<String>, String>,
    ) -> Result<Self, String> {
        let named = lookup(GPU)?.map(|name| find_gpu(&name)).transpose()?;
        // A context of unknown size is free, so that exact totals are those of the allocator.
        let context_bytes = named.as_ref().map_or(0, |gpu| gpu.context.expected_bytes);
        let gpu = named.map_or_else(device::generic, Ok)?;
        let memory = lookup(MEMORY)?;
        let memory_bytes = memory.as_deref().map_or(Ok(gpu.memory_bytes), parse_memory)?;
        let devices = parse_count(DEVICES, lookup(DEVICES)?, 1, 1..=MAX_DEVICES)?;
        let event_lag = parse_count(EVENT_LAG, lookup(EVENT_LAG)?, 0, 0..=MAX_EVENT_LAG)?;
        let neighbour = lookup(NEIGHBOUR)?;
        let neighbour = neighbour.map(|text| parse_neighbour(&text, memory_bytes)).transpose()?;
        let pinned = lookup(PINNED)?;
        let pinned_bytes = pinned.as_deref().map(parse_pinned).transpose()?;
        Ok(Self {
            gpu,
            memory_bytes,
            context_bytes,
            devices: devices as u16,
            event_lag,
            neighbour,
            pinned_bytes,
        })
    }
}

/// The GPU of this name, or of the file of this path.
fn find_gpu(name: &str) -> Result<Gpu, String> {
    if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        return Gpu::from_file(Path::new(name)).map_err(|error| format!("{GPU}={error}"));
    }
    gpus::find(name).cloned().ok_or_else(|| {
        let close = gpus::suggest(name).join(" or ");
        let close = if close.is_empty() { String::new() } else { format!(" such as {close}") };
        format!("{GPU}={name}: write a name of `vramtape fit --gpu list`{close}, or the path of a .toml file")
    })
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let size = parse_bytes_with_unit(text).ok().filter(|size| MEMORY_RANGE.contains(size));
    size.ok_or_else(|| {
        format!(
            "{MEMORY}={text}: write a size from 2MiB to 1024GiB with its unit, as 80GiB or 24GB or 512MiB"
        )
    })
}

fn parse_pinned(text: &str) -> Result<u64, String> {
    parse_bytes_with_unit(text)
        .map_err(|_| format!("{PINNED}={text}: write a size with its unit, as 512MiB or 4GiB"))
}

fn parse_neighbour(text: &str, memory_bytes: u64) -> Result<Neighbour, String> {
    let parse = || {
        let (pid, size) = text.split_once(':')?;
        let used_bytes =
            parse_bytes_with_unit(size).ok()?.next_multiple_of(SimConfig::GRANULARITY_BYTES);
        let pid = pid.trim().parse().ok()?;
        (used_bytes < memory_bytes).then_some(Neighbour { pid, used_bytes })
    };
    parse().ok_or_else(|| {
        format!(
            "{NEIGHBOUR}={text}: write a process's number and what it holds of a device's memory, as 4242:2GiB"
        )
    })
}

fn parse_count(
    name: &str,
    value: Option<String>,
    default: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, String> {
    let Some(text) = value else { return Ok(default) };
    text.trim().parse().ok().filter(|count| range.contains(count)).ok_or_else(|| {
        format!("{name}={text}: write a whole number from {} to {}", range.start(), range.end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::from_lookup(|name| {
            Ok(pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        })
    }

    #[test]
    fn without_settings_it_is_one_device_of_80_gib() {
        let expected = Settings {
            gpu: device::generic().unwrap(),
            memory_bytes: 80 << 30,
            context_bytes: 0,
            devices: 1,
            event_lag: 0,
            neighbour: None,
            pinned_bytes: None,
        };
        assert_eq!(settings(&[]), Ok(expected));
    }

    #[test]
    fn a_gpu_has_its_memory_and_its_context_and_a_size_replaces_the_memory_only() {
        let h100 = settings(&[(GPU, "NVIDIA H100 80GB HBM3")]).unwrap();
        assert_eq!((h100.gpu.name.as_str(), h100.gpu.capability.major), ("h100", 9));
        assert_eq!(h100.memory_bytes, h100.gpu.memory_bytes);
        assert_eq!(h100.context_bytes, h100.gpu.context.expected_bytes);
        let small = settings(&[(GPU, "h100"), (MEMORY, "2GiB")]).unwrap();
        assert_eq!((small.memory_bytes, small.context_bytes), (2 << 30, h100.context_bytes));
    }

    #[test]
    fn a_gpu_that_is_not_known_is_an_error_with_close_names() {
        let error = settings(&[(GPU, "rtx4080")]).unwrap_err();
        assert!(error.starts_with("VRAMTAPE_SIM_GPU=rtx4080: write a name"), "{error}");
        assert!(error.contains("such as rtx4090 or rtx3080"), "{error}");
        let error = settings(&[(GPU, "/none/own.toml")]).unwrap_err();
        assert!(error.starts_with("VRAMTAPE_SIM_GPU=/none/own.toml: cannot be read: "), "{error}");
    }

    #[test]
    fn sizes_are_read_as_in_every_other_setting() {
        for (text, bytes) in [
            ("80GiB", 80 << 30),
            ("24 gb", 24 << 30),
            ("24G", 24 << 30),
            ("1.5GiB", 3 << 29),
            ("512MiB", 512 << 20),
            (" 1TiB ", 1 << 40),
            ("2097152B", 2 << 20),
        ] {
            let memory = settings(&[(MEMORY, text)]).map(|settings| settings.memory_bytes);
            assert_eq!(memory, Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_neighbour_has_a_number_and_whole_granules() {
        let found = settings(&[(NEIGHBOUR, "4242: 3MiB")]).map(|settings| settings.neighbour);
        assert_eq!(found, Ok(Some(Neighbour { pid: 4242, used_bytes: 4 << 20 })));
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_variable_and_the_value() {
        for (name, text) in [
            (MEMORY, ""),
            (MEMORY, "lots"),
            (MEMORY, "80"),
            (MEMORY, "-1GiB"),
            (MEMORY, "1e3GiB"),
            (MEMORY, "80GiB!"),
            (MEMORY, "1MiB"),
            (MEMORY, "2TiB"),
            (MEMORY, "nanGiB"),
            (DEVICES, "0"),
            (DEVICES, "17"),
            (DEVICES, "two"),
            (EVENT_LAG, "-1"),
            (EVENT_LAG, "1.5"),
            (NEIGHBOUR, "1GiB"),
            (NEIGHBOUR, "me:1GiB"),
            (NEIGHBOUR, "4242:80GiB"),
            (PINNED, "much"),
            (PINNED, "4"),
        ] {
            let error = settings(&[(name, text)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}={text}: write ")), "{error}");
        }
    }
}
