//! The page: the built viewer with the data in it.

use std::io::{self, Write};

use replay::tape::{Device, Tape};
use thiserror::Error;

use crate::chunk::Chunk;
use crate::device::{DeviceData, Source, data};
use crate::follow::Contradiction;
use crate::header::Header;
use crate::names::CodeOf;
use crate::patterns::Pattern;

/// The viewer, with places for the title and the data (`viewer/build.mjs`).
const TEMPLATE: &str = include_str!("../dist/page.html");
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

impl PageRun<'_> {
    /// How many records a device has, if they can be numbered.
    pub(crate) fn records_of(&self, device: &Device) -> Result<usize, ViewError> {
        let (run, records) = (self.name.clone(), device.records.len());
        let too_long = ViewError::TooLong { run, device: device.id.0, records };
        if records > RECORDS_MAX { Err(too_long) } else { Ok(records) }
    }

    pub(crate) fn contradiction(&self, error: Contradiction) -> ViewError {
        ViewError::Contradiction { run: self.name.clone(), error }
    }
}

/// A page that could not be written.
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
    /// The file could not be written.
    #[error("cannot write the page: {0}")]
    Io(#[from] io::Error),
}

/// What a page shows besides the records.
#[derive(Debug, Default)]
pub struct Written {
    /// The parts of the steps, for each device of each run.
    pub patterns: Vec<Vec<Pattern>>,
}

/// Records of a device that a page numbers.
const RECORDS_MAX: usize = u32::MAX as usize - 1;

/// Writes the page of these runs. `progress` receives the records done.
///
/// # Errors
/// When a run contradicts itself or `out` does not take the page.
pub fn write(
    out: &mut impl Write,
    title: &str,
    runs: &[PageRun<'_>],
    mut progress: impl FnMut(u64),
) -> Result<Written, ViewError> {
    let (mut devices, mut done) = (Vec::<DeviceData>::new(), 0);
    for run in runs {
        let code = CodeOf::new(run.tape);
        for device in &run.tape.devices {
            let records = run.records_of(device)?;
            let (tape, facts, number) = (run.tape, &run.facts[..], devices.len());
            let source = Source { run: &run.name, tape, device, facts, number };
            let data = data(source, &code, |records| progress(done + records));
            devices.push(data.map_err(|error| run.contradiction(error))?);
            done += records as u64;
        }
    }
    let patterns = devices.iter_mut().map(|device| std::mem::take(&mut device.patterns)).collect();
    put(out, title, devices)?;
    Ok(Written { patterns })
}

fn put(out: &mut impl Write, title: &str, devices: Vec<DeviceData>) -> io::Result<()> {
    let (before_title, template) = split(TEMPLATE, TITLE);
    let (before_header, template) = split(template, HEADER);
    let (before_first, template) = split(template, FIRST);
    let (before_rest, end) = split(template, REST);
    out.write_all(before_title.as_bytes())?;
    out.write_all(escape(title).as_bytes())?;
    out.write_all(before_header.as_bytes())?;
    let (mut headers, mut first, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for device in devices {
        headers.push(device.header);
        first.extend(device.first);
        rest.extend(device.rest);
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
