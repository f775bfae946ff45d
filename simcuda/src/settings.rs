//! `VRAMTAPE_SIM_MEMORY`, `VRAMTAPE_SIM_DEVICES`, `VRAMTAPE_SIM_EVENT_LAG`, `VRAMTAPE_SIM_NEIGHBOUR` and
//! `VRAMTAPE_SIM_PINNED`.

use std::env;

use settings::parse_bytes_with_unit;
use sim_device::SimConfig;

/// The properties of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Memory of each device.
    pub(crate) memory_bytes: u64,
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
        let memory = lookup(MEMORY)?;
        let memory_bytes = memory.as_deref().map_or(Ok(80 << 30), parse_memory)?;
        let devices = parse_count(DEVICES, lookup(DEVICES)?, 1, 1..=MAX_DEVICES)?;
        let event_lag = parse_count(EVENT_LAG, lookup(EVENT_LAG)?, 0, 0..=MAX_EVENT_LAG)?;
        let neighbour = lookup(NEIGHBOUR)?;
        let neighbour = neighbour.map(|text| parse_neighbour(&text, memory_bytes)).transpose()?;
        let pinned = lookup(PINNED)?;
        let pinned_bytes = pinned.as_deref().map(parse_pinned).transpose()?;
        Ok(Self { memory_bytes, devices: devices as u16, event_lag, neighbour, pinned_bytes })
    }
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
            memory_bytes: 80 << 30,
            devices: 1,
            event_lag: 0,
            neighbour: None,
            pinned_bytes: None,
        };
        assert_eq!(settings(&[]), Ok(expected));
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
