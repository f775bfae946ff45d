//! Rows of a CSV file by the names of their columns, with errors that name the place.

use std::str::FromStr;

use csv::{ByteRecord, Reader, ReaderBuilder};
use thiserror::Error;

/// A CSV file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct CsvError {
    /// Its line, from 1; the header is the first.
    pub line: u64,
    /// The fault, and the expected text.
    pub problem: String,
}

/// A file's rows, one at a time: nothing is allocated for a row.
pub(super) struct Rows<'a> {
    reader: Reader<&'a [u8]>,
    heads: Vec<String>,
    row: ByteRecord,
    bytes: &'a [u8],
    /// Rows that may still come, of this many.
    left: u64,
    most: u64,
}

impl<'a> Rows<'a> {
    /// The rows of a file that begins with its header, `rows_max` of them at most.
    pub(super) fn new(bytes: &'a [u8], rows_max: u64) -> Result<Self, CsvError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        // Rows are measured here, to distinguish a row that was cut short from a wrong one.
        let mut reader = ReaderBuilder::new().flexible(true).from_reader(bytes);
        let heads = reader.byte_headers().map_err(|error| CsvError::of(&error))?;
        let heads = heads.iter().map(|head| String::from_utf8_lossy(head).trim().to_owned());
        let (heads, row) = (heads.collect(), ByteRecord::new());
        Ok(Self { heads, reader, row, bytes, left: rows_max, most: rows_max })
    }

    /// The column with one of these names, spelt with any capitals.
    pub(super) fn column(&self, names: &[&str]) -> Option<Column> {
        let is = |head: &String| names.iter().any(|name| head.eq_ignore_ascii_case(name));
        let at = self.heads.iter().position(is)?;
        Some(Column { at, name: names[0].to_owned() })
    }

    /// That column, which has to be there.
    pub(super) fn need(&self, names: &[&str]) -> Result<Column, CsvError> {
        self.column(names).ok_or_else(|| CsvError {
            line: 1,
            problem: format!(
                "no column {}, only {}; give the file as its tool wrote it, header included",
                names.join(" or "),
                self.heads.join(",")
            ),
        })
    }

    /// How many columns the header names.
    pub(super) fn width(&self) -> usize {
        self.heads.len()
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, CsvError> {
        let found = self.reader.read_byte_record(&mut self.row);
        if !found.map_err(|error| CsvError::of(&error))? {
            return Ok(None);
        }
        let line = self.row.position().map_or(1, |start| {
            // The parser's rows begin with the blank lines before them.
            let from = &self.bytes[(start.byte() as usize).min(self.bytes.len())..];
            let blank = from.iter().take_while(|&&byte| matches!(byte, b'\n' | b'\r'));
            start.line() + blank.filter(|&&byte| byte == b'\n').count() as u64
        });
        let left = self.left.checked_sub(1).ok_or_else(|| CsvError {
            line,
            problem: format!(
                "{} rows so far, as many as are expected of a file of this size; if you trust it, raise the limit \
                 (--trust-factor 10)",
                self.most
            ),
        });
        self.left = left?;
        let is_last = self.reader.position().byte() as usize >= self.bytes.len();
        let is_cut = is_last && self.bytes.last() != Some(&b'\n') && self.row.len() < self.width();
        Ok(Some(Row { fields: &self.row, line, is_cut }))
    }
}

/// One of a file's columns.
#[derive(Clone, Debug)]
pub(super) struct Column {
    at: usize,
    name: String,
}

/// One row.
pub(super) struct Row<'r> {
    fields: &'r ByteRecord,
    pub(super) line: u64,
    /// The file ends inside it: its writer was killed.
    pub(super) is_cut: bool,
}

impl Row<'_> {
    /// A field without the space around it.
    pub(super) fn field(&self, column: &Column) -> Result<&[u8], CsvError> {
        let field = self.fields.get(column.at).map(<[u8]>::trim_ascii);
        field.ok_or_else(|| CsvError {
            line: self.line,
            problem: format!("no {}: the line has {} fields", column.name, self.fields.len()),
        })
    }

    /// A field that is a decimal number.
    pub(super) fn number<T: FromStr>(&self, column: &Column) -> Result<T, CsvError> {
        let field = self.field(column)?;
        let number = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| self.wrong(column, "a whole number"))
    }

    /// A field that `%p` or a stream of C++ wrote.
    pub(super) fn pointer(&self, column: &Column) -> Result<u64, CsvError> {
        let field = self.field(column)?;
        if matches!(field, b"(nil)" | b"nullptr" | b"(null)" | b"") {
            return Ok(0);
        }
        let digits = field.strip_prefix(b"0x").or(field.strip_prefix(b"0X")).unwrap_or(field);
        let text = std::str::from_utf8(digits).ok();
        let value = text.and_then(|text| u64::from_str_radix(text, 16).ok());
        value.ok_or_else(|| self.wrong(column, "a hexadecimal number of 64 bits"))
    }

    /// The error of a field that should be something else.
    pub(super) fn wrong(&self, column: &Column, needs: &str) -> CsvError {
        let field = self.fields.get(column.at).unwrap_or_default();
        let shown = String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned();
        let problem = format!("{}: {shown:?} is not {needs}", column.name);
        CsvError { line: self.line, problem }
    }
}

impl CsvError {
    fn of(error: &csv::Error) -> Self {
        let line = error.position().map_or(1, csv::Position::line);
        Self { line, problem: error.to_string() }
    }
}
