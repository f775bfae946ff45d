//! What a simulated device is like.

use std::collections::VecDeque;

use events::{Addr, DeviceId};

use super::{Faults, PriceList};

/// When a recorded event is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventPolicy {
    /// At once.
    #[default]
    AtOnce,
    /// After this many queries that say "not ready".
    AfterQueries(u32),
    /// When [`SimDevice::complete`](super::SimDevice::complete) says so.
    OnRequest,
}

/// Which free addresses memory is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressOrder {
    /// The lowest range that fits.
    #[default]
    Lowest,
    /// The highest range that fits.
    Highest,
    /// A range anywhere, by this seed.
    Scattered {
        /// The same seed gives the same addresses to the same calls.
        seed: u64,
    },
}

/// A simulated device's properties. Whatever the policy, an event that is synchronised with is done.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Its ordinal.
    pub device: DeviceId,
    /// The lowest address it hands out, a multiple of the granularity.
    pub base: Addr,
    /// Bytes of address space from there, a multiple of the granularity.
    pub length_bytes: u64,
    /// Bytes of physical memory.
    pub capacity_bytes: u64,
    /// Unit of physical memory and of addresses.
    pub granularity_bytes: u64,
    /// Which free addresses memory is given.
    pub order: AddressOrder,
    /// When events are done.
    pub events: EventPolicy,
    /// The devices that it shares memory with.
    pub peers: Vec<DeviceId>,
    /// Addresses for `malloc`, in order; see [`SimDevice::set_scripts`](super::SimDevice::set_scripts).
    pub malloc_addresses: VecDeque<Addr>,
    /// Addresses for `reserve`, in order.
    pub reserve_addresses: VecDeque<Addr>,
    /// What fails.
    pub faults: Faults,
    /// What each call costs.
    pub prices: PriceList,
}

impl SimConfig {
    /// CUDA's granularity of physical memory on every GPU since Pascal.
    pub const GRANULARITY_BYTES: u64 = 2 << 20;
    /// More than any device has: no recorded run fills it. A terabyte more is half a million pages of an expandable
    /// segment.
    pub const UNLIMITED_CAPACITY_BYTES: u64 = 2 << 40;

    /// Device 0 with the given capacity, 8 TiB of addresses, events that are done at once and no faults.
    pub fn with_capacity(capacity_bytes: u64) -> Self {
        Self {
            device: DeviceId(0),
            base: Addr(0x7a00_0000_0000),
            length_bytes: 8 << 40,
            capacity_bytes,
            granularity_bytes: Self::GRANULARITY_BYTES,
            order: AddressOrder::Lowest,
            events: EventPolicy::AtOnce,
            peers: Vec::new(),
            malloc_addresses: VecDeque::new(),
            reserve_addresses: VecDeque::new(),
            faults: Faults::default(),
            prices: PriceList::default(),
        }
    }
}

impl Default for SimConfig {
    /// An 80 GiB device.
    fn default() -> Self {
        Self::with_capacity(80 << 30)
    }
}
