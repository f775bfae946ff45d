//! The offline page of runs, which `view` and `compare --html` write.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use replay::waste::{Waste, waste};
use trace_format::Commit;
use viewer::{Page, PageDevice, Source, ViewError, WastePlot};

use crate::compare::settings_of;
use crate::setting::Chosen;
use crate::{bytes, info};

/// Bytes of the page that are written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Moments of waste over time: about as many as a screen has columns.
const WASTE_POINTS: usize = 1000;

/// Passes over the records that [`device`] makes.
pub(crate) const PASSES: u64 = 2;

/// Computes the page's data of a device, with its waste over time. `progress` receives the records done, of
/// [`PASSES`] times the device's records, in parts that add up.
pub(crate) fn device(
    run: &str,
    chosen: &Chosen,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<PageDevice, ViewError> {
    let facts = info::facts(&chosen.tape().meta);
    let source = Source { run, tape: chosen.tape(), device: chosen.device(), facts: &facts };
    let (page, waste) = rayon::join(
        || PageDevice::new(source, &mut in_parts(progress)),
        || as_recorded(chosen, &mut in_parts(progress)),
    );
    let mut page = page?;
    page.add_waste(&match waste {
        Ok(waste) => waste_plot(&waste, chosen, page.peak_reserved_bytes()),
        Err(error) => WastePlot::failed(format!("{error:#}")),
    });
    Ok(page)
}

/// The parts of reserved memory over time, under the recorded settings.
fn as_recorded(chosen: &Chosen, progress: &mut dyn FnMut(u64)) -> Result<Waste> {
    let setting = chosen.setting(None, None)?;
    Ok(chosen.with_device(|device| waste(device, &setting, WASTE_POINTS, progress))?)
}

fn waste_plot(waste: &Waste, chosen: &Chosen, recorded_bytes: u64) -> WastePlot {
    let settings = format!("{}, {}", waste.strategy, settings_of(&waste.strategy, &waste.config));
    let mut plot = WastePlot::new(waste, chosen.device().records.len(), settings);
    let replayed_bytes = waste.peak.sample.reserved_bytes;
    if replayed_bytes != recorded_bytes {
        let (replayed, recorded) = (bytes::show(replayed_bytes), bytes::show(recorded_bytes));
        let unlimited = match chosen.capacity_bytes {
            None => ", as the run does not state its device's memory: --meta META.json adds it",
            Some(_) => "",
        };
        plot.differs = Some(format!(
            "The replay reserves {replayed} at most, the recording {recorded}{unlimited}."
        ));
    }
    plot
}

/// Turns numbers of records done into the differences between them.
fn in_parts(progress: &(dyn Fn(u64) + Sync)) -> impl FnMut(u64) + '_ {
    let mut before = 0;
    move |done| {
        progress(done - before);
        before = done;
    }
}

/// The page of these devices.
pub(crate) fn page(title: &str, devices: Vec<PageDevice>) -> Page {
    Page::new(&format!("{title} - vramtape"), devices)
}

/// Writes a page, whole or not at all; returns its size.
pub(crate) fn write(page: &Page, path: &Path) -> Result<u64> {
    let cannot = || format!("cannot write {}", path.display());
    let (mut file, commit) = Commit::begin(path).with_context(cannot)?;
    write_to(page, &mut file).with_context(cannot)?;
    drop(file);
    commit.finish().with_context(cannot)?;
    Ok(fs::metadata(path).with_context(cannot)?.len())
}

/// The same to a stream.
pub(crate) fn write_to(page: &Page, out: &mut dyn Write) -> Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    page.write(&mut out)?;
    Ok(out.flush()?)
}
