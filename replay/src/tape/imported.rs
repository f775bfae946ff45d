//! An imported file as a tape.

use trace_format::{DeviceMeta, Meta, Recovery, Source};

use super::{Device, Tape};
use crate::import::{Import, RunLimits};

impl Tape {
    /// The tape of an import; `known` is what the import was given.
    pub fn of_import(import: Import, known: &RunLimits) -> Self {
        let device_meta = |device: &crate::import::DeviceImport| DeviceMeta {
            id: device.device,
            capacity_bytes: known.capacity_bytes,
            memory_fraction: known.memory_fraction,
            ..DeviceMeta::default()
        };
        let meta = Meta {
            source: Source::Imported,
            producer: concat!("vramtape import ", env!("CARGO_PKG_VERSION")).to_owned(),
            // Nothing else writes PyTorch's snapshots, and what has no placements is placed so.
            strategy: Some("native".to_owned()),
            compat: Some(import.config.compat.name().to_owned()),
            alloc_conf: import.config.text,
            devices: import.devices.iter().map(device_meta).collect(),
            inferred: import.inferred,
            ..Meta::default()
        };
        let devices = import.devices.into_iter().map(|device| Device {
            id: device.device,
            base: device.base,
            records: device.records,
            lost: 0,
            left_out: 0,
        });
        let recovery = Recovery { finished: true, ..Recovery::default() };
        let (devices, trust_factor) = (devices.collect(), import.trust_factor);
        Self { meta, devices, stacks: import.stacks, recovery, trust_factor }
    }
}
