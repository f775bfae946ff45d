//! Numbers with their units, and ticks, as the page has them (`page/app/units.ts`).

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The power of 1,024 of the unit that fits best.
pub(crate) fn unit_of(bytes: f64) -> usize {
    let fits = |power: &usize| bytes >= 1024f64.powi(*power as i32);
    (1..UNITS.len()).take_while(fits).count()
}

/// `1.50 GiB`, as the command prints it.
pub(crate) fn bytes(value: u64) -> String {
    match unit_of(value as f64) {
        0 => format!("{value} B"),
        power => format!("{:.2} {}", value as f64 / 1024f64.powi(power as i32), UNITS[power]),
    }
}

/// `1.5 GiB`: for axes and marks.
pub(crate) fn short_bytes(value: f64, power: usize) -> String {
    let digits = if power == 0 { 0 } else { 2 };
    let text = format!("{:.digits$}", value / 1024f64.powi(power as i32));
    let short =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} {}", UNITS[power])
}

/// `34.5 %`; "" of nothing.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    let percent = 100.0 * part as f64 / whole as f64;
    if percent > 0.0 && percent < 0.1 { "< 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

/// A round distance of ticks, so that at most `most` fit into `range`.
pub(crate) fn tick_step(range: f64, most: f64, is_binary: bool) -> f64 {
    const BINARY: &[f64] = &[
        1.0, 2.0, 4.0, 5.0, 8.0, 10.0, 16.0, 20.0, 32.0, 50.0, 64.0, 100.0, 128.0, 200.0, 256.0,
        512.0, 1024.0,
    ];
    let (base, steps) =
        if is_binary { (1024.0, BINARY) } else { (10.0, &[1.0, 2.0, 5.0, 10.0][..]) };
    let wanted: f64 = range / most.max(1.0);
    let power = f64::powf(base, (wanted.max(1e-9).ln() / base.ln()).floor());
    let step = steps.iter().find(|step| *step * power >= wanted);
    power * step.unwrap_or(&base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_the_page() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 3 << 29].map(bytes), ["0 B", "1023 B", "1.50 GiB"]);
        let short = |value: f64| short_bytes(value, unit_of(value));
        assert_eq!(short(1.5 * 1024.0), "1.5 KiB");
        assert_eq!(short(20.0 * 1024.0 * 1024.0), "20 MiB");
        assert_eq!(short(100.0), "100 B");
        assert_eq!(
            [(1, 3), (1, 5000), (1, 0)].map(|(a, b)| share(a, b)),
            ["33.3 %", "< 0.1 %", ""]
        );
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(tick_step(3.2 * 1024f64.powi(3), 8.0, true) as u64, 512 << 20);
        assert_eq!(tick_step(1000.0, 8.0, false) as u64, 200);
        for range in (1..4000).map(|at| 1.01f64.powi(at)) {
            let step = tick_step(range, 6.0, true);
            assert!(range / step <= 6.001, "{range} in {step}");
        }
    }
}
