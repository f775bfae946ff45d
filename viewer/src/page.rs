//! The page: the built viewer with the data in it.

use std::io::{self, Write};

use thiserror::Error;

use crate::chunk::Chunk;
use crate::device::PageDevice;
use crate::follow::Contradiction;
use crate::header::Header;

/// The viewer, with places for the title and the data (`viewer/build.mjs`).
const TEMPLATE: &str = include_str!("../dist/page.html");
const TITLE: &str = "<!--title-->";
const HEADER: &str = "<!--header-->";
const FIRST: &str = "<!--first-->";
const REST: &str = "<!--rest-->";

/// The version of the page's data.
const VERSION: u32 = 1;

/// A device that no page can show.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The run contradicts itself.
    #[error("{run}: {error}")]
    Contradiction {
        /// The run.
        run: String,
        /// The record.
        error: Contradiction,
    },
    /// It has more records than a page numbers.
    #[error("{run}: device {device} has {records} records, and a page shows at most {RECORDS_MAX}")]
    TooLong {
        /// The run.
        run: String,
        /// The device.
        device: u16,
        /// Its records.
        records: usize,
    },
}

/// Records of a device that a page numbers.
pub(crate) const RECORDS_MAX: usize = u32::MAX as usize - 1;

/// Writes the page of these devices.
///
/// # Errors
/// When `out` does not take it.
pub fn write(out: &mut impl Write, title: &str, devices: Vec<PageDevice>) -> io::Result<()> {
    let (before_title, template) = split(TEMPLATE, TITLE);
    let (before_header, template) = split(template, HEADER);
    let (before_first, template) = split(template, FIRST);
    let (before_rest, end) = split(template, REST);
    out.write_all(before_title.as_bytes())?;
    out.write_all(escape(title).as_bytes())?;
    out.write_all(before_header.as_bytes())?;
    let (mut headers, mut first, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (number, device) in devices.into_iter().enumerate() {
        headers.push(device.header);
        first.push((number, device.first));
        rest.push((number, device.rest));
    }
    let producer = concat!("vramtape ", env!("CARGO_PKG_VERSION")).to_owned();
    let header = serde_json::to_string(&Header { version: VERSION, producer, devices: headers })?;
    // Inside a script element only this could end it, or begin a comment.
    let header = header.replace('<', "\\u003c");
    writeln!(out, "<script type=\"application/json\" id=\"header\">{header}</script>")?;
    out.write_all(before_first.as_bytes())?;
    put_chunks(out, &first)?;
    out.write_all(before_rest.as_bytes())?;
    put_chunks(out, &rest)?;
    out.write_all(end.as_bytes())
}

/// The parts of the template around a place.
fn split<'t>(template: &'t str, place: &str) -> (&'t str, &'t str) {
    template.split_once(place).expect("the built page has its places")
}

fn put_chunks(out: &mut impl Write, devices: &[(usize, Vec<Chunk>)]) -> io::Result<()> {
    for (number, chunks) in devices {
        for Chunk { id, text } in chunks {
            write!(out, "<script type=\"text/plain\" id=\"d{number}/{id}\">")?;
            out.write_all(text)?;
            out.write_all(b"</script>\n")?;
        }
    }
    Ok(())
}

/// Text as HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
