//! Numbers as C reads them: the longest prefix that is one. PyTorch reads its settings with
//! `stoull` and `stod`.

/// A number at the start of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prefix<T> {
    /// Its value.
    pub value: T,
    /// Bytes of the text that it took.
    pub len: usize,
}

/// Why a text does not start with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoNumber {
    /// It starts with something else (`std::invalid_argument`).
    NotANumber,
    /// The number does not fit (`std::out_of_range`).
    OutOfRange,
}

/// `std::stoull`: decimal digits with an optional sign; a negative number wraps.
pub(super) fn unsigned(text: &str) -> Result<Prefix<u64>, NoNumber> {
    let sign = sign_len(text);
    let digits = run(&text[sign..], |byte| byte.is_ascii_digit());
    if digits == 0 {
        return Err(NoNumber::NotANumber);
    }
    let len = sign + digits;
    let value: u64 = text[sign..len].parse().map_err(|_| NoNumber::OutOfRange)?;
    let value = if text.starts_with('-') { value.wrapping_neg() } else { value };
    Ok(Prefix { value, len })
}

/// `std::stod`: decimal, hexadecimal, `inf` and `nan`. A value too large or too small is out of
/// range.
pub(super) fn real(text: &str) -> Result<Prefix<f64>, NoNumber> {
    let sign = sign_len(text);
    let rest = &text[sign..];
    let found = word(rest).map(Ok).or_else(|| hexadecimal(rest)).or_else(|| decimal(rest));
    let (magnitude, len) = found.unwrap_or(Err(NoNumber::NotANumber))?;
    let value = if text.starts_with('-') { -magnitude } else { magnitude };
    Ok(Prefix { value, len: sign + len })
}

type Magnitude = Option<Result<(f64, usize), NoNumber>>;

fn word(text: &str) -> Option<(f64, usize)> {
    let starts = |word: &str| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    if starts("infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts("inf") {
        return Some((f64::INFINITY, 3));
    }
    starts("nan").then(|| {
        let payload = text[3..].strip_prefix('(').map_or(0, |rest| {
            let inside = run(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if rest[inside..].starts_with(')') { inside + 2 } else { 0 }
        });
        (f64::NAN, 3 + payload)
    })
}

fn decimal(text: &str) -> Magnitude {
    let mantissa = mantissa(text, |byte| byte.is_ascii_digit())?;
    let len = mantissa + exponent(&text[mantissa..], b'e');
    let value: f64 = text[..len].parse().ok()?;
    Some(in_range(value, text[..mantissa].bytes().all(|b| matches!(b, b'0' | b'.')), len))
}

fn hexadecimal(text: &str) -> Magnitude {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let mantissa = mantissa(digits, |byte| byte.is_ascii_hexdigit())?;
    let exponent_len = exponent(&digits[mantissa..], b'p');
    let mut value = 0.0;
    let mut scale = match digits[mantissa..][..exponent_len].get(1..) {
        Some(power) => {
            power.parse::<i32>().unwrap_or(if power.starts_with('-') { -99_999 } else { 99_999 })
        }
        None => 0,
    };
    let mut after_point = false;
    for character in digits[..mantissa].chars() {
        match character.to_digit(16) {
            Some(digit) => {
                value = value * 16.0 + f64::from(digit);
                scale = scale.saturating_sub(if after_point { 4 } else { 0 });
            }
            None => after_point = true,
        }
    }
    let is_zero = value == 0.0;
    let value = if is_zero { 0.0 } else { times_power_of_two(value, scale) };
    Some(in_range(value, is_zero, 2 + mantissa + exponent_len))
}

fn times_power_of_two(mut value: f64, power: i32) -> f64 {
    let factor = if power < 0 { 0.5 } else { 2.0 };
    // Beyond this every number is 0 or infinite.
    for _ in 0..power.unsigned_abs().min(3_000) {
        value *= factor;
    }
    value
}

/// Bytes of `digits`, `digits.digits` or `.digits`.
fn mantissa(text: &str, is_digit: impl Fn(u8) -> bool) -> Option<usize> {
    let whole = run(text, &is_digit);
    if !text[whole..].starts_with('.') {
        return (whole > 0).then_some(whole);
    }
    let fraction = run(&text[whole + 1..], &is_digit);
    (whole + fraction > 0).then_some(whole + 1 + fraction)
}

/// Bytes of `e`, an optional sign and digits; 0 where that is not what follows.
fn exponent(text: &str, letter: u8) -> usize {
    if !text.bytes().next().is_some_and(|first| first.eq_ignore_ascii_case(&letter)) {
        return 0;
    }
    let sign = sign_len(&text[1..]);
    match run(&text[1 + sign..], |byte| byte.is_ascii_digit()) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

fn in_range(value: f64, is_zero: bool, len: usize) -> Result<(f64, usize), NoNumber> {
    if is_zero || value.is_normal() { Ok((value, len)) } else { Err(NoNumber::OutOfRange) }
}

fn sign_len(text: &str) -> usize {
    usize::from(text.starts_with(['+', '-']))
}

fn run(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| wanted(*byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u(text: &str) -> Result<(u64, usize), NoNumber> {
        unsigned(text).map(|found| (found.value, found.len))
    }

    fn r(text: &str) -> Result<(f64, usize), NoNumber> {
        real(text).map(|found| (found.value, found.len))
    }

    #[test]
    fn whole_numbers_are_read_as_stoull_reads_them() {
        assert_eq!(u("100"), Ok((100, 3)));
        assert_eq!(u("100abc"), Ok((100, 3)));
        assert_eq!(u("+40.5"), Ok((40, 3)));
        assert_eq!(u("-1"), Ok((u64::MAX, 2)));
        assert_eq!(u("-18446744073709551616"), Err(NoNumber::OutOfRange));
        assert_eq!(u("18446744073709551616"), Err(NoNumber::OutOfRange));
        assert_eq!(u(""), Err(NoNumber::NotANumber));
        assert_eq!(u("-"), Err(NoNumber::NotANumber));
        assert_eq!(u("٣"), Err(NoNumber::NotANumber));
    }

    #[test]
    fn reals_are_read_as_stod_reads_them() {
        assert_eq!(r("0.5x"), Ok((0.5, 3)));
        assert_eq!(r("+.5"), Ok((0.5, 3)));
        assert_eq!(r("5."), Ok((5.0, 2)));
        assert_eq!(r("5.e2,"), Ok((500.0, 4)));
        assert_eq!(r("5e-1"), Ok((0.5, 4)));
        assert_eq!(r("0.5e+"), Ok((0.5, 3)));
        assert_eq!(r("-0x1.8p1z"), Ok((-3.0, 8)));
        assert_eq!(r("0x"), Ok((0.0, 1)));
        assert_eq!(r("0e999"), Ok((0.0, 5)));
        assert_eq!(r("InFinityx"), Ok((f64::INFINITY, 8)));
        assert_eq!(real("nan(a_1)").map(|found| found.len), Ok(8));
        assert_eq!(real("nan(é").map(|found| found.len), Ok(3));
        assert_eq!(r("1e999"), Err(NoNumber::OutOfRange));
        assert_eq!(r("1e-310"), Err(NoNumber::OutOfRange));
        assert_eq!(r("0x1p99999999999"), Err(NoNumber::OutOfRange));
        assert_eq!(r("."), Err(NoNumber::NotANumber));
        assert_eq!(r("e5"), Err(NoNumber::NotANumber));
        assert_eq!(r("iné"), Err(NoNumber::NotANumber));
    }
}
