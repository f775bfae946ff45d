//! Text without spaces, quotes and case, so that a message reads the same however a writer broke it.
//!
//! Line breaks (in the middle of a word too), indentation, `#` and `>` in front of lines, string literals in pieces,
//! Markdown and escapes such as `\n` and `\"` all vanish. UTF-16 of a Windows console reads as well: its zero bytes go.

use std::ops::Range;

/// Squashed text of a part of a stream, and where each of its bytes was.
#[derive(Debug, Default)]
pub(super) struct Squashed {
    /// Lower case, without what [`KEPT`] leaves out.
    pub(super) text: Vec<u8>,
    /// The position of each byte in the stream.
    offsets: Vec<u64>,
    /// Where the line breaks were that are not dropped yet.
    breaks: Vec<u64>,
    /// Line breaks dropped so far.
    dropped_breaks: u64,
    /// Bytes of the stream that were read.
    read_bytes: u64,
    /// Whether the byte before was a backslash.
    is_escaped: bool,
    /// Slashes at the start of a line that may be a comment's.
    slashes: u8,
    /// Whether the line has text already.
    is_inside: bool,
}

/// What each byte becomes; 0 is left out.
const KEPT: [u8; 256] = {
    let mut kept = [0; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        kept[byte as usize] = byte.to_ascii_lowercase();
        byte += 1;
    }
    // Quotes, marks in front of quoted lines, Markdown, and what writers put between the pieces of a literal.
    let dropped = b"\"'`#>|*\\+-_!%~^";
    let mut at = 0;
    while at < dropped.len() {
        kept[dropped[at] as usize] = 0;
        at += 1;
    }
    kept
};

impl Squashed {
    /// Appends a part of the stream.
    pub(super) fn push(&mut self, raw: &[u8]) {
        self.text.reserve(raw.len());
        self.offsets.reserve(raw.len());
        for (at, &byte) in raw.iter().enumerate() {
            let offset = self.read_bytes + at as u64;
            let kept = KEPT[byte as usize];
            if kept == 0 {
                match byte {
                    b'\n' => {
                        self.breaks.push(offset);
                        (self.is_inside, self.slashes, self.is_escaped) = (false, 0, false);
                    }
                    b'\\' => self.is_escaped = true,
                    _ => self.is_escaped = false,
                }
                continue;
            }
            // `\n` of an escaped text; a path such as `C:\new` loses a letter that no message needs.
            if std::mem::take(&mut self.is_escaped) && matches!(byte, b'n' | b't' | b'r') {
                continue;
            }
            if kept == b'/' && !self.is_inside {
                self.slashes += 1;
                if self.slashes == 2 {
                    self.slashes = 0;
                    self.text.pop();
                    self.offsets.pop();
                    continue;
                }
            } else {
                self.is_inside = true;
            }
            self.text.push(kept);
            self.offsets.push(offset);
        }
        self.read_bytes += raw.len() as u64;
    }

    /// Where a byte of the squashed text was in the stream; of the end, the stream's end.
    pub(super) fn offset(&self, at: usize) -> u64 {
        self.offsets.get(at).copied().unwrap_or(self.read_bytes)
    }

    /// The line of a position in the stream, from 1.
    pub(super) fn line(&self, offset: u64) -> u64 {
        self.dropped_breaks + self.breaks.partition_point(|place| *place < offset) as u64 + 1
    }

    /// The squashed line of a byte.
    pub(super) fn line_span(&self, at: usize) -> Range<usize> {
        let next = self.breaks.partition_point(|place| *place < self.offset(at));
        let index = |place: Option<&u64>, other| {
            place.map_or(other, |place| self.offsets.partition_point(|offset| offset < place))
        };
        let before = next.checked_sub(1).and_then(|before| self.breaks.get(before));
        index(before, 0)..index(self.breaks.get(next), self.text.len())
    }

    /// Drops the first `count` bytes of the squashed text.
    pub(super) fn drop_front(&mut self, count: usize) {
        let from = self.offset(count);
        self.text.drain(..count);
        self.offsets.drain(..count);
        let breaks = self.breaks.partition_point(|place| *place < from);
        self.breaks.drain(..breaks);
        self.dropped_breaks += breaks as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squash(text: &str) -> String {
        let mut squashed = Squashed::default();
        squashed.push(text.as_bytes());
        String::from_utf8(squashed.text).unwrap()
    }

    #[test]
    fn all_forms_of_a_text_are_the_same() {
        for form in [
            "Tried to allocate 2.00 GiB. GPU 0 has",
            "Tried to allo\ncate 2.00 GiB.  GPU 0\r\n  has",
            "# Tried to allocate 2.00 GiB.\n# GPU 0 has",
            "> > Tried to allocate\n> > 2.00 GiB. GPU 0 has",
            "  // Tried to allocate 2.00 GiB.\n  // GPU 0 has",
            "\"Tried to allocate \"\n    \"2.00 GiB. GPU 0 \" \\\n 'has'",
            "Tried to allocate 2.00 GiB.\\nGPU 0\\thas",
            "**Tried** to `allocate` 2.00\u{a0}GiB. GPU 0 has",
            "│ Tried to allocate 2.00 GiB. │\n│ GPU 0 has │",
            "T\0r\0i\0e\0d\0 \0t\0o\0 allocate 2.00 GiB. GPU 0 has",
        ] {
            assert_eq!(squash(form), "triedtoallocate2.00gib.gpu0has", "{form:?}");
        }
        assert_eq!(squash("(12.18/23.56 GiB)\n/usr"), "(12.18/23.56gib)/usr");
    }

    #[test]
    fn places_survive_parts_and_dropping() {
        let mut squashed = Squashed::default();
        for part in ["a b\n", "c\n\n d", "e\n"] {
            squashed.push(part.as_bytes());
        }
        let place =
            |squashed: &Squashed, at| (squashed.offset(at), squashed.line(squashed.offset(at)));
        assert_eq!(squashed.text, b"abcde");
        assert_eq!(place(&squashed, 3), (8, 4));
        assert_eq!((squashed.line_span(2), squashed.line_span(4)), (2..3, 3..5));
        squashed.drop_front(2);
        assert_eq!(squashed.text, b"cde");
        assert_eq!(place(&squashed, 0), (4, 2));
        assert_eq!(place(&squashed, 1), (8, 4));
        assert_eq!(squashed.line_span(1), 1..3);
        assert_eq!(place(&squashed, 3), (11, 5));
    }
}
