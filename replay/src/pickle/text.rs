//! The text forms of protocol 0.

use super::error::Problem;

/// A quoted `STRING` as Python's `repr` wrote it.
pub(super) fn quoted(line: &[u8]) -> Result<String, Problem> {
    let bad = || Problem::bad_text(line, "quoted string");
    let inner = match line {
        [open @ (b'\'' | b'"'), inner @ .., close] if open == close => inner,
        _ => return Err(bad()),
    };
    unescape(inner, b"\\'\"nrtx").ok_or_else(bad)
}

/// A `UNICODE` line in Python's raw-unicode-escape.
pub(super) fn raw_unicode(line: &[u8]) -> Result<String, Problem> {
    unescape(line, b"uU").ok_or_else(|| Problem::bad_text(line, "raw-unicode-escape string"))
}

/// Resolves the escapes in `known`; any other backslash stands for itself. Bytes are Latin-1.
fn unescape(bytes: &[u8], known: &[u8]) -> Option<String> {
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let escape = tail.first().copied().filter(|e| *first == b'\\' && known.contains(e));
        let Some(escape) = escape else {
            out.push(char::from(*first));
            continue;
        };
        rest = &rest[1..];
        let digits = match escape {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            b'n' | b'r' | b't' => {
                out.push(match escape {
                    b'n' => '\n',
                    b'r' => '\r',
                    _ => '\t',
                });
                continue;
            }
            other => {
                out.push(char::from(other));
                continue;
            }
        };
        let hex = std::str::from_utf8(rest.get(..digits)?).ok()?;
        let code = u32::from_str_radix(hex, 16).ok()?;
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = &rest[digits..];
    }
    Some(out)
}

/// A line that is a number.
pub(super) fn number<T: std::str::FromStr>(line: &[u8], what: &'static str) -> Result<T, Problem> {
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| Problem::bad_text(line, what))
}
