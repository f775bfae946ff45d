//! Where things are in a picture, and the order in which they are drawn.

use super::chart;
use super::content::Content;
use super::legend;
use super::svg::Svg;
use super::theme::Theme;
use super::{Size, units};

/// The border around everything.
pub(super) const MARGIN: f64 = 24.0;
/// Numbers of the vertical axis and titles of lanes.
const AXIS_WIDTH: f64 = 58.0;
const AXIS_HEIGHT: f64 = 28.0;
/// Title and figures side by side, or one above the other.
const HEADER_HEIGHT: f64 = 66.0;
const HEADER_NARROW: f64 = 108.0;
pub(super) const NARROW: u32 = 860;
pub(super) const CAPTION_HEIGHT: f64 = 24.0;
pub(super) const LANE_HEIGHT: f64 = 20.0;
pub(super) const LANE_GAP: f64 = 3.0;
pub(super) const ROW_HEIGHT: f64 = 21.0;
const LEGEND_GAP: f64 = 10.0;
/// The least width of a cell of the legend.
const CELL_WIDTH: f64 = 370.0;
const CELLS_ACROSS_MAX: usize = 4;
const CELLS_MAX: usize = 9;
/// Lanes and legend leave the plot this part of the height.
const PLOT_PART: f64 = 0.36;

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right()
            && other.left < self.right()
            && self.top < other.bottom()
            && other.top < self.bottom()
    }
}

/// The parts of a picture.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) size: Size,
    /// The stack.
    pub(super) plot: Area,
    /// How many lanes are above it.
    pub(super) lanes: usize,
    pub(super) legend: Area,
    /// Cells of the legend side by side, and one below the other.
    pub(super) cells: (usize, usize),
    moments: f64,
    top_bytes: f64,
}

impl Layout {
    /// Pixels from the left edge of the plot to its right edge.
    pub(super) fn plot_width(size: Size) -> u32 {
        size.width - (2.0 * MARGIN + AXIS_WIDTH) as u32
    }

    pub(super) fn new(size: Size, content: &Content<'_>) -> Self {
        let (width, height) = (f64::from(size.width), f64::from(size.height));
        let header = if size.width < NARROW { HEADER_NARROW } else { HEADER_HEIGHT };
        let (top, bottom) = (MARGIN + header, height - MARGIN / 2.0 - CAPTION_HEIGHT);
        let inside = width - 2.0 * MARGIN;
        let across = ((inside / CELL_WIDTH) as usize).clamp(1, CELLS_ACROSS_MAX);
        let mut free = (bottom - top - AXIS_HEIGHT - LEGEND_GAP) - PLOT_PART * height;
        let wanted = content.groups.len().min(CELLS_MAX).div_ceil(across);
        let down = ((free / ROW_HEIGHT).max(0.0) as usize).min(wanted);
        free -= down as f64 * ROW_HEIGHT;
        let fitting = (free / (LANE_HEIGHT + LANE_GAP)).max(0.0) as usize;
        let lanes = content.lanes.lanes.len().min(fitting);
        let legend_height = if down > 0 { down as f64 * ROW_HEIGHT + LEGEND_GAP } else { 0.0 };
        let legend = Area {
            left: MARGIN,
            top: bottom - legend_height,
            width: inside,
            height: legend_height,
        };
        let plot_top = top + lanes as f64 * (LANE_HEIGHT + LANE_GAP) + 3.0;
        let plot = Area {
            left: MARGIN + AXIS_WIDTH,
            top: plot_top.round(),
            width: f64::from(Self::plot_width(size)),
            height: (legend.top - AXIS_HEIGHT - plot_top).round(),
        };
        let columns = content.columns.len() as f64;
        // To the end of the last column, so that it is not narrower than the others.
        let moments = columns * f64::from(content.column_moments);
        let top_bytes = content.top_bytes();
        Self { size, plot, lanes, legend, cells: (across, down), moments, top_bytes }
    }

    /// The place of a moment, in whole pixels.
    pub(super) fn x(&self, moment: u64) -> f64 {
        let part = (moment as f64 / self.moments).min(1.0);
        self.plot.left + (self.plot.width * part).round()
    }

    pub(super) fn y(&self, bytes: u64) -> f64 {
        self.plot.top + self.plot.height * (1.0 - bytes as f64 / self.top_bytes)
    }
}

/// The whole picture as an SVG.
pub(super) fn write(
    layout: &Layout,
    theme: Theme,
    title: &str,
    subtitle: &str,
    content: &Content<'_>,
) -> String {
    let mut svg = Svg::new();
    let (width, height) = (f64::from(layout.size.width), f64::from(layout.size.height));
    svg.rect([0.0, 0.0, width, height], 0.0, theme.ink("card").fill());
    legend::header(&mut svg, layout, theme, title, subtitle, content);
    if let Some(text) = content.empty_text() {
        chart::empty(&mut svg, layout, theme, text);
    } else {
        chart::draw(&mut svg, layout, theme, content);
        legend::draw(&mut svg, layout, theme, content);
    }
    svg.finish(
        layout.size,
        &format!("{title}: GPU memory over time"),
        &description(subtitle, content),
    )
}

/// The picture in words.
fn description(subtitle: &str, content: &Content<'_>) -> String {
    let Content { peak, ooms, .. } = content;
    let mut parts = vec![
        format!(
            "Allocated memory by {}, {} records",
            content.grouping,
            units::count(content.records as u64)
        ),
        format!("peak allocated {}", units::bytes(peak.allocated_bytes)),
        format!("peak reserved {}", units::bytes(peak.reserved_bytes)),
    ];
    if !subtitle.is_empty() {
        parts.insert(0, subtitle.to_owned());
    }
    if let Some(bytes) = content.capacity_bytes {
        parts.push(format!("capacity {}", units::bytes(bytes)));
    }
    parts.push(format!("out-of-memory errors: {ooms}"));
    format!("{}.", parts.join("; "))
}
