//! A static picture of memory over time: what the page's first tab shows of a whole run, without a browser.
//!
//! One layout ([`layout`]) writes an SVG with all text as outlines ([`font`]); the PNG is made from that SVG, so both
//! show the same. The data are the page's: columns, stacks of groups, marks and patterns.

mod chart;
mod colours;
mod content;
mod font;
mod lanes;
mod layout;
mod legend;
mod lines;
mod spans;
mod svg;
mod theme;
mod units;

use std::fmt;
use std::str::FromStr;

use replay::tape::{Device, Tape};
use resvg::{tiny_skia, usvg};
use thiserror::Error;

use crate::device::{Source, allocated_groupings};
use crate::follow::{Followed, follow};
use crate::grouping::Grouping;
use crate::names::CodeOf;
use crate::page::ViewError;
use content::Content;
use layout::Layout;
pub use theme::Theme;

/// Pixels of a picture, or units of an SVG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

impl Size {
    /// Text and plot have room from here on.
    const LEAST: Self = Self { width: 480, height: 320 };
    const MOST: Self = Self { width: 8192, height: 8192 };
}

impl Default for Size {
    fn default() -> Self {
        Self { width: 1280, height: 720 }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// A text that is not a size of a picture.
#[derive(Debug, Error)]
#[error("use WIDTHxHEIGHT in pixels from {} to {}, such as 1280x720", Size::LEAST, Size::MOST)]
pub struct SizeError;

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let (width, height) = text.split_once(['x', 'X']).ok_or(SizeError)?;
        let number = |text: &str, least, most| {
            let is_number = text.bytes().all(|it| it.is_ascii_digit());
            let number =
                text.parse::<u32>().ok().filter(|it| is_number && (least..=most).contains(it));
            number.ok_or(SizeError)
        };
        let width = number(width, Self::LEAST.width, Self::MOST.width)?;
        Ok(Self { width, height: number(height, Self::LEAST.height, Self::MOST.height)? })
    }
}

/// The look of a picture.
#[derive(Clone, Debug, Default)]
pub struct PictureOptions {
    /// Light or dark.
    pub theme: Theme,
    /// Its pixels.
    pub size: Size,
    /// The name of a grouping; the first one without.
    pub group_by: Option<String>,
}

/// A picture that could not be drawn.
#[derive(Debug, Error)]
pub enum PictureError {
    /// The run cannot be shown.
    #[error(transparent)]
    Run(#[from] ViewError),
    /// The device has no such grouping.
    #[error("{run}: device {device} has no grouping {name}: use one of {known}")]
    NoGrouping {
        /// The run.
        run: String,
        /// The device.
        device: u16,
        /// The name that was given.
        name: String,
        /// The groupings that there are.
        known: String,
    },
    /// The picture's memory could not be had, or it could not be encoded.
    #[error("cannot draw {size} pixels: {reason}; use a smaller --size, or --svg")]
    Pixels {
        /// The size.
        size: Size,
        /// The cause.
        reason: String,
    },
}

/// A picture.
#[derive(Debug)]
pub struct Picture {
    /// The text of the SVG.
    pub svg: String,
    /// Its size.
    pub size: Size,
    /// The run that it shows.
    pub run: String,
    /// The device that it shows; `None` for a run without one.
    pub device: Option<u16>,
}

impl Picture {
    /// The picture as a PNG.
    ///
    /// # Errors
    /// When there is no memory for its pixels.
    pub fn png(&self) -> Result<Vec<u8>, PictureError> {
        let size = self.size;
        let error = |reason: String| PictureError::Pixels { size, reason };
        let tree = usvg::Tree::from_str(&self.svg, &usvg::Options::default());
        let tree = tree.map_err(|reason| error(reason.to_string()))?;
        let pixels = tiny_skia::Pixmap::new(size.width, size.height);
        let mut pixels = pixels.ok_or_else(|| error("no memory".to_owned()))?;
        resvg::render(&tree, tiny_skia::Transform::identity(), &mut pixels.as_mut());
        pixels.encode_png().map_err(|reason| error(reason.to_string()))
    }
}

/// A device, followed.
struct Candidate<'t> {
    source: Source<'t>,
    code: CodeOf,
    followed: Followed,
}

impl Candidate<'_> {
    /// Greater is worse: out of memory, then the most reserved bytes.
    fn badness(&self) -> (bool, u64) {
        (self.followed.ooms > 0, self.followed.peak.reserved_bytes)
    }
}

/// Draws the worst of these devices: the first in the page's tab `Ranks`. Without any, it draws an empty picture of
/// `run`. `progress` receives the records done.
///
/// # Errors
/// When a run contradicts itself or the device does not have the grouping.
pub fn draw(
    run: &str,
    devices: &[Source<'_>],
    options: &PictureOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Picture, PictureError> {
    let plot_width = Layout::plot_width(options.size);
    let (mut worst, mut done) = (None::<Candidate<'_>>, 0);
    for source in devices {
        let Source { tape, device, .. } = *source;
        let records = source.records()?;
        let column_moments = (records as u32 + 1).div_ceil(plot_width);
        let code = CodeOf::new(tape);
        let mut at = |records| progress(done + records);
        let followed = follow(device, &tape.stacks, &code, column_moments, &mut at);
        let followed = followed.map_err(|error| source.contradiction(error))?;
        let next = Candidate { source: *source, code, followed };
        if worst.as_ref().is_none_or(|worst| next.badness() > worst.badness()) {
            worst = Some(next);
        }
        done += records as u64;
    }
    let Some(Candidate { source, code, followed }) = worst else {
        let (tape, device) = (Tape::default(), Device::default());
        let code = CodeOf::new(&tape);
        let followed =
            follow(&device, &tape.stacks, &code, 1, &mut |_| ()).expect("nothing contradicts");
        let content = Content::new(&tape, &device, followed, None, options.theme, 1.0);
        let svg =
            layout::write(&Layout::new(options.size, &content), options.theme, run, "", &content);
        return Ok(Picture { svg, size: options.size, run: run.to_owned(), device: None });
    };
    let Source { run, tape, device, .. } = source;
    let groupings = allocated_groupings(&followed, tape, &code);
    let grouping = chosen(groupings, options.group_by.as_deref()).map_err(|(name, known)| {
        PictureError::NoGrouping { run: run.to_owned(), device: device.id.0, name, known }
    })?;
    let pixels = f64::from(options.size.height);
    let content = Content::new(tape, device, followed, Some(&grouping), options.theme, pixels);
    let id = device.id.0;
    let gpu = if content.gpu.is_empty() { String::new() } else { format!(" · {}", content.gpu) };
    let (title, subtitle) = if devices.len() > 1 {
        let title = format!("device {id} of {run}, the worst of {}", devices.len());
        (title, content.gpu.to_owned())
    } else {
        (run.to_owned(), format!("device {id}{gpu}"))
    };
    let layout = Layout::new(options.size, &content);
    let svg = layout::write(&layout, options.theme, &title, &subtitle, &content);
    Ok(Picture { svg, size: options.size, run: run.to_owned(), device: Some(id) })
}

/// The grouping of this name, or the first; an error has the name and the groupings that there are.
fn chosen(mut groupings: Vec<Grouping>, name: Option<&str>) -> Result<Grouping, (String, String)> {
    let place = name.map_or(Some(0), |name| groupings.iter().position(|it| it.name == name));
    place.map(|place| groupings.swap_remove(place)).ok_or_else(|| {
        let known: Vec<_> = groupings.iter().map(|it| it.name).collect();
        (name.unwrap_or_default().to_owned(), known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_two_numbers_within_limits() {
        let size = |text: &str| text.parse::<Size>().ok().map(|it| it.to_string());
        assert_eq!(size("1280x720").as_deref(), Some("1280x720"));
        assert_eq!(size("8192X320").as_deref(), Some("8192x320"));
        for text in [
            "",
            "x",
            "1280",
            "1280x",
            "479x720",
            "1280x319",
            "8193x720",
            "+640x640",
            "1e3x720",
            "640x640x1",
        ] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
