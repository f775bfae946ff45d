//! A tape in memory, device by device, ready to be replayed or compared.

mod stretch;

use std::io::{BufReader, Read};
use std::path::Path;

use trace_format::{
    BaseState, DeviceId, DeviceMeta, Item, Meta, ReadError, Reader, Record, Recovery, StringId,
    Tables,
};

use stretch::Stretches;

/// A whole tape.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// Its description.
    pub meta: Meta,
    /// Its devices, in order of their numbers.
    pub devices: Vec<Device>,
    /// Its strings and stacks.
    pub tables: Tables,
    /// How the file ended.
    pub recovery: Recovery,
}

/// One device of a tape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Which device.
    pub id: DeviceId,
    /// What was there before the first record.
    pub base: BaseState,
    /// What happened, without a gap.
    pub records: Vec<Record>,
    /// Records that the recorder lost.
    pub lost: u64,
    /// Records that are on the tape but not here: where some were lost, only the longest stretch between two gaps
    /// that begins with a known state can be replayed.
    pub left_out: u64,
}

impl Tape {
    /// Reads a `.vtape` file.
    ///
    /// # Errors
    /// As for [`Reader`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        Self::collect(Reader::open(path)?)
    }

    /// Reads a tape from `source`, which errors call `name`.
    ///
    /// # Errors
    /// As for [`Reader`].
    pub fn read(source: impl Read, name: impl Into<String>) -> Result<Self, ReadError> {
        Self::collect(Reader::new(BufReader::new(source), name)?)
    }

    fn collect<R: Read>(mut reader: Reader<R>) -> Result<Self, ReadError> {
        let mut devices: Vec<(DeviceId, Stretches)> = Vec::new();
        for item in reader.by_ref() {
            match item? {
                Item::Meta(_) => {} // The reader keeps the latest.
                Item::Base(id, base) => stretches(&mut devices, id).base(*base),
                Item::Event(id, record) => stretches(&mut devices, id).push(record),
            }
        }
        devices.sort_by_key(|(id, _)| *id);
        Ok(Self {
            meta: reader.meta().clone(),
            recovery: reader.recovered().clone(),
            devices: devices.into_iter().map(|(id, device)| device.finish(id)).collect(),
            tables: reader.tables().clone(),
        })
    }

    /// The text of a string that a record names; empty where the tape has none.
    pub fn text(&self, id: StringId) -> &str {
        self.tables.string(id).unwrap_or_default()
    }

    /// What the tape says about a device.
    pub fn device_meta(&self, id: DeviceId) -> Option<&DeviceMeta> {
        self.meta.devices.iter().find(|device| device.id == id)
    }

    /// Records of all devices.
    pub fn records_len(&self) -> u64 {
        self.devices.iter().map(|device| device.records.len() as u64).sum()
    }
}

fn stretches(devices: &mut Vec<(DeviceId, Stretches)>, id: DeviceId) -> &mut Stretches {
    let at = devices.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
        devices.push((id, Stretches::default()));
        devices.len() - 1
    });
    &mut devices[at].1
}
