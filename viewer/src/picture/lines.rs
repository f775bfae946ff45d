//! Lines over the stack: reserved, capacity, lower bound, out of memory, lost records.

use super::chart::{TEXT_SIZE, between, outline};
use super::content::Content;
use super::layout::{Area, Layout};
use super::svg::{Anchor, Num, Style, Svg};
use super::theme::{Ink, Theme};
use super::units::{count, short_bytes, unit_of};
use crate::columns::Column;

/// From the upper edge of the plot to the flags of alarms.
const FLAG_DOWN: f64 = 4.0;
const FLAG_HEIGHT: f64 = 17.0;
const FLAG_BASELINE: f64 = 12.5;
/// From a line to the edge of its label, and the height of that.
const LABEL_GAP: f64 = 2.0;
const LABEL_HEIGHT: f64 = 14.0;
const LABEL_BASELINE: f64 = 11.0;

/// A word about a line, near its right end.
struct Label {
    y: f64,
    text: String,
    ink: Ink,
    is_below: bool,
}

pub(super) fn draw(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) {
    let mut labels = vec![reserved(svg, layout, theme, content)];
    let live = (content.peak_live_bytes > 0).then_some(content.peak_live_bytes);
    let levels =
        [(content.capacity_line(), "capacity", "6 4", false), (live, "lower bound", "1.5 3", true)];
    for (bytes, name, dash, is_below) in levels {
        let Some(bytes) = bytes else { continue };
        let (y, ink) = (layout.y(bytes).round() + 0.5, theme.ink("capacity"));
        let dash = format!("stroke-dasharray=\"{dash}\"");
        svg.line((layout.plot.left, y), (layout.plot.right(), y), ink.stroke(), &dash);
        let bytes = bytes as f64;
        let text = format!("{name} {}", short_bytes(bytes, unit_of(bytes)));
        labels.push(Label { y, text, ink, is_below });
    }
    let mut taken = alarms(svg, layout, theme, content);
    for label in labels {
        put_label(svg, layout, theme, &label, &mut taken);
    }
}

/// Puts a label beside its line, where it covers no other: on the other side of the line, or further left.
fn put_label(svg: &mut Svg, layout: &Layout, theme: Theme, label: &Label, taken: &mut Vec<Area>) {
    let style = Style::new(TEXT_SIZE, label.ink).anchored(Anchor::End);
    let width = svg.width(&label.text, style);
    let plot = layout.plot;
    let mut right = plot.right() - 6.0;
    loop {
        let mut next_right = f64::NEG_INFINITY;
        for is_below in [label.is_below, !label.is_below] {
            let top = label.y + if is_below { LABEL_GAP } else { -LABEL_GAP - LABEL_HEIGHT };
            let area = Area { left: right - width, top, width, height: LABEL_HEIGHT };
            if area.top < plot.top - 1.0 || area.bottom() > plot.bottom() {
                continue;
            }
            let Some(other) = taken.iter().find(|other| area.overlaps(other)) else {
                svg.text_on(&label.text, right, top + LABEL_BASELINE, style, theme.ink("halo"));
                taken.push(area);
                return;
            };
            next_right = next_right.max(other.left - 10.0);
        }
        right = next_right;
        if right - width < plot.left {
            return;
        }
    }
}

fn reserved(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) -> Label {
    let most = content.columns.iter().map(|it| it.reserved_most);
    let least = content.columns.iter().map(|it| it.reserved_least);
    let data = between(layout, content.column_moments, most.clone(), least);
    if !data.is_empty() {
        svg.path(&data, theme.ink("reserved-band").fill());
    }
    let y = |column: Option<&Column>| layout.y(column.map_or(0, |it| it.reserved_most));
    let (left, first) = (Num(layout.plot.left), Num(y(content.columns.first())));
    let line = format!("M{left} {first}{}", outline(layout, content.column_moments, most));
    for (ink, width) in [("halo", 3.0), ("reserved", 1.4)] {
        let stroke = theme.ink(ink).stroke();
        svg.put(format_args!(
            "<path fill=\"none\" {stroke} stroke-width=\"{width}\" d=\"{line}\"/>"
        ));
    }
    let y = y(content.columns.last());
    Label { y, text: "reserved".to_owned(), ink: theme.ink("reserved"), is_below: false }
}

/// Vertical lines at out of memory and where records were lost, with flags; flags that would overlap are counted in
/// one. Returns the places of the flags.
fn alarms(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) -> Vec<Area> {
    const BUNDLE_WIDTH: f64 = 120.0;
    let plot = layout.plot;
    let mut bundles: Vec<Bundle> = Vec::new();
    let mut last = None;
    for alarm in &content.lanes.alarms {
        let (x, is_out) = (layout.x(alarm.moment), alarm.requested_bytes.is_some());
        let ink = theme.ink(if is_out { "alarm" } else { "warning" });
        if last.replace((x, is_out)) != Some((x, is_out)) {
            let dash = if is_out { "" } else { " stroke-dasharray=\"3 3\"" };
            let more = format!("stroke-width=\"1.5\"{dash}");
            svg.line((x, plot.top), (x, plot.bottom()), ink.stroke(), &more);
        }
        match bundles.last_mut() {
            Some(bundle) if x - bundle.x <= BUNDLE_WIDTH && bundle.ink == ink => bundle.count += 1,
            _ => {
                let requested_bytes = alarm.requested_bytes;
                bundles.push(Bundle { x, ink, requested_bytes, count: 1 });
            }
        }
    }
    let (mut flags, mut free) = (Vec::new(), plot.left);
    for bundle in bundles {
        let text = bundle.text();
        let style = Style::new(TEXT_SIZE, theme.ink("halo-solid"));
        let width = svg.width(&text, style) + 10.0;
        let left = (bundle.x + 4.0).min(plot.right() - width).max(free);
        if left + width > plot.right() {
            continue;
        }
        let flag = Area { left, top: plot.top + FLAG_DOWN, width, height: FLAG_HEIGHT };
        svg.rect([left, flag.top, width, FLAG_HEIGHT], 3.0, bundle.ink.fill());
        svg.text(&text, left + 5.0, flag.top + FLAG_BASELINE, style);
        free = flag.right() + 4.0;
        flags.push(flag);
    }
    flags
}

/// Alarms of one kind that share a flag.
struct Bundle {
    x: f64,
    ink: Ink,
    /// At the first; `None` for lost records.
    requested_bytes: Option<u64>,
    count: u64,
}

impl Bundle {
    fn text(&self) -> String {
        match (self.requested_bytes, self.count) {
            (Some(bytes), 1) => {
                let bytes = bytes as f64;
                format!("out of memory · {} requested", short_bytes(bytes, unit_of(bytes)))
            }
            (Some(_), many) => format!("{} × out of memory", count(many)),
            (None, 1) => "records lost".to_owned(),
            (None, many) => format!("{} × records lost", count(many)),
        }
    }
}
