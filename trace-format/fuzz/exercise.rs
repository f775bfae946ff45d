//! Calls every function of a reader on hostile bytes, for the fuzz target and the deterministic test.
//!
//! The bytes of the fixed structures are laid out here once more, from the specification and not by the crate's own
//! code, so that a change of one without the other fails.

use std::io::Cursor;

use trace_format::{Index, Item, Reader, StackId, State};

/// The file header.
pub(crate) fn file_header() -> Vec<u8> {
    sealed(b"\x89VTP\r\n\x1a\n\x02\0\0\0")
}

/// A chunk with a right checksum over whatever it holds.
pub(crate) fn chunk(
    kind: u8,
    packing: u8,
    sequence: u32,
    unpacked: u32,
    items: u32,
    stored: &[u8],
) -> Vec<u8> {
    let mut header = b"\xf5Chk".to_vec();
    header.extend([kind, packing, 0, 0]);
    for word in [sequence, stored.len() as u32, unpacked, items, crc32fast::hash(stored)] {
        header.extend(word.to_le_bytes());
    }
    let mut chunk = sealed(&header);
    chunk.extend(stored);
    chunk
}

/// Bytes and their checksum.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    sealed.extend(crc32fast::hash(bytes).to_le_bytes());
    sealed
}

/// A tape whose last chunk holds `payload`, with the strings and stacks before it that such a chunk may name.
pub(crate) fn tape_with(kind: u8, items: u32, payload: &[u8]) -> Vec<u8> {
    let strings = b"\0\x01a\x01b\x01c\x01d\x01e";
    let stacks = b"\0\x02\x01\x02\x07\x03\x04\x08\0\x01\x00\x02\x00\x01";
    let mut tape = file_header();
    tape.extend(chunk(1, 0, 0, 2, 1, b"{}"));
    let mut sequence = 1;
    for (before, items, payload) in [(2, 5, &strings[..]), (3, 2, &stacks[..])] {
        // The first strings and the first stacks have nothing of their kind before them.
        if kind > before || kind == 1 {
            tape.extend(chunk(before, 0, sequence, payload.len() as u32, items, payload));
            sequence += 1;
        }
    }
    tape.extend(chunk(kind, 0, sequence, payload.len() as u32, items, payload));
    tape
}

/// Reads `bytes` as a tape, and as the payload of a chunk of each kind behind right checksums.
pub(crate) fn exercise(bytes: &[u8]) {
    read(bytes);
    let Some((&[low, high], payload)) = bytes.split_first_chunk::<2>() else { return };
    let items = u32::from(low) | u32::from(high) << 8;
    for kind in 1..=8 {
        read(&tape_with(kind, items, payload));
    }
}

/// Reads a tape to its end or its first error, looking up and applying all that it holds.
pub(crate) fn read(tape: &[u8]) {
    let _ = Index::read(&mut Cursor::new(tape));
    let mut reader = match Reader::new(tape, "hostile bytes") {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut state = State::new();
    while let Some(item) = reader.next() {
        match item {
            Ok(Item::Event(_, record)) => {
                assert!(reader.tables().stack(record.stack).is_some(), "checked on reading");
                let before = state.active_bytes();
                if state.apply(&record).is_ok() {
                    state.undo(&record).expect("what was applied can be undone");
                    assert_eq!(state.active_bytes(), before);
                    state.apply(&record).expect("and applied again");
                }
            }
            Ok(Item::Base(_, base)) => {
                let blocks = base.segments.iter().flat_map(|segment| &segment.blocks);
                let stacks = base.segments.iter().map(|segment| segment.stack);
                for stack in stacks.chain(blocks.map(|block| block.stack)) {
                    assert!(reader.tables().stack(stack).is_some(), "checked on reading");
                }
                if let Ok(read) = State::from_base(&base) {
                    let again = State::from_base(&read.base_state()).expect("a state is one");
                    assert_eq!(again, read);
                    state = read;
                }
            }
            Ok(Item::Meta(_)) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    for id in 0..=reader.tables().stacks_len() {
        let frames = reader.tables().stack(StackId(id)).expect("ids run to their number");
        for &frame in frames {
            assert!(reader.tables().frame(frame).is_some(), "frames are checked on reading too");
        }
    }
    assert!(reader.next().is_none(), "an ended reader stays ended");
    assert!(!reader.recovered().to_string().is_empty());
}
