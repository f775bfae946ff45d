//! The page: the built viewer with the data in it.

use std::io::{self, Write};

use thiserror::Error;

use crate::chunk::Chunk;
use crate::device::PageDevice;
use crate::follow::Contradiction;
use crate::header::Header;

/// The viewer, with places for the title and the data (`viewer/build.mjs`).
pub(crate) const TEMPLATE: &str = include_str!("../dist/page.html");
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

/// The data of a page.
pub struct Page {
    title: String,
    /// JSON.
    header: String,
    /// Chunks that the first picture needs.
    first: Vec<Chunk>,
    pub(crate) rest: Vec<Chunk>,
}

impl Page {
    /// Puts devices together; their numbers on the page are their places.
    pub fn new(title: &str, devices: Vec<PageDevice>) -> Self {
        let (mut headers, mut first, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for (number, device) in devices.into_iter().enumerate() {
            let of_device = |Chunk { id, text }| Chunk { id: format!("d{number}/{id}"), text };
            headers.push(device.header);
            first.extend(device.first.into_iter().map(of_device));
            rest.extend(device.rest.into_iter().map(of_device));
        }
        let producer = concat!("vramtape ", env!("CARGO_PKG_VERSION")).to_owned();
        let header = Header { version: VERSION, producer, devices: headers };
        let header = serde_json::to_string(&header).expect("texts and numbers are JSON");
        // Inside a script element only this could end it, or begin a comment.
        let header = header.replace('<', "\\u003c");
        Self { title: title.to_owned(), header, first, rest }
    }

    /// Writes the page as one file.
    ///
    /// # Errors
    /// When `out` does not take it.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.put(out, TEMPLATE, "", &self.rest)
    }

    /// Fills a template; `mark` goes into the header's element.
    pub(crate) fn put(
        &self,
        out: &mut impl Write,
        template: &str,
        mark: &str,
        rest: &[Chunk],
    ) -> io::Result<()> {
        let Self { title, header, first, .. } = self;
        let (before_title, template) = split(template, TITLE);
        let (before_header, template) = split(template, HEADER);
        let (before_first, template) = split(template, FIRST);
        let (before_rest, end) = split(template, REST);
        out.write_all(before_title.as_bytes())?;
        out.write_all(escape(title).as_bytes())?;
        out.write_all(before_header.as_bytes())?;
        writeln!(out, "<script type=\"application/json\" id=\"header\"{mark}>{header}</script>")?;
        out.write_all(before_first.as_bytes())?;
        put_chunks(out, first)?;
        out.write_all(before_rest.as_bytes())?;
        put_chunks(out, rest)?;
        out.write_all(end.as_bytes())
    }
}

/// The parts of the template around a place.
fn split<'t>(template: &'t str, place: &str) -> (&'t str, &'t str) {
    template.split_once(place).expect("the built page has its places")
}

fn put_chunks(out: &mut impl Write, chunks: &[Chunk]) -> io::Result<()> {
    for Chunk { id, text } in chunks {
        write!(out, "<script type=\"text/plain\" id=\"{id}\">")?;
        out.write_all(text)?;
        out.write_all(b"</script>\n")?;
    }
    Ok(())
}

/// Text as HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
