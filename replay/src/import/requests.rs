//! Requests without placements, from a log of allocations and frees.
//!
//! Such a source has no segments. To become a tape, its requests are placed as `native` places them under PyTorch's
//! default settings on a device without limit: by the allocator itself, as in every replay.

use std::collections::BTreeMap;

use settings::Config;
use sim_device::{SimConfig, SimDevice};
use thiserror::Error;
use trace_format::{Addr, BaseState, DeviceId, Event, PoolId, Record, StackId, Stream, ThreadId};

use super::{DeviceImport, Import, Origin};
use crate::driver::{DriveError, Driver, Follow};
use crate::snapshot::Stacks;
use crate::timeline::Timeline;

/// Addresses of the device that requests are placed on; many times what it holds.
const ADDRESS_SPACE_BYTES: u64 = 1 << 60;

/// Requests that cannot be placed.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// They contradict each other.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// No device could hold them.
    #[error("the blocks that are live at once do not fit into 2 TiB; is the file damaged?")]
    TooLarge,
}

/// The requests of a log, device by device.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Allocations, completed frees and failures; an address is a name, unique among live blocks.
    pub(super) devices: BTreeMap<DeviceId, Vec<Record>>,
    pub(super) stacks: Stacks,
    /// Facts that were inferred because the source does not hold them.
    pub(super) inferred: Vec<String>,
}

/// An allocation of the default pool.
pub(super) fn alloc(addr: Addr, requested_bytes: u64, stream: Stream) -> Event {
    let pool = PoolId::DEFAULT;
    Event::Alloc { addr, requested_bytes, size_bytes: requested_bytes, stream, pool }
}

/// A free that is done at once.
pub(super) fn free(addr: Addr, requested_bytes: u64) -> Event {
    Event::Free { addr, requested_bytes, size_bytes: requested_bytes, pending: false }
}

/// A request at a time, from a thread and a stack.
pub(super) fn record(time_ns: u64, thread: ThreadId, stack: StackId, event: Event) -> Record {
    Record { time_ns, thread, stack, event }
}

impl Requests {
    /// The requests as an import, each placed.
    pub(super) fn place(self, origin: Origin, trust_factor: u64) -> Result<Import, PlaceError> {
        let config = Config::default();
        let follow = Follow { trust_factor, ..Follow::default() };
        let place =
            |(device, records): (DeviceId, Vec<Record>)| place(device, &records, &config, follow);
        let devices = self.devices.into_iter().map(place).collect::<Result<_, _>>()?;
        let mut inferred = vec![format!(
            "{origin} holds requests and no placements: blocks and segments are where PyTorch's \
             policy puts them under its default settings, on a device without limit"
        )];
        inferred.extend(self.inferred);
        Ok(Import { origin, devices, stacks: self.stacks, config, inferred, trust_factor })
    }
}

fn place(
    device: DeviceId,
    requests: &[Record],
    config: &Config,
    follow: Follow,
) -> Result<DeviceImport, PlaceError> {
    let sim = SimDevice::new(SimConfig {
        device,
        length_bytes: ADDRESS_SPACE_BYTES,
        ..SimConfig::with_capacity(SimConfig::UNLIMITED_CAPACITY_BYTES)
    });
    let base = BaseState::default();
    let timeline = Timeline::default();
    let mut driver = Driver::new(sim, config.clone(), timeline, &base, follow)?;
    for request in requests {
        if matches!(request.event, Event::Oom { .. }) {
            // It failed there; here it would succeed, and stand on the tape as memory in use.
            driver.heap_mut().recorder_mut().records.push(*request);
        } else {
            driver.step(request, |_| "")?;
        }
    }
    if driver.heap().stats().num_ooms > 0 {
        return Err(PlaceError::TooLarge);
    }
    Ok(DeviceImport {
        device,
        base,
        final_segments: driver.heap().segments(PoolId::DEFAULT),
        records: std::mem::take(&mut driver.heap_mut().recorder_mut().records),
        unrecorded_frees: 0,
    })
}
