//! `expandable_segments_reserve`: how many addresses an expandable segment has.

const GIB: f64 = (1_u64 << 30) as f64;

/// The addresses of an expandable segment (`ExpandableSegmentReserve` in `c10/cuda/CUDAAllocatorConfig.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SegmentReserve {
    /// 9/8 of the device's memory.
    #[default]
    Default,
    /// So many GiB.
    Gib(f64),
    /// A fraction of the device's memory.
    Fraction(f64),
}

impl SegmentReserve {
    /// Reads `40G` or `0.5`; `None` for anything but a positive, finite number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (number, is_gib) = match text.strip_suffix(['G', 'g']) {
            Some(number) => (number, true),
            None => (text, false),
        };
        let value: f64 = number.parse().ok()?;
        let is_valid = value.is_finite() && value > 0.0;
        is_valid.then_some(if is_gib { Self::Gib(value) } else { Self::Fraction(value) })
    }

    /// Bytes of addresses that a segment has on a device of this size, before they are rounded up to whole pages.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and limited by the device"
    )]
    pub fn bytes(self, device_total_bytes: u64) -> u64 {
        let most = device_total_bytes.saturating_add(device_total_bytes / 8);
        let bytes = match self {
            Self::Default => return most,
            Self::Gib(gib) => gib * GIB,
            Self::Fraction(fraction) => fraction * device_total_bytes as f64,
        };
        (bytes as u64).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_pytorch_2_15_reads() {
        for (text, expected) in [
            ("1G", Some(1 << 30)),
            ("1.5g", Some(3 << 29)),
            ("3.G", Some(3 << 30)),
            ("0.5", Some(40 << 30)),
            ("1e-2", Some(858_993_459)),
            ("900", Some(90 << 30)),
            ("100g", Some(90 << 30)),
            ("2GB", None),
            ("-1", None),
            ("0", None),
            ("nan", None),
            ("inf", None),
            ("0.5f", None),
            ("", None),
        ] {
            let found = SegmentReserve::parse(text).map(|reserve| reserve.bytes(80 << 30));
            assert_eq!(found, expected, "{text}");
        }
    }
}
