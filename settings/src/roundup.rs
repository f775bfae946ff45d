//! `roundup_power2_divisions`: one number for all sizes, or `[MiB:divisions,...,>:divisions]`.

use alloc::borrow::ToOwned;
use alloc::format;

use super::cursor::Cursor;
use super::{Config, ROUNDUP_INTERVALS};
use crate::error::Result;

impl Config {
    /// The number of divisions for a request (`AcceleratorAllocatorConfig::roundup_power2_divisions`): intervals start
    /// at 1 MiB; smaller requests use the first, larger than 32 GiB the last.
    #[inline]
    pub fn roundup_divisions(&self, requested_bytes: u64) -> u64 {
        let interval = requested_bytes.max(1).ilog2().saturating_sub(20) as usize;
        self.roundup_power2_divisions[interval.min(self.roundup_power2_divisions.len() - 1)]
    }
}

/// More than this and the divisions are smaller than a block for every size there is.
const SENSIBLE_DIVISIONS: u64 = 1 << 32;

/// Reads the value of the key at token `key` into `divisions`; returns the value's last token.
pub(super) fn parse(
    cursor: &mut Cursor,
    key: usize,
    divisions: &mut [u64; ROUNDUP_INTERVALS],
) -> Result<usize> {
    cursor.separator(key + 1, ":")?;
    if cursor.token(key + 2)? == "[" {
        return list(cursor, key + 2, divisions);
    }
    let value = cursor.whole(key + 2)?;
    if !value.is_power_of_two() {
        let message = format!("For roundups, the divisions has to be power of 2 (got {value})");
        return Err(cursor.invalid(key + 2, message, "write 1, 2, 4, 8, 16 ...".to_owned()));
    }
    warn_if_senseless(cursor, key + 2, value);
    divisions.fill(value);
    Ok(key + 2)
}

fn list(
    cursor: &mut Cursor,
    opening: usize,
    divisions: &mut [u64; ROUNDUP_INTERVALS],
) -> Result<usize> {
    let mut last_interval = 0;
    let mut is_first = true;
    let mut i = opening + 1;
    while i < cursor.len() && cursor.token(i)? != "]" {
        let entry = i;
        cursor.separator(entry + 1, ":")?;
        i = entry + 2;
        let value = cursor.whole(i)?;
        if value != 0 && !value.is_power_of_two() {
            let message = format!(
                "For roundups, the divisions has to be power of 2 or 0 to disable roundup \
                 (got {value})"
            );
            return Err(cursor.invalid(i, message, "write 0, 1, 2, 4, 8, 16 ...".to_owned()));
        }
        warn_if_senseless(cursor, i, value);
        if cursor.token(entry)? == ">" {
            divisions[last_interval + 1..].fill(value);
        } else {
            last_interval = interval(cursor, entry)?;
            if is_first {
                divisions[..last_interval].fill(value);
                is_first = false;
            }
            divisions[last_interval] = value;
        }
        if cursor.token(i + 1)? != "]" {
            i += 1;
            cursor.separator(i, ",")?;
        }
        i += 1;
    }
    if i < cursor.len() { Ok(i) } else { Err(cursor.unclosed(opening)) }
}

/// Which interval a size in MiB names: 1 is the first, 32768 and above the last.
fn interval(cursor: &mut Cursor, i: usize) -> Result<usize> {
    let boundary = cursor.whole(i)?;
    if !boundary.is_power_of_two() {
        let message = format!("For roundups, the intervals have to be power of 2 (got {boundary})");
        return Err(cursor.invalid(
            i,
            message,
            "write a size in MiB: 1, 2, 4 ... 32768".to_owned(),
        ));
    }
    Ok((boundary.ilog2() as usize).min(ROUNDUP_INTERVALS - 1))
}

fn warn_if_senseless(cursor: &mut Cursor, i: usize, value: u64) {
    if value > SENSIBLE_DIVISIONS {
        cursor.warn(i, format!("{value} divisions are more than any size has blocks"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_power_of_two_below_from_1_mib_on() {
        let mut config = Config::default();
        for (index, divisions) in config.roundup_power2_divisions.iter_mut().enumerate() {
            *divisions = index as u64;
        }
        for (requested, interval) in
            [(1, 0), (1 << 20, 0), ((2 << 20) - 1, 0), (2 << 20, 1), (32 << 30, 15), (1 << 40, 15)]
        {
            assert_eq!(config.roundup_divisions(requested), interval);
        }
    }
}
