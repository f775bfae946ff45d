//! Addresses and physical memory: what is allocated, reserved, created and mapped.

mod pages;

use std::collections::{BTreeMap, VecDeque};

use events::{Addr, DeviceId};

use super::dense_map::DenseMap;
use super::faults::next_unit;
use super::mapping::Mappings;
use super::range_set::RangeSet;
use super::{AddressOrder, SimConfig, code, refuse};
use device::{DeviceCall, DeviceError, HandleType, MemoryInfo, PhysicalHandle, Result};

/// A chunk of physical memory. It lives while a handle or a mapping refers to it.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    size_bytes: u64,
    /// How it may be shared.
    share: HandleType,
    /// Another process created it, and is charged for it.
    is_adopted: bool,
    handles: u32,
    mappings: u32,
}

/// Addresses that memory can be mapped at.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    size_bytes: u64,
    /// Mappings that start inside.
    mappings: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Memory {
    base: u64,
    length_bytes: u64,
    capacity_bytes: u64,
    granularity_bytes: u64,
    /// Free addresses.
    space: RangeSet,
    order: AddressOrder,
    used_bytes: u64,
    peak_used_bytes: u64,
    /// What would have been in use after the smallest of the requests that found no memory.
    least_refused_bytes: u64,
    allocations: BTreeMap<u64, u64>,
    reservations: BTreeMap<u64, Reservation>,
    /// By handle: they are numbered as they are created.
    chunks: DenseMap<Chunk>,
    mappings: Mappings,
    /// Where pages without handles are, for this device's use.
    pages: RangeSet,
    next_handle: u64,
    /// Handles that were exported and not closed.
    exported: i64,
    malloc_script: VecDeque<Addr>,
    reserve_script: VecDeque<Addr>,
    /// The reservation that took the last scripted address, until something is mapped there; with that address.
    untouched: Option<(Addr, Addr)>,
}

impl Memory {
    pub(super) fn new(config: &SimConfig) -> Self {
        let base = config.base.0.next_multiple_of(config.granularity_bytes);
        Self {
            base,
            length_bytes: config.length_bytes,
            capacity_bytes: config.capacity_bytes,
            granularity_bytes: config.granularity_bytes,
            space: RangeSet::new(base, config.length_bytes),
            order: config.order,
            used_bytes: 0,
            peak_used_bytes: 0,
            least_refused_bytes: u64::MAX,
            allocations: BTreeMap::new(),
            reservations: BTreeMap::new(),
            chunks: DenseMap::default(),
            mappings: Mappings::new(config.granularity_bytes),
            pages: RangeSet::default(),
            next_handle: 1,
            exported: 0,
            malloc_script: config.malloc_addresses.clone(),
            reserve_script: config.reserve_addresses.clone(),
            untouched: None,
        }
    }

    pub(super) fn set_scripts(&mut self, malloc: VecDeque<Addr>, reserve: VecDeque<Addr>) {
        self.malloc_script = malloc;
        self.reserve_script = reserve;
    }

    pub(super) fn granularity_bytes(&self) -> u64 {
        self.granularity_bytes
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn peak_used_bytes(&self) -> u64 {
        self.peak_used_bytes
    }

    pub(super) fn least_refused_bytes(&self) -> u64 {
        self.least_refused_bytes
    }

    pub(super) fn info(&self) -> MemoryInfo {
        MemoryInfo {
            free_bytes: self.capacity_bytes - self.used_bytes,
            total_bytes: self.capacity_bytes,
        }
    }

    pub(super) fn allocation_bytes(&self, addr: Addr) -> Option<u64> {
        self.allocations.get(&addr.0).copied()
    }

    pub(super) fn handle_bytes(&self, handle: PhysicalHandle) -> Option<u64> {
        self.chunks.get(handle.0).filter(|chunk| chunk.handles > 0).map(|chunk| chunk.size_bytes)
    }

    pub(super) fn mapped_at(&self, addr: Addr) -> Option<PhysicalHandle> {
        self.mappings.at(addr.0)
    }

    pub(super) fn mapping_count(&self) -> usize {
        self.mappings.len()
    }

    pub(super) fn peak_mapped_bytes(&self) -> u64 {
        self.mappings.peak_bytes()
    }

    pub(super) fn owns(&self, addr: Addr) -> bool {
        addr.0 >= self.base && addr.0 - self.base < self.length_bytes
    }

    pub(super) fn malloc(&mut self, size_bytes: u64) -> Result<Addr> {
        let call = DeviceCall::Malloc;
        if size_bytes == 0 {
            return Err(refuse(call, code::INVALID_VALUE, "0 bytes asked for"));
        }
        let out_of_memory = DeviceError::OutOfMemory { call, size_bytes };
        let Some(length) = size_bytes.checked_next_multiple_of(self.granularity_bytes) else {
            return Err(out_of_memory);
        };
        if !self.charge(length) {
            return Err(out_of_memory);
        }
        let scripted = self.malloc_script.pop_front();
        let Some(start) = self.place(scripted, length) else {
            self.used_bytes -= length;
            return Err(out_of_memory);
        };
        self.allocations.insert(start, length);
        Ok(Addr(start))
    }

    /// The scripted address when the range is free there, else one by the order.
    fn place(&mut self, scripted: Option<Addr>, length: u64) -> Option<u64> {
        if let Some(addr) = scripted
            && self.space.take_at(addr.0, length)
        {
            return Some(addr.0);
        }
        match &mut self.order {
            AddressOrder::Lowest => self.space.take(length),
            AddressOrder::Highest => self.space.take_last(length),
            AddressOrder::Scattered { seed } => {
                let granules = self.length_bytes / self.granularity_bytes;
                let granule = (next_unit(seed) * granules as f64) as u64;
                let start = self.base + granule * self.granularity_bytes;
                let is_free = self.space.take_at(start, length);
                if is_free { Some(start) } else { self.space.take(length) }
            }
        }
    }

    pub(super) fn free(&mut self, addr: Addr) -> Result<()> {
        let Some(length) = self.allocations.remove(&addr.0) else {
            let message = format!("{addr} is not the start of an allocation");
            return Err(refuse(DeviceCall::Free, code::INVALID_VALUE, message));
        };
        self.used_bytes -= length;
        self.space.give(addr.0, length);
        Ok(())
    }

    pub(super) fn reserve(&mut self, size_bytes: u64) -> Result<Addr> {
        let call = DeviceCall::Reserve;
        self.whole_granules(call, 0, size_bytes)?;
        let scripted = self.reserve_script.pop_front();
        let start = self
            .place(scripted, size_bytes)
            .ok_or(DeviceError::OutOfMemory { call, size_bytes })?;
        self.reservations.insert(start, Reservation { size_bytes, mappings: 0 });
        self.untouched = scripted.map(|scripted| (Addr(start), scripted));
        Ok(Addr(start))
    }

    pub(super) fn unreserve(&mut self, addr: Addr, size_bytes: u64) -> Result<()> {
        let call = DeviceCall::Unreserve;
        let reserved = self.reservations.get(&addr.0);
        let Some(reserved) = reserved.filter(|reserved| reserved.size_bytes == size_bytes) else {
            let message = format!("{addr} + {size_bytes} is not a whole reservation");
            return Err(refuse(call, code::INVALID_VALUE, message));
        };
        if let Some(start) = self.first_mapped(reserved, addr, size_bytes) {
            let message = format!("{} inside the range is still mapped", Addr(start));
            return Err(refuse(call, code::INVALID_VALUE, message));
        }
        self.reservations.remove(&addr.0);
        self.space.give(addr.0, size_bytes);
        // A script has only the reservations that were used.
        if let Some((_, scripted)) = self.untouched.take_if(|(start, _)| *start == addr) {
            self.reserve_script.push_front(scripted);
        }
        Ok(())
    }

    pub(super) fn create(&mut self, size_bytes: u64, share: HandleType) -> Result<PhysicalHandle> {
        self.whole_granules(DeviceCall::Create, 0, size_bytes)?;
        if !self.charge(size_bytes) {
            return Err(DeviceError::OutOfMemory { call: DeviceCall::Create, size_bytes });
        }
        Ok(self.add_chunk(size_bytes, share, false))
    }

    pub(super) fn take(&mut self, size_bytes: u64) -> Result<()> {
        let call = DeviceCall::Create;
        if self.charge(size_bytes) {
            Ok(())
        } else {
            Err(DeviceError::OutOfMemory { call, size_bytes })
        }
    }

    pub(super) fn adopt(&mut self, size_bytes: u64) -> Result<PhysicalHandle> {
        self.whole_granules(DeviceCall::Import, 0, size_bytes)?;
        Ok(self.add_chunk(size_bytes, HandleType::None, true))
    }

    fn add_chunk(
        &mut self,
        size_bytes: u64,
        share: HandleType,
        is_adopted: bool,
    ) -> PhysicalHandle {
        let handle = PhysicalHandle(self.next_handle);
        self.next_handle += 1;
        let chunk = Chunk { size_bytes, share, is_adopted, handles: 1, mappings: 0 };
        self.chunks.insert(handle.0, chunk);
        handle
    }

    pub(super) fn release(&mut self, handle: PhysicalHandle) -> Result<()> {
        self.held(DeviceCall::Release, handle)?.handles -= 1;
        self.used_bytes -= drop_if_unused(&mut self.chunks, handle);
        Ok(())
    }

    /// Takes one more reference, as an import does: the memory may be held by its mappings alone.
    pub(super) fn retain(&mut self, call: DeviceCall, handle: PhysicalHandle) -> Result<()> {
        let chunk = self.chunks.get_mut(handle.0).ok_or_else(|| {
            refuse(call, code::INVALID_VALUE, format!("there is no memory {}", handle.0))
        })?;
        chunk.handles += 1;
        Ok(())
    }

    /// Refuses a handle that is not held, or whose memory was not created to be shared this way.
    pub(super) fn check_share(
        &mut self,
        call: DeviceCall,
        handle: PhysicalHandle,
        share: HandleType,
    ) -> Result<()> {
        let made = self.held(call, handle)?.share;
        if made == share && made != HandleType::None {
            return Ok(());
        }
        let message = format!("asked for {share:?}, the memory was created for {made:?}");
        Err(refuse(call, code::INVALID_VALUE, message))
    }

    pub(super) fn on_export(&mut self) {
        self.exported += 1;
    }

    pub(super) fn on_close(&mut self) {
        self.exported -= 1;
    }

    /// Whether a handle or a mapping refers to the memory.
    pub(super) fn is_alive(&self, handle: PhysicalHandle) -> bool {
        self.chunks.contains(handle.0)
    }

    /// How the memory of a handle that is held may be shared.
    pub(super) fn share_of(&self, handle: PhysicalHandle) -> Option<HandleType> {
        self.chunks.get(handle.0).filter(|chunk| chunk.handles > 0).map(|chunk| chunk.share)
    }

    pub(super) fn map(
        &mut self,
        addr: Addr,
        size_bytes: u64,
        handle: PhysicalHandle,
    ) -> Result<()> {
        let call = DeviceCall::Map;
        self.whole_granules(call, addr.0, size_bytes)?;
        let whole = self.held(call, handle)?.size_bytes;
        if whole != size_bytes {
            let message = format!("{size_bytes} bytes asked for, the handle holds {whole}");
            return Err(refuse(call, code::INVALID_VALUE, message));
        }
        let start = self.check_vacant(call, addr, size_bytes)?;
        if let Some(reserved) = self.reservations.get_mut(&start) {
            reserved.mappings += 1;
        }
        self.untouched.take_if(|(untouched, _)| untouched.0 == start);
        self.held(call, handle)?.mappings += 1;
        self.mappings.insert(addr.0, size_bytes, handle);
        Ok(())
    }

    pub(super) fn unmap(&mut self, addr: Addr, size_bytes: u64) -> Result<()> {
        self.check_whole(DeviceCall::Unmap, addr, size_bytes)?;
        let Self { mappings, chunks, reservations, used_bytes, .. } = self;
        mappings.remove(addr.0, size_bytes, |start, handle| {
            if let Some((_, reserved)) = reservations.range_mut(..=start).next_back() {
                reserved.mappings -= 1;
            }
            if let Some(chunk) = chunks.get_mut(handle.0) {
                chunk.mappings -= 1;
            }
            *used_bytes -= drop_if_unused(chunks, handle);
        });
        Ok(())
    }

    /// Returns how many mappings the range has.
    pub(super) fn set_access(
        &mut self,
        addr: Addr,
        size_bytes: u64,
        peer: DeviceId,
    ) -> Result<u64> {
        self.check_whole(DeviceCall::SetAccess, addr, size_bytes)?;
        Ok(self.mappings.grant(addr.0, size_bytes, peer))
    }

    pub(super) fn range_of(&self, addr: Addr) -> Option<(Addr, u64)> {
        let allocated = self.allocations.range(..=addr.0).next_back();
        let allocated = allocated.map(|(&start, &size_bytes)| (Addr(start), size_bytes));
        let reserved = self.reservations.range(..=addr.0).next_back();
        let reserved = reserved.map(|(&start, reserved)| (Addr(start), reserved.size_bytes));
        let holds = |&(start, size_bytes): &(Addr, u64)| addr.0 - start.0 < size_bytes;
        allocated.filter(holds).or_else(|| reserved.filter(holds))
    }

    /// Whether `device` may use the byte at `addr`; `owner` has what it allocated.
    pub(super) fn accessible(&self, addr: Addr, device: DeviceId, owner: DeviceId) -> bool {
        let allocated = self.allocations.range(..=addr.0).next_back();
        if allocated.is_some_and(|(&start, &length)| addr.0 - start < length) {
            return device == owner;
        }
        let is_page = self.pages.first_in(addr.0, 1).is_some();
        (is_page && device == owner) || self.mappings.accessible(addr.0, device)
    }

    pub(super) fn leftovers(&self) -> Vec<String> {
        [
            (self.allocations.len(), "allocations not freed"),
            (self.reservations.len(), "address ranges still reserved"),
            (self.mappings.len() + self.pages.len(), "ranges still mapped"),
            (self.chunks.len(), "physical handles not released"),
            (self.exported.unsigned_abs() as usize, "exported handles not closed, or closed twice"),
        ]
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }

    fn charge(&mut self, bytes: u64) -> bool {
        if bytes > self.capacity_bytes - self.used_bytes {
            let wanted_bytes = self.used_bytes.saturating_add(bytes);
            self.least_refused_bytes = self.least_refused_bytes.min(wanted_bytes);
            return false;
        }
        self.used_bytes += bytes;
        self.peak_used_bytes = self.peak_used_bytes.max(self.used_bytes);
        true
    }

    fn whole_granules(&self, call: DeviceCall, start: u64, size_bytes: u64) -> Result<()> {
        let granule = self.granularity_bytes;
        let fits = start.checked_add(size_bytes).is_some();
        let whole = size_bytes.is_multiple_of(granule) && start.is_multiple_of(granule);
        if size_bytes > 0 && fits && whole {
            return Ok(());
        }
        let message = format!("{} + {size_bytes} is not whole granules of {granule}", Addr(start));
        Err(refuse(call, code::INVALID_VALUE, message))
    }

    /// The start of the reservation that the range is inside of. Refuses a range outside, and one where memory is.
    fn check_vacant(&self, call: DeviceCall, addr: Addr, size_bytes: u64) -> Result<u64> {
        let reserved = self.reservations.range(..=addr.0).next_back();
        let end = addr.0 + size_bytes;
        let inside = reserved.filter(|(start, reserved)| end <= **start + reserved.size_bytes);
        let Some((&start, reserved)) = inside else {
            let message = format!("{addr} + {size_bytes} is not inside a reservation");
            return Err(refuse(call, code::INVALID_VALUE, message));
        };
        if let Some(start) = self.first_mapped(reserved, addr, size_bytes) {
            let message = format!("{} is mapped already", Addr(start));
            return Err(refuse(call, code::ALREADY_MAPPED, message));
        }
        Ok(start)
    }

    fn held(&mut self, call: DeviceCall, handle: PhysicalHandle) -> Result<&mut Chunk> {
        self.chunks.get_mut(handle.0).filter(|chunk| chunk.handles > 0).ok_or_else(|| {
            refuse(call, code::INVALID_VALUE, format!("handle {} is not held", handle.0))
        })
    }

    /// Where the first mapping, or the first page without a handle, is in a range inside this reservation.
    fn first_mapped(&self, reserved: &Reservation, addr: Addr, size_bytes: u64) -> Option<u64> {
        let is_mapped = reserved.mappings > 0;
        let mapped = is_mapped.then(|| self.mappings.first_in(addr.0, size_bytes)).flatten();
        let page = self.pages.first_in(addr.0, size_bytes);
        mapped.into_iter().chain(page).min()
    }

    /// Refuses a range that is not made of whole mappings.
    fn check_whole(&self, call: DeviceCall, addr: Addr, size_bytes: u64) -> Result<()> {
        self.whole_granules(call, addr.0, size_bytes)?;
        if self.mappings.is_whole(addr.0, size_bytes) {
            return Ok(());
        }
        let message = format!("{addr} + {size_bytes} is not made of whole mappings");
        Err(refuse(call, code::NOT_MAPPED, message))
    }
}

/// Forgets a chunk that no handle and no mapping refers to any more. Returns the bytes that are no longer in use.
fn drop_if_unused(chunks: &mut DenseMap<Chunk>, handle: PhysicalHandle) -> u64 {
    let unused = |chunk: &&Chunk| chunk.handles == 0 && chunk.mappings == 0;
    let Some(chunk) = chunks.get(handle.0).filter(unused).copied() else { return 0 };
    chunks.remove(handle.0);
    if chunk.is_adopted { 0 } else { chunk.size_bytes }
}
