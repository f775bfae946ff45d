//! The chart: axes, lanes and the stack; [`lines`] draws over it.

use std::fmt::Write;

use super::colours::{Rgb, SHARED};
use super::content::Content;
use super::layout::{Area, LANE_GAP, LANE_HEIGHT, Layout};
use super::lines;
use super::spans;
use super::svg::{Anchor, Num, Style, Svg};
use super::theme::{Ink, Theme};
use super::units::{count, short_bytes, tick_step, unit_of};

pub(super) const TEXT_SIZE: f64 = 11.0;
/// From the middle of a line of text to its baseline.
pub(super) const HALF_LETTER: f64 = 4.0;

/// A sentence in place of a chart.
pub(super) fn empty(svg: &mut Svg, layout: &Layout, theme: Theme, text: &str) {
    let style = Style::new(14.0, theme.ink("dim")).anchored(Anchor::Middle);
    let (width, height) = (f64::from(layout.size.width), f64::from(layout.size.height));
    svg.text(text, width / 2.0, height / 2.0, style);
}

pub(super) fn draw(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) {
    axes(svg, layout, theme, content);
    lanes(svg, layout, theme, content);
    stack(svg, layout, theme, content);
    lines::draw(svg, layout, theme, content);
}

fn axes(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) {
    let Area { left, top, height, width } = layout.plot;
    let (right, bottom) = (layout.plot.right(), layout.plot.bottom());
    let (grid, dim) = (theme.ink("grid").stroke(), Style::new(TEXT_SIZE, theme.ink("dim")));
    let top_bytes = content.top_bytes();
    let step = tick_step(top_bytes, (height / 56.0).clamp(2.0, 8.0), true);
    // One unit for all ticks: the largest in which quarters of it are enough.
    let largest = unit_of(top_bytes);
    let is_enough = (4.0 * step / 1024f64.powi(largest as i32)).fract() == 0.0;
    let unit = if is_enough { largest } else { unit_of(step) };
    svg.put(format_args!("<g>"));
    let mut at = 0.0;
    while at <= top_bytes {
        let y = layout.y(at as u64).round() + 0.5;
        svg.line((left, y), (right, y), theme.ink("grid").stroke(), "");
        if y > top + 4.0 {
            let text = if at == 0.0 { "0".to_owned() } else { short_bytes(at, unit) };
            svg.text(&text, left - 8.0, y + HALF_LETTER, dim.anchored(Anchor::End));
        }
        at += step;
    }
    let (step, mut at, mut free) = (moments_step(content, width), 0, f64::NEG_INFINITY);
    let grid = grid.to_string();
    while at <= u64::from(content.moments) {
        let x = layout.x(at) + 0.5;
        svg.put(format_args!(
            "<path {grid} d=\"M{} {}V{}\"/>",
            Num(x),
            Num(top),
            Num(bottom + 4.0)
        ));
        let text = count(at);
        let half = svg.width(&text, dim) / 2.0;
        let middle = x.clamp(left + half - 8.0, (right - half).max(left + half - 8.0));
        if middle - half >= free {
            svg.text(&text, middle, bottom + 18.0, dim.anchored(Anchor::Middle));
            free = middle + half + 10.0;
        }
        at += step;
    }
    svg.line((left, bottom + 0.5), (right, bottom + 0.5), theme.ink("axis").stroke(), "");
    svg.put(format_args!("</g>"));
}

fn moments_step(content: &Content<'_>, width: f64) -> u64 {
    tick_step(content.moments.into(), width / 110.0, false).max(1.0) as u64
}

/// The stack: each band is drawn down to the axis and covered by those below it, so that no seam shows between them.
fn stack(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) {
    let colours = theme.colours();
    let columns = &content.columns;
    let pending = Ink::from(colours.pending);
    let allocated: Vec<u64> = columns.iter().map(|it| it.at_peak.allocated_bytes).collect();
    if content.has_pending() {
        svg.put(format_args!(
            "<defs><pattern id=\"pending\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
             <path {} stroke-width=\"1.6\" d=\"M-1 1L1 -1M-1 7L7 -1M5 7L7 5\"/></pattern></defs>",
            pending.stroke()
        ));
        let active =
            columns.iter().map(|it| it.at_peak.active_bytes.max(it.at_peak.allocated_bytes));
        let data = area(layout, content.column_moments, active);
        svg.put(format_args!("<path fill=\"url(#pending)\" d=\"{data}\"/>"));
    }
    svg.put(format_args!(
        "<clipPath id=\"plot\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
        layout.plot.left, layout.plot.top, layout.plot.width, layout.plot.height,
    ));
    svg.put(format_args!(
        "<g id=\"stack\" clip-path=\"url(#plot)\" data-column-moments=\"{}\" \
         data-top-bytes=\"{}\" data-plot=\"{} {} {} {}\">",
        content.column_moments,
        content.top_bytes(),
        layout.plot.left,
        layout.plot.top,
        layout.plot.width,
        layout.plot.height,
    ));
    let mut sums = vec![0; columns.len()];
    let mut bands = Vec::new();
    for group in &content.groups {
        for (sum, bytes) in sums.iter_mut().zip(&group.bytes) {
            *sum += bytes;
        }
        let data = area(layout, content.column_moments, sums.iter().copied());
        bands.push((&group.label[..], group.colour, data));
    }
    if sums != allocated {
        let data = area(layout, content.column_moments, allocated.iter().copied());
        bands.push(("all smaller groups", colours.other, data));
    }
    for (label, colour, data) in bands.iter().rev() {
        let edge = colour.mixed(Rgb([0; 3]), colours.edge);
        svg.band(label, Ink::from(edge).fill(), Ink::from(*colour).fill(), data);
    }
    svg.put(format_args!("</g>"));
    let least = columns.iter().map(|it| it.allocated_least);
    if columns.iter().any(|it| it.allocated_least < it.at_peak.allocated_bytes) {
        let shade = Ink::from(colours.background).with_opacity(SHARED.at_times);
        let data = between(layout, content.column_moments, allocated.iter().copied(), least);
        svg.path(&data, shade.fill());
    }
}

/// The heights of columns from left to right, as path data from the left edge on.
pub(super) fn outline(
    layout: &Layout,
    column_moments: u32,
    heights: impl Iterator<Item = u64>,
) -> String {
    let (mut data, mut before) = (String::new(), None);
    for (at, bytes) in (1u64..).zip(heights) {
        let y = Num(layout.y(bytes)).to_string();
        if before.as_ref() != Some(&y) {
            if before.is_some() {
                let _ = write!(data, "H{}", Num(layout.x((at - 1) * u64::from(column_moments))));
            }
            let _ = write!(data, "V{y}");
            before = Some(y);
        }
    }
    let _ = write!(data, "H{}", Num(layout.plot.right()));
    data
}

/// From heights down to the axis, as path data.
fn area(layout: &Layout, column_moments: u32, heights: impl Iterator<Item = u64>) -> String {
    let (left, bottom) = (Num(layout.plot.left), Num(layout.plot.bottom()));
    format!("M{left} {bottom}{}V{bottom}Z", outline(layout, column_moments, heights))
}

/// Between two heights, where they differ.
pub(super) fn between(
    layout: &Layout,
    column_moments: u32,
    upper: impl Iterator<Item = u64>,
    lower: impl Iterator<Item = u64>,
) -> String {
    let mut data = String::new();
    for (at, (upper, lower)) in (0u64..).zip(upper.zip(lower)) {
        if upper > lower {
            let edge = |at: u64| Num(layout.x(at * u64::from(column_moments)));
            let (top, bottom) = (Num(layout.y(upper)), Num(layout.y(lower)));
            let _ = write!(data, "M{} {top}H{}V{bottom}H{}Z", edge(at), edge(at + 1), edge(at));
        }
    }
    data
}

fn lanes(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) {
    let dim = Style::new(TEXT_SIZE, theme.ink("dim")).anchored(Anchor::End);
    let shown = &content.lanes.lanes[..layout.lanes];
    let top = layout.plot.top - 3.0 - layout.lanes as f64 * (LANE_HEIGHT + LANE_GAP);
    for (at, lane) in shown.iter().enumerate() {
        let y = top + at as f64 * (LANE_HEIGHT + LANE_GAP);
        svg.text(lane.title, layout.plot.left - 8.0, y + LANE_HEIGHT / 2.0 + HALF_LETTER, dim);
        spans::draw(svg, layout, theme, lane, &content.names, y);
    }
}
