//! The times of a log: of the day, or seconds.

use super::super::csv::{Column, CsvError, Row};

const DAY_NS: u64 = 24 * 60 * 60 * 1_000_000_000;

/// Makes times of a day run on over midnight.
#[derive(Debug, Default)]
pub(super) struct Clock {
    last_ns: u64,
    days_ns: u64,
    is_of_day: bool,
}

impl Clock {
    /// A row's time: nanoseconds since the log's first midnight, or since what its seconds count from. It never runs
    /// backwards.
    pub(super) fn time_ns(&mut self, row: &Row<'_>, column: &Column) -> Result<u64, CsvError> {
        let field = row.field(column)?;
        let text = std::str::from_utf8(field).unwrap_or("");
        let read = if text.contains(':') { of_day(text) } else { seconds(text) };
        let needs = "a time of day (HH:MM:SS.ffffff) or a number of seconds";
        let read = read.ok_or_else(|| row.wrong(column, needs))?;
        self.is_of_day |= text.contains(':');
        // Threads write rows a little out of order; half a day back is the next day.
        if self.is_of_day && (read + self.days_ns).saturating_add(DAY_NS / 2) < self.last_ns {
            self.days_ns = self.days_ns.saturating_add(DAY_NS);
        }
        self.last_ns = self.last_ns.max(read.saturating_add(self.days_ns));
        Ok(self.last_ns)
    }

    /// A note where the times have no date.
    pub(super) fn note(&self) -> Option<String> {
        self.is_of_day.then(|| "times have no date: the log has only the time of day".to_owned())
    }
}

/// `%H:%M:%S.%f` of spdlog, or with a colon before the microseconds (RMM 0.14).
fn of_day(text: &str) -> Option<u64> {
    let mut parts = text.split([':', '.']);
    let mut part = |limit: u64| {
        let number = parts.next().unwrap_or("0").parse::<u64>().ok();
        number.filter(|&number| number < limit)
    };
    let (hours, minutes, seconds) = (part(24)?, part(60)?, part(61)?);
    let micros = part(1_000_000)?;
    Some((((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros) * 1000)
}

fn seconds(text: &str) -> Option<u64> {
    let seconds: f64 = text.parse().ok()?;
    // Later than any clock's time, and far from where sums of nanoseconds overflow.
    (0.0..1e10).contains(&seconds).then_some((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_time_are_the_same() {
        let expected = ((14 * 60 + 21) * 60 + 19) * 1_000_000_000 + 998_533_000;
        assert_eq!(of_day("14:21:19.998533"), Some(expected));
        assert_eq!(of_day("14:21:19:998533"), Some(expected));
        assert_eq!(of_day("14:71:19:998533"), None);
        assert_eq!(seconds("1.10549"), Some(1_105_490_000));
        assert_eq!(seconds("-1"), None);
        assert_eq!(seconds("nan"), None);
    }
}
