//! The words around the chart: title, figures, the largest groups, and the level of detail.

use super::content::{Content, Group};
use super::layout::{Layout, MARGIN, NARROW, ROW_HEIGHT};
use super::svg::{Anchor, Num, Style, Svg, line_of};
use super::theme::{Ink, Theme};
use super::units::{bytes, count, share};

const TITLE_SIZE: f64 = 20.0;
const FIGURE_SIZE: f64 = 18.0;
const TEXT_SIZE: f64 = 12.0;
const SMALL_SIZE: f64 = 11.0;
const FIGURE_GAP: f64 = 30.0;
/// From the top of a figure to its value, and to its note.
const VALUE_DOWN: f64 = 21.0;
const NOTE_DOWN: f64 = 37.0;
const CELL_GAP: f64 = 28.0;
const SWATCH: f64 = 11.0;
/// As in the page.
const LOGO: &str = "M1 15V9h5V5h5V1h6v7h6v7z";
const LOGO_WIDTH: f64 = 19.0;

struct Figure {
    name: &'static str,
    value: String,
    note: String,
    is_alarm: bool,
}

fn figures(content: &Content<'_>) -> Vec<Figure> {
    let peak = content.peak;
    let figure = |name, value, note| Figure { name, value, note, is_alarm: false };
    let at = |moment: u32| format!("at moment {}", count(moment.into()));
    let mut figures = vec![
        figure("peak allocated", bytes(peak.allocated_bytes), at(content.peak_allocated_moment)),
        figure("peak reserved", bytes(peak.reserved_bytes), at(content.peak_reserved_moment)),
    ];
    if let Some(capacity) = content.capacity_bytes {
        let part = 100.0 * peak.reserved_bytes as f64 / capacity.max(1) as f64;
        figures.push(figure(
            "capacity",
            bytes(capacity),
            format!("{part:.0} % reserved at the peak"),
        ));
    }
    let records = format!("in {} records", count(content.records as u64));
    if content.ooms > 0 {
        let times = if content.ooms == 1 { "time" } else { "times" };
        let value = format!("{} {times}", count(content.ooms));
        figures.push(Figure { name: "out of memory", value, note: records, is_alarm: true });
    } else {
        figures.push(figure("allocations", count(content.allocations as u64), records));
    }
    figures
}

/// Title and figures.
pub(super) fn header(
    svg: &mut Svg,
    layout: &Layout,
    theme: Theme,
    title: &str,
    subtitle: &str,
    content: &Content<'_>,
) {
    let is_narrow = layout.size.width < NARROW;
    let title_style = Style::new(TITLE_SIZE, theme.ink("ink")).bold();
    let dim = Style::new(TEXT_SIZE, theme.ink("dim"));
    let note = Style::new(SMALL_SIZE, theme.ink("dim"));
    let right = f64::from(layout.size.width) - MARGIN;
    let mut figures = figures(content);
    let width_of = |svg: &Svg, figure: &Figure| {
        let value = Style::new(FIGURE_SIZE, theme.ink("ink")).bold();
        let widths = [(figure.name, dim), (&figure.value, value), (&figure.note, note)];
        widths.map(|(text, style)| svg.width(text, style)).into_iter().fold(0.0, f64::max)
    };
    let all = |svg: &Svg, figures: &[Figure]| {
        figures.iter().map(|figure| width_of(svg, figure) + FIGURE_GAP).sum::<f64>() - FIGURE_GAP
    };
    // The least important one is last but one: the capacity.
    let room = if is_narrow { right - MARGIN } else { (right - MARGIN) * 0.64 };
    while figures.len() > 1 && all(svg, &figures) > room {
        figures.remove(figures.len().saturating_sub(2).max(1));
    }
    let wide = all(svg, &figures);
    let (mut x, y) = if is_narrow { (MARGIN, 82.0) } else { (right - wide, MARGIN + 9.0) };
    let title_room = if is_narrow { right - MARGIN } else { x - FIGURE_GAP - MARGIN };
    for (text, style, y) in [(title, title_style, MARGIN + 16.0), (subtitle, dim, MARGIN + 36.0)] {
        if let Some(text) = svg.font(style.weight).fit(&line_of(text), style.size, title_room) {
            svg.text(&text, MARGIN, y, style);
        }
    }
    for figure in &figures {
        let ink = theme.ink(if figure.is_alarm { "alarm" } else { "ink" });
        let value = Style::new(FIGURE_SIZE, ink).bold();
        svg.text(figure.name, x, y, dim);
        svg.text(&figure.value, x, y + VALUE_DOWN, value);
        svg.text(&figure.note, x, y + NOTE_DOWN, note);
        x += width_of(svg, figure) + FIGURE_GAP;
    }
}

/// The largest groups at the peak, in the order of the page's table, and a line about the picture.
pub(super) fn draw(svg: &mut Svg, layout: &Layout, theme: Theme, content: &Content<'_>) {
    let at_peak = |group: &Group| group.bytes[content.peak_column];
    let mut groups: Vec<&Group> = content.groups.iter().collect();
    let most = |group: &Group| group.bytes.iter().copied().max().unwrap_or(0);
    groups.sort_by_key(|group| std::cmp::Reverse((at_peak(group), most(group))));
    let (across, down) = layout.cells;
    let shown = groups.len().min(across * down);
    let ink = Style::new(TEXT_SIZE, theme.ink("ink"));
    let dim = Style::new(TEXT_SIZE, theme.ink("dim")).anchored(Anchor::End);
    let whole = content.peak.allocated_bytes;
    let cell_width = (layout.legend.width + CELL_GAP) / across as f64;
    for (at, group) in groups[..shown].iter().enumerate() {
        // Column by column, so that the order reads downwards.
        let (column, row) = (at / down, at % down);
        let x = layout.legend.left + column as f64 * cell_width;
        let y = layout.legend.bottom() - (down - row) as f64 * ROW_HEIGHT + 11.0;
        let right = x + cell_width - CELL_GAP;
        svg.rect([x, y - SWATCH + 1.5, SWATCH, SWATCH], 2.5, Ink::from(group.colour).fill());
        let size = match at_peak(group) {
            0 => format!("at most {}", bytes(most(group))),
            some => format!("{} · {}", bytes(some), share(some, whole)),
        };
        svg.text(&size, right, y, dim);
        let room = right - svg.width(&size, dim) - 12.0 - (x + SWATCH + 7.0);
        if let Some(label) = svg.font(ink.weight).fit(&line_of(&group.label), ink.size, room) {
            svg.text(&label, x + SWATCH + 7.0, y, ink);
        }
    }
    let rest = whole - groups[..shown].iter().map(|group| at_peak(group)).sum::<u64>();
    caption(svg, layout, theme, content, content.groups_all - shown, rest);
}

fn caption(
    svg: &mut Svg,
    layout: &Layout,
    theme: Theme,
    content: &Content<'_>,
    groups: usize,
    rest: u64,
) {
    let small = Style::new(SMALL_SIZE, theme.ink("dim"));
    let (y, right) = (f64::from(layout.size.height) - MARGIN / 2.0 - 4.0, layout.legend.right());
    let brand = Style::new(SMALL_SIZE, theme.ink("accent")).bold().anchored(Anchor::End);
    let brand_left = right - svg.width("vramtape", brand) - LOGO_WIDTH;
    svg.text("vramtape", right, y, brand);
    svg.put(format_args!(
        "<path {} transform=\"translate({} {}) scale(.6)\" d=\"{LOGO}\"/>",
        brand.ink.fill(),
        Num(brand_left),
        Num(y - 9.0)
    ));
    let mut parts = vec![format!("Allocated memory by {}, bytes at the peak", content.grouping)];
    if groups > 0 {
        let plural = if groups == 1 { "" } else { "s" };
        let rest = if rest > 0 { format!(": {}", bytes(rest)) } else { String::new() };
        parts.push(format!("{} more group{plural}{rest}", count(groups as u64)));
    }
    if content.has_pending() {
        parts.push("hatched: freed, in use by another stream".to_owned());
    }
    if content.column_moments > 1 {
        let moments = count(content.column_moments.into());
        parts.push(format!("columns of {moments} moments, each at its peak"));
    }
    let room = brand_left - 16.0 - layout.legend.left;
    if let Some(text) = svg.font(small.weight).fit(&parts.join(" · "), small.size, room) {
        svg.text(&text, layout.legend.left, y, small);
    }
}
