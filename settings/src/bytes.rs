//! Sizes as people write them: `80GiB`, `24GB`, `80g`, `1.5 GiB`.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// The first letter of a unit, and its bytes. `G`, `GB` and `GiB` are one unit: device memory is counted in powers of
/// two, whichever of them a vendor prints.
const UNITS: [(char, u64); 4] = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30), ('t', 1 << 40)];
const EXAMPLES: &str = "write for example 80GiB, 24GB, 512MiB or 1048576B";
/// Bare numbers below this are more likely GiB than bytes.
const MANY_BYTES: u64 = 1 << 20;

/// Reads `80GiB`, `24GB`, `80g`, `512 MiB` or `1.5GiB`; a number without a unit is bytes.
///
/// # Errors
/// The fault and a correct example, if it cannot be parsed.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let scale = scale_of(&unit)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(|| format!("`{text}` is more than 16 EiB"));
    }
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && scale > 1 && number * (scale as f64) < 1.8e19 => {
            Ok(nearest(number * scale as f64))
        }
        _ => Err(format!("`{text}` is not a size; {EXAMPLES}")),
    }
}

/// The integer nearest to a number that is not negative; a half is rounded up (`std::round`).
pub fn nearest(number: f64) -> u64 {
    let whole = number as u64;
    whole + u64::from(number - whole as f64 >= 0.5)
}

/// As [`parse_bytes`], but refuses a number without a unit: some people mean bytes by it, and some GiB.
///
/// # Errors
/// As [`parse_bytes`]; and a missing unit, with the size as it was probably meant.
pub fn parse_bytes_with_unit(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    if !number.is_empty() && unit.is_empty() {
        let meant = match number.parse::<u64>() {
            Ok(bytes) if bytes >= MANY_BYTES => "B",
            _ => "GiB",
        };
        return Err(format!("{number} has no unit: write {number}{meant}"));
    }
    parse_bytes(text)
}

/// The number and the unit, without spaces.
fn split(text: &str) -> (String, String) {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let digits = compact.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(compact.len());
    let (number, unit) = compact.split_at(digits);
    (number.to_owned(), unit.to_owned())
}

fn scale_of(unit: &str) -> Result<u64, String> {
    let lower = unit.to_ascii_lowercase();
    let (first, rest) = match lower.chars().next() {
        None => return Ok(1),
        Some(first) => (first, &lower[first.len_utf8()..]),
    };
    let scale = match UNITS.iter().find(|(letter, _)| *letter == first) {
        Some((_, scale)) if matches!(rest, "" | "b" | "ib") => Some(*scale),
        None if lower == "b" => Some(1),
        _ => None,
    };
    scale.ok_or_else(|| format!("`{unit}` is not a unit of bytes; {EXAMPLES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_every_usual_spelling() {
        let read = |text| parse_bytes(text).unwrap();
        for text in ["24GiB", "24GB", "24G", "24g", "24 GiB", "24gb", "24Gib", " 24 Gb "] {
            assert_eq!(read(text), 24 << 30, "{text}");
            assert_eq!(parse_bytes_with_unit(text), Ok(24 << 30), "{text}");
        }
        assert_eq!(read("512 mib"), 512 << 20);
        assert_eq!(read("512MB"), 512 << 20);
        assert_eq!(read("1.5GiB"), 3 << 29);
        assert_eq!(read("1.5GB"), 3 << 29);
        assert_eq!(read("64k"), 64 << 10);
        assert_eq!(read("1TB"), 1 << 40);
        assert_eq!(read("123"), 123);
        assert_eq!(read("7B"), 7);
    }

    #[test]
    fn an_invalid_size_is_refused_with_an_example() {
        for text in ["", "GiB", "1.5", "-3GiB", "nan", "99999999999TiB", "1.2.3MiB", "5GBit", "3µ"]
        {
            let error = parse_bytes(text).unwrap_err();
            assert!(error.contains("GiB") || error.contains("EiB"), "{text}: {error}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_where_it_could_mean_bytes_or_gib() {
        let error = |text| parse_bytes_with_unit(text).unwrap_err();
        assert_eq!(error("24"), "24 has no unit: write 24GiB");
        assert_eq!(error("1.5"), "1.5 has no unit: write 1.5GiB");
        assert_eq!(error("25769803776"), "25769803776 has no unit: write 25769803776B");
        assert!(error("").contains("is not a size"));
        assert_eq!(parse_bytes_with_unit("25769803776B"), Ok(24 << 30));
    }
}
