//! What the calls cost.

use device::DeviceCall;

/// Number of [`DeviceCall`] kinds.
const CALLS: usize = DeviceCall::ExchangeCaptureMode as usize + 1;

/// A call's price: a fixed part and a part per MiB of its size. The fixed part of [`DeviceCall::SetAccess`] is per
/// mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Nanoseconds for any call.
    pub fixed_ns: u64,
    /// Nanoseconds for each MiB (rounded down).
    pub per_mib_ns: u64,
}

impl Price {
    /// The price of a call of this size.
    pub const fn ns(self, size_bytes: u64) -> u64 {
        self.fixed_ns + self.per_mib_ns.saturating_mul(size_bytes >> 20)
    }
}

/// The price of each call.
///
/// The default list is that of an H100 with driver 580, measured in `docs/results/2026-11-26-gpu.md`: calls for many
/// pages of 2 MiB in a row, and the part per MiB from calls of 1 GiB. While kernels run, the calls for pages take up to
/// twice as long. Export, import, peers and captures were not measured: these are estimates. Use the list to rank
/// policies, not to predict seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceList {
    prices: [Price; CALLS],
}

impl PriceList {
    /// The price of `call`.
    pub const fn of(&self, call: DeviceCall) -> Price {
        self.prices[call as usize]
    }

    /// Replaces the price of `call`.
    pub const fn set(&mut self, call: DeviceCall, price: Price) {
        self.prices[call as usize] = price;
    }
}

impl Default for PriceList {
    fn default() -> Self {
        use DeviceCall as Call;
        let mut list = Self { prices: [Price::default(); CALLS] };
        for (call, fixed_ns, per_mib_ns) in [
            (Call::MemoryInfo, 6_500, 0),
            (Call::Malloc, 36_000, 50),
            (Call::Free, 30_000, 280),
            (Call::Reserve, 2_000, 0),
            (Call::Unreserve, 1_500, 0),
            (Call::Create, 12_000, 9),
            (Call::Release, 13_000, 260),
            (Call::Map, 3_000, 0),
            (Call::Unmap, 20_000, 12),
            (Call::SetAccess, 25_000, 32),
            (Call::Export, 5_000, 0),
            (Call::Import, 20_000, 0),
            (Call::CanAccessPeer, 1_000, 0),
            (Call::EventRecord, 1_400, 0),
            (Call::EventQuery, 950, 0),
            (Call::EventSynchronize, 2_000, 0),
            (Call::StreamSynchronize, 1_200, 0),
            (Call::DeviceSynchronize, 5_000, 0),
            (Call::Capture, 200, 0),
            (Call::Dependencies, 300, 0),
            (Call::ExchangeCaptureMode, 100, 0),
        ] {
            list.set(call, Price { fixed_ns, per_mib_ns });
        }
        list
    }
}

/// How often each call was made, failed ones included, and what all of them cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    calls: [u64; CALLS],
    total: u64,
    price_ns: u64,
}

impl Counts {
    /// How often `call` was made.
    pub const fn of(&self, call: DeviceCall) -> u64 {
        self.calls[call as usize]
    }

    /// How many calls were made in all.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// What all calls cost, by the device's [`PriceList`], in nanoseconds.
    pub const fn price_ns(&self) -> u64 {
        self.price_ns
    }

    /// Adds so many times a price.
    pub(super) const fn add_price(&mut self, price_ns: u64, count: u64) {
        self.price_ns = self.price_ns.saturating_add(price_ns.saturating_mul(count));
    }

    /// Adds so many calls of one price.
    pub(super) const fn add(&mut self, call: DeviceCall, count: u64, price_ns: u64) {
        self.calls[call as usize] += count;
        self.total += count;
        self.price_ns = self.price_ns.saturating_add(price_ns.saturating_mul(count));
    }
}
