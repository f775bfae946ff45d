//! Whether PyTorch's viewer, which has an unpickler of its own, can read a pickle.

use replay::pickle::opcode as op;

use super::fault::{Faults, Rule};

/// Most items between a `MARK` and its `APPENDS` or `SETITEMS`; the viewer spreads them over a call's arguments.
const BATCH_MAX: usize = 1000;

/// Checks a pickle that our reader accepts.
pub(super) fn check(bytes: &[u8], faults: &mut Faults) {
    let mut walk = Walk { bytes, at: 0, depth: 0, marks: Vec::new() };
    loop {
        let offset = walk.at;
        match walk.step() {
            Ok(true) => return,
            Ok(false) => {}
            Err(what) => {
                faults.add(Rule::Encoding, format_args!("byte {offset}"), what);
                return;
            }
        }
    }
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Values on the stack.
    depth: usize,
    /// Depths at the open marks.
    marks: Vec<usize>,
}

impl Walk<'_> {
    /// Walks over one opcode; true at the end.
    fn step(&mut self) -> Result<bool, String> {
        let Some(&byte) = self.bytes.get(self.at) else { return Err("no STOP".to_owned()) };
        self.at += 1;
        match byte {
            op::PROTO => {
                let protocol = self.number(1);
                if !(2..=4).contains(&protocol) {
                    return Err(format!("protocol {protocol}; the viewer reads 2 to 4"));
                }
            }
            op::FRAME => self.at += 8,
            op::STOP => return Ok(true),
            op::MARK => self.marks.push(self.depth),
            op::NONE
            | op::NEWTRUE
            | op::NEWFALSE
            | op::EMPTY_LIST
            | op::EMPTY_DICT
            | op::EMPTY_TUPLE => self.depth += 1,
            op::BININT1 | op::BINGET => self.push(1),
            op::BININT2 => self.push(2),
            op::BININT | op::LONG_BINGET => self.push(4),
            op::BINFLOAT => self.push(8),
            op::LONG1 | op::SHORT_BINUNICODE => {
                let len = self.number(1);
                self.push(len);
            }
            op::BINUNICODE => {
                let len = self.number(4);
                self.push(len);
            }
            op::MEMOIZE => {}
            op::BINPUT => self.at += 1,
            op::LONG_BINPUT => self.at += 4,
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => self.depth -= usize::from(byte - op::TUPLE1),
            op::APPEND => self.depth -= 1,
            op::SETITEM => self.depth -= 2,
            op::TUPLE | op::LIST | op::DICT => self.depth = self.mark() + 1,
            op::APPENDS | op::SETITEMS => {
                let mark = self.mark();
                let values = self.depth - mark;
                let items = if byte == op::APPENDS { values } else { values / 2 };
                if items > BATCH_MAX {
                    return Err(format!("a batch of {items} items; the viewer takes {BATCH_MAX}"));
                }
                self.depth = mark;
            }
            other => {
                let name = op::name(other).unwrap_or("an unknown opcode");
                return Err(format!("{name}, which the viewer does not know"));
            }
        }
        Ok(false)
    }

    /// A value with `len` bytes of operand.
    fn push(&mut self, len: usize) {
        self.at += len;
        self.depth += 1;
    }

    fn number(&mut self, len: usize) -> usize {
        let mut wide = [0; 8];
        let operand = self.bytes.get(self.at..self.at + len).unwrap_or_default();
        wide[..operand.len()].copy_from_slice(operand);
        self.at += len;
        u64::from_le_bytes(wide) as usize
    }

    fn mark(&mut self) -> usize {
        self.marks.pop().unwrap_or(self.depth)
    }
}
