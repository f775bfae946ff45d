//! Watchers of every event of every device, devices opened later included.

use std::sync::atomic::{AtomicU64, Ordering};

use device::Device;
use recorder::{WatchId, Watcher};
use trace_format::{BlockStatus, DeviceId, PoolId};

use super::{Heap, heaps, with};
use crate::error::Error;

/// Makes the watcher of one device.
type Make = Box<dyn Fn(DeviceId) -> Box<dyn Watcher> + Send>;

/// A registered watcher.
pub(super) struct Watch {
    id: WatchId,
    make: Make,
}

impl Watch {
    /// Begins to watch a device's heap.
    pub(super) fn begin(&self, device: DeviceId, heap: &Heap) -> Result<(), Error> {
        let mut heap = heap.lock()?;
        let segments = heap.segments(PoolId::DEFAULT);
        let live = segments.iter().flat_map(|segment| {
            let held = segment.blocks.iter().filter(|block| block.status != BlockStatus::Inactive);
            held.map(|block| (block.addr, (segment.stream, segment.pool)))
        });
        heap.recorder_mut().watch(self.id, (self.make)(device), live);
        Ok(())
    }
}

/// Makes a watcher for each device; it sees every later event there.
pub(crate) fn begin(
    make: impl Fn(DeviceId) -> Box<dyn Watcher> + Send + 'static,
) -> Result<WatchId, Error> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    with(|process| {
        let id = WatchId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        let watch = Watch { id, make: Box::new(make) };
        for heap in heaps() {
            let device = heap.lock()?.device_mut().id();
            watch.begin(device, heap)?;
        }
        process.watches.push(watch);
        Ok(id)
    })
}

/// Removes the watchers of one [`begin`]. None is called after this returns.
pub(crate) fn end(id: WatchId) -> Result<(), Error> {
    with(|process| {
        let watches = process.watches.len();
        process.watches.retain(|watch| watch.id != id);
        if process.watches.len() == watches {
            return Err(Error::value(format!("no trace watcher has the number {}", id.0)));
        }
        for heap in heaps() {
            heap.lock()?.recorder_mut().unwatch(id);
        }
        Ok(())
    })
}
