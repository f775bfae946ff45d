//! The numbers that a message states.

use regex::bytes::Captures;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A number, as far as a message states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stated {
    /// The message does not have it.
    #[default]
    Not,
    /// Printed, but a stand-in for "not known" or "no limit", such as 17179869184.00 GiB.
    Sentinel,
    /// In bytes; of a device, its number.
    As(u64),
}

impl Stated {
    /// The number, where there is one.
    pub fn get(self) -> Option<u64> {
        match self {
            Self::As(number) => Some(number),
            Self::Not | Self::Sentinel => None,
        }
    }

    fn of(number: Option<u64>) -> Self {
        number.map_or(Self::Sentinel, Self::As)
    }
}

/// A process that the message lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListedProcess {
    /// Its number, in the process namespace of the driver.
    pub pid: u64,
    /// Its memory on the device; `None` where the driver does not state it.
    pub bytes: Option<u64>,
}

/// Processes of one message that are kept: more than a machine has.
const PROCESSES: usize = 1024;

/// The numbers of one message. In JSON those that it states, `null` for a sentinel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields {
    /// The refused request.
    pub requested_bytes: Stated,
    /// The device's number, as the process counts them.
    pub device: Stated,
    /// The device's memory.
    pub capacity_bytes: Stated,
    /// The device's free memory.
    pub free_bytes: Stated,
    /// A limit below the device's memory: a memory fraction, or a pool's limit.
    pub allowed_bytes: Stated,
    /// Allocated by the framework.
    pub allocated_bytes: Stated,
    /// Reserved by the framework, allocated or not.
    pub reserved_bytes: Stated,
    /// Reserved and not allocated.
    pub reserved_unallocated_bytes: Stated,
    /// Allocated in private pools.
    pub private_pool_bytes: Stated,
    /// The memory of this process on the device.
    pub process_bytes: Stated,
    /// The other processes, in the message's order.
    pub processes: Vec<ListedProcess>,
    /// Other allocations of this process (MPS).
    pub other_allocations_bytes: Stated,
}

impl Fields {
    /// The fields with their names, in a message's order.
    pub fn named(&self) -> [(&'static str, Stated); 11] {
        [
            ("requested_bytes", self.requested_bytes),
            ("device", self.device),
            ("capacity_bytes", self.capacity_bytes),
            ("free_bytes", self.free_bytes),
            ("allowed_bytes", self.allowed_bytes),
            ("allocated_bytes", self.allocated_bytes),
            ("reserved_bytes", self.reserved_bytes),
            ("reserved_unallocated_bytes", self.reserved_unallocated_bytes),
            ("private_pool_bytes", self.private_pool_bytes),
            ("process_bytes", self.process_bytes),
            ("other_allocations_bytes", self.other_allocations_bytes),
        ]
    }

    /// Whether the message has no number, except perhaps the device's.
    pub fn is_empty(&self) -> bool {
        *self == Self { device: self.device, ..Self::default() }
    }

    /// Takes the groups of a match; whether they state anything new. The first statement of a field counts.
    pub(super) fn take(&mut self, groups: &Captures<'_>) -> bool {
        let mut is_new = false;
        let text = |name| groups.name(name).map(|found| found.as_bytes());
        let fields = [
            ("requested", &mut self.requested_bytes),
            ("capacity", &mut self.capacity_bytes),
            ("free", &mut self.free_bytes),
            ("allowed", &mut self.allowed_bytes),
            ("allocated", &mut self.allocated_bytes),
            ("reserved", &mut self.reserved_bytes),
            ("unallocated", &mut self.reserved_unallocated_bytes),
            ("pool", &mut self.private_pool_bytes),
            ("process", &mut self.process_bytes),
            ("others", &mut self.other_allocations_bytes),
            ("device", &mut self.device),
        ];
        for (name, field) in fields {
            if let Some(text) = text(name).filter(|_| *field == Stated::Not) {
                *field = Stated::of(size_bytes(text));
                is_new = true;
            }
        }
        // An exact count after a rounded size, or a number whose unit follows the next.
        if let Some(text) = text("exact") {
            self.requested_bytes = Stated::of(size_bytes(text));
        }
        if let (Some(number), Some(next)) = (text("free_number"), text("capacity")) {
            let unit =
                next.iter().position(u8::is_ascii_alphabetic).map_or(&[][..], |at| &next[at..]);
            self.free_bytes = Stated::of(size_bytes(&[number, unit].concat()));
        }
        if let (Some(pid), Some(bytes)) = (text("pid"), text("listed")) {
            let pid = size_bytes(pid).unwrap_or(u64::MAX);
            is_new |= self.processes.len() < PROCESSES;
            if is_new {
                self.processes.push(ListedProcess { pid, bytes: size_bytes(bytes) });
            }
        }
        is_new
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, stated) in self.named() {
            if stated != Stated::Not {
                map.serialize_entry(name, &stated.get())?;
            }
        }
        if !self.processes.is_empty() {
            let bytes: Vec<_> = self.processes.iter().map(|process| process.bytes).collect();
            map.serialize_entry("other_process_bytes", &bytes)?;
        }
        map.end()
    }
}

/// Decimal places that count: GiB with six of them are a KiB apart.
const PLACES: usize = 6;

/// The bytes of a squashed size such as `1.50gib`, rounded; every unit is binary, as all these programs mean it.
/// `None` is a sentinel: a number that 64 bits do not hold, or their largest.
fn size_bytes(text: &[u8]) -> Option<u64> {
    let unit = text.iter().position(u8::is_ascii_alphabetic).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let shift = match unit.first() {
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(b'g') => 30,
        Some(b't') => 40,
        Some(b'p') => 50,
        Some(b'e') => 60,
        _ => 0,
    };
    let mut parts = number.split(|byte| *byte == b'.');
    let whole = parts.next().unwrap_or_default().iter().filter(|byte| byte.is_ascii_digit());
    let places = parts.next().unwrap_or_default();
    let places = &places[..places.len().min(PLACES)];
    let digits = whole.chain(places).map(|digit| u128::from(digit - b'0'));
    let scaled =
        digits.into_iter().try_fold(0u128, |sum, digit| sum.checked_mul(10)?.checked_add(digit))?;
    let divisor = 10u128.pow(places.len() as u32);
    let bytes = (scaled.checked_mul(1 << shift)?.checked_add(divisor / 2)?) / divisor;
    u64::try_from(bytes).ok().filter(|bytes| *bytes != u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_and_sentinels_are_none() {
        for (text, bytes) in [
            ("0bytes", Some(0)),
            ("2.00mib", Some(2 << 20)),
            ("23.68gib", Some(25_426_206_392)),
            ("1015.00kib", Some(1_039_360)),
            ("12.5pib", Some(14_073_748_835_532_800)),
            ("146.mib", Some(146 << 20)),
            ("11.00g", Some(11 << 30)),
            ("10.371208gib", Some(11_135_999_795)),
            ("120,000,000,000bytes", Some(120_000_000_000)),
            ("2071210686004019200bytes", Some(2_071_210_686_004_019_200)),
            ("33668857856", Some(33_668_857_856)),
            ("17179869184.00gib", None),
            ("18,446,744,073,709,551,615bytes", None),
            ("99999999999999999999999999999999999999999999gib", None),
        ] {
            assert_eq!(size_bytes(text.as_bytes()), bytes, "{text}");
        }
    }
}
