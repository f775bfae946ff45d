//! Sizes as people read them: `1.50 GiB`.

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// `1610612736` as `1.50 GiB`.
pub(crate) fn show(bytes: u64) -> String {
    for (name, unit) in UNITS {
        if bytes >= unit && unit > 1 {
            return format!("{:.2} {name}", bytes as f64 / unit as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_fits() {
        assert_eq!(show(0), "0 B");
        assert_eq!(show(1023), "1023 B");
        assert_eq!(show(3 << 29), "1.50 GiB");
        assert_eq!(show(u64::MAX), "16777216.00 TiB");
    }
}
