//! `_Py_DebugOffsets`: from 3.13 on CPython says where its fields are, at the start of `_PyRuntime`.
//!
//! It is an array of 64-bit numbers after an eight-byte cookie. Which number is which depends on the minor version.

use super::api;
use super::structs::Structs;

const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// No struct of the interpreter's that we look into is larger.
const OFFSET_MAX: u64 = 4096;

/// `PY_VERSION_HEX` from its release level on, for the first release candidate.
const CANDIDATE: u64 = 0xc0;

/// Where in the array the groups begin, by minor version.
struct Groups {
    thread: usize,
    frame: usize,
    code: usize,
    /// Whether frames and code objects tell of copies of the instructions.
    has_copies: bool,
}

fn groups(minor: u8) -> Option<Groups> {
    match minor {
        13 => Some(Groups { thread: 19, frame: 28, code: 34, has_copies: false }),
        14 => Some(Groups { thread: 22, frame: 31, code: 39, has_copies: true }),
        15 => Some(Groups { thread: 22, frame: 39, code: 47, has_copies: true }),
        _ => None,
    }
}

/// The running interpreter's own offsets, if this version is known and they are plausible.
pub(super) fn read(minor: u8) -> Option<Structs> {
    let runtime = api::variable(c"_PyRuntime")?;
    parse(minor, |index| {
        // SAFETY: the runtime is a static of several kilobytes that begins with this array; nothing past index 57 is
        // asked for, and none of it ever changes.
        unsafe { runtime.wrapping_add(index).read() }
    })
}

fn parse(minor: u8, number: impl Fn(usize) -> u64) -> Option<Structs> {
    if number(0) != COOKIE {
        return None;
    }
    let version = number(1);
    if version >> 16 != u64::from(0x0300 | u16::from(minor)) || version & 0xff < CANDIDATE {
        return None;
    }
    let is_free_threaded = number(2) != 0;
    let Groups { thread, frame, code, has_copies } = groups(minor)?;
    let offset = |index| {
        let offset = number(index);
        (offset < OFFSET_MAX).then_some(offset as usize)
    };
    let copies =
        (is_free_threaded && has_copies).then(|| Some((offset(frame + 7)?, offset(code + 10)?)));
    Some(Structs {
        frame: offset(thread + 4)?,
        through: None,
        previous: offset(frame + 1)?,
        executable: offset(frame + 2)?,
        instruction: offset(frame + 3)?,
        owner: offset(frame + 5)?,
        code_start: offset(code + 9)?,
        copies: match copies {
            None => None,
            Some(known) => Some(known?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets of 3.13.0 and of a free-threaded 3.14, with every other number made implausible.
    fn numbers(minor: u8, is_free_threaded: bool) -> Vec<u64> {
        let mut numbers = vec![u64::MAX; 64];
        numbers[0] = COOKIE;
        numbers[1] = 0x0300_00f0 | u64::from(minor) << 16;
        numbers[2] = is_free_threaded.into();
        let Groups { thread, frame, code, .. } = groups(minor).unwrap();
        for (index, offset) in [
            (thread + 4, 72),
            (frame + 1, 8),
            (frame + 2, 0),
            (frame + 3, 56),
            (frame + 5, 70),
            (frame + 7, 64),
            (code + 9, 200),
            (code + 10, 184),
        ] {
            numbers[index] = offset;
        }
        numbers
    }

    #[test]
    fn known_versions_are_read_and_others_refused() {
        let expected = Structs {
            frame: 72,
            through: None,
            previous: 8,
            executable: 0,
            instruction: 56,
            owner: 70,
            code_start: 200,
            copies: None,
        };
        let plain = numbers(13, false);
        assert_eq!(parse(13, |index| plain[index]), Some(expected));
        let free = numbers(14, true);
        let copies = Some((64, 184));
        assert_eq!(parse(14, |index| free[index]), Some(Structs { copies, ..expected }));
        assert_eq!(parse(14, |index| plain[index]), None, "another version's numbers");
        assert_eq!(parse(16, |index| plain[index]), None, "a version we have not seen");
    }

    #[test]
    fn nonsense_is_refused() {
        for (index, wrong) in [(0, 0), (1, 0x030d_00b3), (19 + 4, 1 << 40), (34 + 9, u64::MAX)] {
            let mut numbers = numbers(13, false);
            numbers[index] = wrong;
            assert_eq!(parse(13, |index| numbers[index]), None, "number {index}");
        }
    }
}
