//! The page: the built viewer with the data in it.

use std::io::{self, Write};

use replay::tape::Tape;
use thiserror::Error;

use crate::chunk::Chunk;
use crate::device::{Source, data};
use crate::follow::Contradiction;
use crate::header::Header;
use crate::names::CodeOf;
use crate::patterns::Pattern;

/// The viewer, with places for the title and the data (`viewer/build.mjs`).
pub(crate) const TEMPLATE: &str = include_str!("../dist/page.html");
const TITLE: &str = "<!--title-->";
const HEADER: &str = "<!--header-->";
const FIRST: &str = "<!--first-->";
const REST: &str = "<!--rest-->";

/// The version of the page's data.
const VERSION: u32 = 1;

/// A run of the page.
#[derive(Debug)]
pub struct PageRun<'t> {
    /// Its name.
    pub name: String,
    /// The run.
    pub tape: &'t Tape,
    /// Names and texts for the page's list of facts.
    pub facts: Vec<(String, String)>,
}

/// A page that could not be computed.
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
const RECORDS_MAX: usize = u32::MAX as usize - 1;

/// The data of a page.
pub struct Page {
    title: String,
    /// JSON.
    header: String,
    /// Chunks that the first picture needs.
    first: Vec<Chunk>,
    pub(crate) rest: Vec<Chunk>,
    patterns: Vec<Vec<Pattern>>,
}

impl Page {
    /// Computes the page of these runs. `progress` receives the records done.
    ///
    /// # Errors
    /// When a run contradicts itself or is too long.
    pub fn new(
        title: &str,
        runs: &[PageRun<'_>],
        mut progress: impl FnMut(u64),
    ) -> Result<Self, ViewError> {
        let (mut headers, mut done) = (Vec::new(), 0);
        let (mut first, mut rest, mut patterns) = (Vec::new(), Vec::new(), Vec::new());
        for run in runs {
            let code = CodeOf::new(run.tape);
            for device in &run.tape.devices {
                let records = device.records.len();
                if records > RECORDS_MAX {
                    let device = device.id.0;
                    return Err(ViewError::TooLong { run: run.name.clone(), device, records });
                }
                let (tape, facts, number) = (run.tape, &run.facts[..], headers.len());
                let source = Source { run: &run.name, tape, device, facts, number };
                let data = data(source, &code, |records| progress(done + records));
                let data = data
                    .map_err(|error| ViewError::Contradiction { run: run.name.clone(), error })?;
                headers.push(data.header);
                first.extend(data.first);
                rest.extend(data.rest);
                patterns.push(data.patterns);
                done += records as u64;
            }
        }
        let producer = concat!("vramtape ", env!("CARGO_PKG_VERSION")).to_owned();
        let header = Header { version: VERSION, producer, devices: headers };
        let header = serde_json::to_string(&header).expect("texts and numbers are JSON");
        // Inside a script element only this could end it, or begin a comment.
        let header = header.replace('<', "\\u003c");
        Ok(Self { title: title.to_owned(), header, first, rest, patterns })
    }

    /// The parts of the steps, for each device of each run.
    pub fn patterns(&self) -> &[Vec<Pattern>] {
        &self.patterns
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
