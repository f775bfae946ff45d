//! Reads a page's data back, as the page itself does.

use std::collections::HashMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

/// A page's header and chunks.
pub(crate) struct Decoded {
    pub(crate) header: Value,
    chunks: HashMap<String, Vec<u8>>,
}

impl Decoded {
    pub(crate) fn of(page: &str) -> Self {
        let (mut header, mut chunks) = (Value::Null, HashMap::new());
        for element in page.split("<script type=\"").skip(1) {
            let Some((kind, element)) = element.split_once("\" id=\"") else { continue };
            let (id, element) = element.split_once("\">").expect("the end of a tag");
            let (text, _) = element.split_once("</script>").expect("the end of an element");
            match (kind, id) {
                ("application/json", "header") => {
                    header = serde_json::from_str(text).expect("JSON");
                }
                ("text/plain", id) if id.starts_with('d') => {
                    let compressed = STANDARD.decode(text).expect("base64");
                    let mut content = Vec::new();
                    GzDecoder::new(&compressed[..]).read_to_end(&mut content).expect("gzip");
                    assert!(chunks.insert(id.to_owned(), content).is_none(), "{id} is there twice");
                }
                _ => {}
            }
        }
        Self { header, chunks }
    }

    pub(crate) fn arrays(&self, id: &str) -> Option<Arrays<'_>> {
        self.chunks.get(id).map(|content| Arrays(content))
    }

    pub(crate) fn json(&self, id: &str) -> Value {
        serde_json::from_slice(&self.chunks[id]).expect("JSON")
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.chunks.keys().map(String::as_str)
    }
}

/// The arrays of a chunk that are not read yet.
pub(crate) struct Arrays<'c>(&'c [u8]);

impl Arrays<'_> {
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.0.split_first().expect("a number");
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
            shift += 7;
        }
    }

    pub(crate) fn plain(&mut self) -> Vec<u64> {
        let length = self.number();
        (0..length).map(|_| self.number()).collect()
    }

    pub(crate) fn rising(&mut self) -> Vec<u64> {
        let mut sum = 0;
        self.plain()
            .into_iter()
            .map(|step| {
                sum += step;
                sum
            })
            .collect()
    }

    pub(crate) fn signed(&mut self) -> Vec<i64> {
        self.plain().into_iter().map(unzigzag).collect()
    }

    /// Bytes, and their unit.
    pub(crate) fn bytes(&mut self) -> (Vec<u64>, u64) {
        let (length, unit) = (self.number(), self.number());
        ((0..length).map(|_| self.number() * unit).collect(), unit)
    }

    pub(crate) fn bytes_delta(&mut self) -> Vec<u64> {
        let (length, unit) = (self.number(), self.number());
        let mut sum = 0;
        let next = |_| {
            sum += unzigzag(self.number());
            sum.cast_unsigned() * unit
        };
        (0..length).map(next).collect()
    }

    /// Addresses: a length, a unit, and signed steps.
    pub(crate) fn steps(&mut self) -> (Vec<i64>, u64) {
        let (length, unit) = (self.number(), self.number());
        ((0..length).map(|_| unzigzag(self.number())).collect(), unit)
    }

    pub(crate) fn end(self) {
        assert!(self.0.is_empty(), "{} bytes are left", self.0.len());
    }
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}
