//! Snapshots as a Python pickle of protocol 4, with only the opcodes that PyTorch's viewer knows: no framing beyond
//! the header, lists in batches (the viewer spreads a batch over a call's arguments), shared things by memo.

use std::io::{self, Write};

use hashbrown::HashMap;

use super::encode::{Encode, Shared};
use crate::pickle::opcode as op;

/// As in CPython.
const BATCH: u32 = 1000;

pub(super) struct Pickler<W> {
    out: W,
    /// For every open dict or list, its entries since the last `MARK`.
    open: Vec<u32>,
    memo_len: u32,
    texts: HashMap<Box<str>, u32>,
    shared: HashMap<Shared, u32>,
}

impl<W: Write> Pickler<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[op::PROTO, 4])?;
        Ok(Self {
            out,
            open: Vec::new(),
            memo_len: 0,
            texts: HashMap::new(),
            shared: HashMap::new(),
        })
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[op::STOP])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, opcode: u8) -> io::Result<()> {
        self.open.push(0);
        self.out.write_all(&[opcode])
    }

    /// Before an entry: opens a batch, or ends a full one with `close` and opens the next.
    fn entry(&mut self, close: u8) -> io::Result<()> {
        let Some(entries) = self.open.last_mut() else { return Ok(()) };
        let opcodes: &[u8] = match *entries {
            0 => &[op::MARK],
            BATCH => &[close, op::MARK],
            _ => &[],
        };
        *entries = *entries % BATCH + 1;
        self.out.write_all(opcodes)
    }

    fn end(&mut self, close: u8) -> io::Result<()> {
        match self.open.pop() {
            Some(1..) => self.out.write_all(&[close]),
            _ => Ok(()),
        }
    }

    fn memoize(&mut self) -> io::Result<u32> {
        self.out.write_all(&[op::MEMOIZE])?;
        self.memo_len += 1;
        Ok(self.memo_len - 1)
    }

    fn get(&mut self, index: u32) -> io::Result<()> {
        if let Ok(index) = u8::try_from(index) {
            return self.out.write_all(&[op::BINGET, index]);
        }
        self.out.write_all(&[op::LONG_BINGET])?;
        self.out.write_all(&index.to_le_bytes())
    }
}

impl<W: Write> Encode for Pickler<W> {
    fn begin_dict(&mut self) -> io::Result<()> {
        self.begin(op::EMPTY_DICT)
    }

    fn key(&mut self, key: &'static str) -> io::Result<()> {
        self.entry(op::SETITEMS)?;
        self.text(key)
    }

    fn end_dict(&mut self) -> io::Result<()> {
        self.end(op::SETITEMS)
    }

    fn begin_list(&mut self) -> io::Result<()> {
        self.begin(op::EMPTY_LIST)
    }

    fn item(&mut self) -> io::Result<()> {
        self.entry(op::APPENDS)
    }

    fn end_list(&mut self) -> io::Result<()> {
        self.end(op::APPENDS)
    }

    fn pair(&mut self, first: u64, second: u64) -> io::Result<()> {
        self.integer(first.into())?;
        self.integer(second.into())?;
        self.out.write_all(&[op::TUPLE2])
    }

    fn integer(&mut self, value: i128) -> io::Result<()> {
        if let Ok(value) = u8::try_from(value) {
            self.out.write_all(&[op::BININT1, value])
        } else if let Ok(value) = u16::try_from(value) {
            self.out.write_all(&[op::BININT2])?;
            self.out.write_all(&value.to_le_bytes())
        } else if let Ok(value) = i32::try_from(value) {
            self.out.write_all(&[op::BININT])?;
            self.out.write_all(&value.to_le_bytes())
        } else {
            // Two's complement with no byte more than its sign needs.
            let magnitude = if value < 0 { !value } else { value };
            let len = (128 - magnitude.leading_zeros()) as usize / 8 + 1;
            self.out.write_all(&[op::LONG1, len as u8])?;
            self.out.write_all(&value.to_le_bytes()[..len])
        }
    }

    fn float(&mut self, value: f64) -> io::Result<()> {
        self.out.write_all(&[op::BINFLOAT])?;
        // The one big-endian field of the format.
        self.out.write_all(&value.to_bits().swap_bytes().to_le_bytes())
    }

    fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.out.write_all(&[if value { op::NEWTRUE } else { op::NEWFALSE }])
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(&index) = self.texts.get(text) {
            return self.get(index);
        }
        if let Ok(len) = u8::try_from(text.len()) {
            self.out.write_all(&[op::SHORT_BINUNICODE, len])?;
        } else {
            let len = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            self.out.write_all(&[op::BINUNICODE])?;
            self.out.write_all(&len.to_le_bytes())?;
        }
        self.out.write_all(text.as_bytes())?;
        let index = self.memoize()?;
        self.texts.insert(text.into(), index);
        Ok(())
    }

    fn recall(&mut self, what: Shared) -> io::Result<bool> {
        let Some(&index) = self.shared.get(&what) else { return Ok(false) };
        self.get(index)?;
        Ok(true)
    }

    fn remember(&mut self, what: Shared) -> io::Result<()> {
        let index = self.memoize()?;
        self.shared.insert(what, index);
        Ok(())
    }
}
