//! Snapshots as JSON, which PyTorch's viewer reads too. Nothing is shared, so stacks make it large.

use std::io::{self, Write};

use super::encode::{Encode, Shared};

pub(super) struct Json<W> {
    out: W,
    /// For every open dict or list, whether it has an entry yet.
    has_entry: Vec<bool>,
}

impl<W: Write> Json<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, has_entry: Vec::new() }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.has_entry.push(false);
        self.out.write_all(bracket)
    }

    fn end(&mut self, bracket: &[u8]) -> io::Result<()> {
        self.has_entry.pop();
        self.out.write_all(bracket)
    }
}

impl<W: Write> Encode for Json<W> {
    fn begin_dict(&mut self) -> io::Result<()> {
        self.begin(b"{")
    }

    fn key(&mut self, key: &'static str) -> io::Result<()> {
        self.item()?;
        self.text(key)?;
        self.out.write_all(b":")
    }

    fn end_dict(&mut self) -> io::Result<()> {
        self.end(b"}")
    }

    fn begin_list(&mut self) -> io::Result<()> {
        self.begin(b"[")
    }

    fn item(&mut self) -> io::Result<()> {
        let is_next = self.has_entry.last_mut().is_some_and(|has| std::mem::replace(has, true));
        self.out.write_all(if is_next { b"," } else { b"" })
    }

    fn end_list(&mut self) -> io::Result<()> {
        self.end(b"]")
    }

    fn pair(&mut self, first: u64, second: u64) -> io::Result<()> {
        write!(self.out, "[{first},{second}]")
    }

    fn integer(&mut self, value: i128) -> io::Result<()> {
        write!(self.out, "{value}")
    }

    fn float(&mut self, value: f64) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &value).map_err(io::Error::from)
    }

    fn boolean(&mut self, value: bool) -> io::Result<()> {
        write!(self.out, "{value}")
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, text).map_err(io::Error::from)
    }

    fn recall(&mut self, _: Shared) -> io::Result<bool> {
        Ok(false)
    }

    fn remember(&mut self, _: Shared) -> io::Result<()> {
        Ok(())
    }
}
