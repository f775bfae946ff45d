//! A tape in memory, device by device, ready to be replayed, compared or written.

mod collect;
mod imported;
mod open;
mod parts;
mod stretch;
mod write;

use std::io::Read;

use settings::Compat;
use trace_format::{
    BaseState, DeviceId, DeviceMeta, FrameId, Meta, ReadError, Reader, Record, Recovery, StackId,
    StringId, Tables,
};

use crate::snapshot::Stacks;
use collect::Devices;
pub use open::OpenError;
pub(crate) use parts::is_older_part;

/// A whole tape.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    /// Its description.
    pub meta: Meta,
    /// Its devices, in order of their numbers.
    pub devices: Vec<Device>,
    /// Its strings and stacks, under the tape's numbers.
    pub stacks: Stacks,
    /// How the file ended.
    pub recovery: Recovery,
    /// How many times the usual limits it may reach, when it is read and replayed; 0 and 1 are the usual ones.
    pub trust_factor: u64,
}

/// One device of a tape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Which device.
    pub id: DeviceId,
    /// The memory before the first record.
    pub base: BaseState,
    /// The records, without a gap.
    pub records: Vec<Record>,
    /// Records that the recorder lost.
    pub lost: u64,
    /// Records that are on the tape but not here: where some were lost, only the longest stretch between two gaps
    /// that begins with a known state can be replayed.
    pub left_out: u64,
}

impl Tape {
    /// Reads a tape from `source`, which errors call `name`.
    ///
    /// # Errors
    /// As for [`Reader`].
    pub fn read(source: impl Read, name: impl Into<String>) -> Result<Self, ReadError> {
        Self::read_trusted(source, name, 1)
    }

    /// The same with `trust_factor` times the usual limits on what a file of some size may hold.
    ///
    /// # Errors
    /// As for [`Reader`].
    pub fn read_trusted(
        source: impl Read,
        name: impl Into<String>,
        trust_factor: u64,
    ) -> Result<Self, ReadError> {
        let tape = Self::collect(Reader::with_limits(source, name, trust_factor)?)?;
        Ok(Self { trust_factor, ..tape })
    }

    fn collect<R: Read>(mut reader: Reader<R>) -> Result<Self, ReadError> {
        let devices = collect::collect(&mut reader)?;
        let stacks = stacks_of(reader.tables());
        Ok(finished(reader.meta(), reader.recovered(), devices, stacks))
    }

    /// The text of a string that a record names; empty where the tape has none.
    pub fn text(&self, id: StringId) -> &str {
        self.stacks.text(id)
    }

    /// The tape's metadata of a device.
    pub fn device_meta(&self, id: DeviceId) -> Option<&DeviceMeta> {
        self.meta.devices.iter().find(|device| device.id == id)
    }

    /// The PyTorch version whose behaviour its allocator reproduced; the newest where the tape has none.
    pub fn compat(&self) -> Compat {
        let named = self.meta.compat.as_deref().and_then(Compat::from_name);
        let torch = self.meta.torch_version.as_deref().map(Compat::of_torch);
        named.or(torch).unwrap_or_default()
    }

    /// Records of all devices.
    pub fn records_len(&self) -> u64 {
        self.devices.iter().map(|device| device.records.len() as u64).sum()
    }
}

fn finished(meta: &Meta, recovery: &Recovery, mut devices: Devices, stacks: Stacks) -> Tape {
    devices.sort_by_key(|(id, _)| *id);
    let devices = devices.into_iter().map(|(id, device)| device.finish(id)).collect();
    let (meta, recovery) = (meta.clone(), recovery.clone());
    Tape { meta, recovery, devices, stacks, trust_factor: 1 }
}

fn stacks_of(tables: &Tables) -> Stacks {
    let string = |id| tables.string(StringId(id)).unwrap_or_default().to_owned();
    let stack = |id| tables.stack(StackId(id)).unwrap_or_default().iter().copied();
    Stacks {
        strings: (0..=tables.strings_len()).map(string).collect(),
        frames: (0..tables.frames_len()).filter_map(|id| tables.frame_ids(FrameId(id))).collect(),
        stacks: (0..=tables.stacks_len()).map(|id| stack(id).collect()).collect(),
    }
}
