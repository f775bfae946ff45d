//! Sizes as people write and read them: `80GiB`, `1.5 GiB`.

use anyhow::{Result, bail};

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

/// Reads `80GiB`, `512 MiB`, `1.5GiB` or plain bytes.
///
/// Decimal units (GB) are refused: they are so often meant as binary ones that a guess would be wrong for someone.
pub(crate) fn parse(text: &str) -> Result<u64> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let digits = compact.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(compact.len());
    let (number, unit) = compact.split_at(digits);
    let scale = if unit.is_empty() {
        1
    } else if let Some((_, scale)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))
    {
        *scale
    } else {
        bail!("`{unit}` is not a unit; write B, KiB, MiB, GiB or TiB, for example 80GiB");
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(scale)
            .ok_or_else(|| anyhow::anyhow!("`{text}` is more than 16 EiB"));
    }
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && scale > 1 && number * (scale as f64) < 1.8e19 => {
            Ok((number * scale as f64).round() as u64)
        }
        _ => bail!("`{text}` is not a size; write for example 80GiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_every_usual_spelling() {
        let read = |text| parse(text).unwrap();
        assert_eq!(read("80GiB"), 80 << 30);
        assert_eq!(read("512 mib"), 512 << 20);
        assert_eq!(read("1.5GiB"), 3 << 29);
        assert_eq!(read("123"), 123);
        assert_eq!(read("7B"), 7);
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["80GB", "80G", "", "GiB", "1.5", "-3GiB", "nan", "99999999999TiB", "1.2.3MiB"]
        {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("GiB") || error.contains("EiB"), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_fits() {
        assert_eq!(show(0), "0 B");
        assert_eq!(show(1023), "1023 B");
        assert_eq!(show(3 << 29), "1.50 GiB");
        assert_eq!(show(u64::MAX), "16777216.00 TiB");
    }
}
