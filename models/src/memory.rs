//! The simulated device as the models use it: memory in, memory out, within the device's capacity and the memory
//! fraction. Calls are counted and priced by the device itself, as they are for the live allocator.

use std::ops::RangeInclusive;

use device::{Device, DeviceCall, DeviceError};
use events::{Addr, Stream};
use sim_device::{Counts, SimConfig, SimDevice};

/// Physical memory that is mapped comes in pages of this size.
pub const PAGE_BYTES: u64 = SimConfig::GRANULARITY_BYTES;

/// A device's memory, shared by all pools of a model.
pub struct Memory {
    device: SimDevice,
    total_bytes: u64,
    allowed_bytes: u64,
    reserved_bytes: u64,
    peak_reserved_bytes: u64,
    /// The least bytes that would have been held had a refused request been served.
    least_refused_bytes: u64,
    /// Whether the model used the capacity as a number.
    has_shown_capacity: bool,
    obtained: i64,
    returned: i64,
    /// What open blocks cost beyond the calls that stand for theirs.
    open_ns: u64,
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
            least_refused_bytes: u64::MAX,
            has_shown_capacity: false,
            obtained: 0,
            returned: 0,
            open_ns: 0,
        })
    }

    /// The device's memory, in bytes, for what depends on the number itself.
    pub fn total_bytes(&mut self) -> u64 {
        self.has_shown_capacity = true;
        self.total_bytes
    }

    /// Whether the device has at least so much memory, where less is never of interest.
    pub fn is_at_least(&self, total_bytes: u64) -> bool {
        self.total_bytes >= total_bytes
    }

    /// The capacities, first and last, with which everything so far would have been the same; `None` where the model
    /// used the number itself.
    pub fn same_with(&self) -> Option<RangeInclusive<u64>> {
        let first = self.peak_reserved_bytes.max(self.device.peak_used_bytes());
        let last = self.least_refused_bytes.min(self.device.least_refused_bytes()) - 1;
        (!self.has_shown_capacity).then_some(first..=last)
    }

    /// Limits what may be held to a fraction of the device's memory (`set_per_process_memory_fraction`).
    pub fn limit(&mut self, fraction: f64) {
        self.allowed_bytes = (fraction * self.total_bytes as f64) as u64;
    }

    /// Bytes that may still be asked for, for what depends on the number itself. The device may refuse even those: it
    /// counts whole granules.
    pub fn available_bytes(&mut self) -> u64 {
        self.has_shown_capacity = true;
        self.allowed_bytes.saturating_sub(self.reserved_bytes)
    }

    /// Whether so many bytes may still be asked for.
    pub fn has_available(&mut self, size_bytes: u64) -> bool {
        let fits = size_bytes <= self.allowed_bytes.saturating_sub(self.reserved_bytes);
        if !fits {
            let wanted_bytes = self.reserved_bytes.saturating_add(size_bytes);
            self.least_refused_bytes = self.least_refused_bytes.min(wanted_bytes);
        }
        fits
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

    /// All calls of the device.
    pub fn counts(&self) -> &Counts {
        self.device.counts()
    }

    /// The most bytes of addresses at which memory was mapped at once.
    pub fn peak_mapped_bytes(&self) -> u64 {
        self.device.peak_mapped_bytes()
    }

    /// The price of all calls.
    pub fn price_ns(&self) -> u64 {
        self.device.counts().price_ns() + self.open_ns
    }

    /// `cudaMalloc`; `None` where the limit or the device refuses.
    pub fn obtain(&mut self, size_bytes: u64) -> Option<Addr> {
        if !self.has_available(size_bytes) {
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

    /// Addresses without memory (`cuMemAddressReserve`); `None` where the address space is used up.
    pub fn reserve(&mut self, size_bytes: u64) -> Option<Addr> {
        self.device.reserve(size_bytes).ok()
    }

    /// Gives addresses back that nothing is mapped at.
    pub fn unreserve(&mut self, addr: Addr, size_bytes: u64) {
        self.device.unreserve(addr, size_bytes).expect("a model returns what it reserved");
    }

    /// New pages from `addr` on, a page after the other; how many until the limit or the device refuses. A run of pages
    /// counts as one call that obtained memory.
    pub fn map(&mut self, addr: Addr, pages: u64) -> u64 {
        let allowed = self.allowed_bytes.saturating_sub(self.reserved_bytes) / PAGE_BYTES;
        let tried = pages.min(allowed);
        let mapped = if tried > 0 {
            let mapped = self.device.map_pages(addr, PAGE_BYTES, tried);
            mapped.expect("a model maps where nothing is")
        } else {
            0
        };
        self.hold(mapped * PAGE_BYTES);
        if mapped == tried && tried < pages {
            self.has_available(PAGE_BYTES); // It is refused, and noted as such.
        }
        self.obtained += i64::from(mapped > 0);
        mapped
    }

    /// Takes the pages from `addr` on back to the device. A run of pages counts as one call that returned memory.
    pub fn unmap(&mut self, addr: Addr, pages: u64) {
        if pages > 0 {
            let unmapped = self.device.unmap_pages(addr, PAGE_BYTES, pages);
            unmapped.expect("a model unmaps what it mapped");
            self.reserved_bytes -= pages * PAGE_BYTES;
            self.returned += 1;
        }
    }

    /// Moves pages to other addresses.
    pub fn remap(&mut self, from: Addr, to: Addr, pages: u64) {
        let moved = self.device.move_pages(from, to, PAGE_BYTES, pages);
        moved.expect("a model moves what it mapped to where nothing is");
    }

    /// An open block: one `cudaMalloc` at the start, of as much as turns out to be used; nothing is held yet. `None`
    /// where there are no addresses for `most_bytes`.
    pub fn obtain_open(&mut self, most_bytes: u64) -> Option<Addr> {
        let addr = self.reserve(most_bytes)?; // It is counted as a call, and stands for the `cudaMalloc`.
        self.obtained += 1;
        self.open_ns += self.device.price_ns(DeviceCall::Malloc, 0);
        self.open_ns -= self.device.price_ns(DeviceCall::Reserve, most_bytes);
        Some(addr)
    }

    /// Uses more of an open block; false where the limit forbids it.
    pub fn extend(&mut self, from_bytes: u64, to_bytes: u64) -> bool {
        let fits = self.has_available(to_bytes - from_bytes);
        if fits {
            self.hold(to_bytes - from_bytes);
            let price_ns = |bytes| self.device.price_ns(DeviceCall::Malloc, bytes);
            self.open_ns += price_ns(to_bytes) - price_ns(from_bytes);
        }
        fits
    }

    /// `cudaFree` of an open block.
    pub fn give_back_open(&mut self, addr: Addr, most_bytes: u64, used_bytes: u64) {
        self.unreserve(addr, most_bytes);
        self.returned += 1;
        self.open_ns += self.device.price_ns(DeviceCall::Free, used_bytes);
        self.open_ns -= self.device.price_ns(DeviceCall::Unreserve, most_bytes);
        self.reserved_bytes -= used_bytes;
    }

    /// `cudaStreamSynchronize`.
    pub fn synchronize_stream(&mut self, stream: Stream) {
        self.device.stream_synchronize(stream).expect("nothing captures on the device of a model");
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
