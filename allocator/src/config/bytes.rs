//! Sizes as people write them: `80GiB`, `1.5 GiB`.

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `80GiB`, `512 MiB`, `1.5GiB` or plain bytes.
///
/// Decimal units (GB) are refused: they are so often meant as binary ones that a guess would be wrong for someone.
///
/// # Errors
/// What is wrong, with an example of what is right.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let digits = compact.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(compact.len());
    let (number, unit) = compact.split_at(digits);
    let scale = if unit.is_empty() {
        1
    } else if let Some((_, scale)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))
    {
        *scale
    } else {
        return Err(format!(
            "`{unit}` is not a unit; write B, KiB, MiB, GiB or TiB, for example 80GiB"
        ));
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(|| format!("`{text}` is more than 16 EiB"));
    }
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && scale > 1 && number * (scale as f64) < 1.8e19 => {
            Ok((number * scale as f64).round() as u64)
        }
        _ => Err(format!("`{text}` is not a size; write for example 80GiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_every_usual_spelling() {
        let read = |text| parse_bytes(text).unwrap();
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
            let error = parse_bytes(text).unwrap_err();
            assert!(error.contains("GiB") || error.contains("EiB"), "{text}: {error}");
        }
    }
}
