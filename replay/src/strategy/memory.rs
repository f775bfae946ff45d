//! The simulated device as the models use it: memory in, memory out, within the device's capacity and the memory
//! fraction. Calls are counted and priced by the device itself, as they are for [`Native`](super::Native).

use allocator::device::sim::{Counts, SimDevice};
use allocator::device::{Device, DeviceError};
use trace_format::{Addr, Stream};

/// A device's memory, shared by all pools of a model.
pub struct Memory {
    device: SimDevice,
    total_bytes: u64,
    allowed_bytes: u64,
    reserved_bytes: u64,
    peak_reserved_bytes: u64,
    obtained: i64,
    returned: i64,
}

impl Memory {
    /// All of a device's memory.
    ///
    /// # Errors
    /// When the device cannot say how much memory it has.
    pub fn new(mut device: SimDevice) -> Result<Self, DeviceError> {
        let total_bytes = device.memory_info()?.total_bytes;
        Ok(Self {
            device,
            total_bytes,
            allowed_bytes: total_bytes,
            reserved_bytes: 0,
            peak_reserved_bytes: 0,
            obtained: 0,
            returned: 0,
        })
    }

    /// The device's memory, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Limits what may be held to a fraction of the device's memory (`set_per_process_memory_fraction`).
    pub fn limit(&mut self, fraction: f64) {
        self.allowed_bytes = (fraction * self.total_bytes as f64) as u64;
    }

    /// Bytes that may still be asked for. The device may refuse even those: it counts whole granules.
    pub fn available_bytes(&self) -> u64 {
        self.allowed_bytes.saturating_sub(self.reserved_bytes)
    }

    /// Bytes held.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// The most bytes that were ever held at once.
    pub fn peak_reserved_bytes(&self) -> u64 {
        self.peak_reserved_bytes
    }

    /// Calls that obtained memory, and calls that returned it.
    pub fn calls(&self) -> (i64, i64) {
        (self.obtained, self.returned)
    }

    /// What was obtained so far was there at the start: it counts as held, its calls do not count.
    pub fn count_from_here(&mut self) {
        (self.obtained, self.returned) = (0, 0);
    }

    /// All calls and their price.
    pub fn counts(&self) -> &Counts {
        self.device.counts()
    }

    /// `cudaMalloc`; `None` where the limit or the device refuses.
    pub fn obtain(&mut self, size_bytes: u64) -> Option<Addr> {
        if size_bytes > self.available_bytes() {
            return None;
        }
        let addr = self.device.malloc(size_bytes).ok()?;
        self.obtained += 1;
        self.hold(size_bytes);
        Some(addr)
    }

    /// `cudaFree` of all that one [`obtain`](Self::obtain) answered with.
    pub fn give_back(&mut self, addr: Addr, size_bytes: u64) {
        self.device.free(addr).expect("a model returns what it obtained");
        self.returned += 1;
        self.reserved_bytes -= size_bytes;
    }

    /// `cudaEventRecord`, on an event that the model keeps for the stream.
    pub fn record_event(&mut self, stream: Stream) {
        if let Ok(event) = self.device.event_record(stream) {
            self.device.event_release(event);
        }
    }

    /// `cudaDeviceSynchronize`.
    pub fn synchronize(&mut self) {
        self.device.device_synchronize().expect("nothing captures on the device of a model");
    }

    fn hold(&mut self, size_bytes: u64) {
        self.reserved_bytes += size_bytes;
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes);
    }
}
