//! The spans of a lane, with their names where those fit.

use super::lanes::{Lane, Span};
use super::layout::{LANE_HEIGHT, Layout};
use super::svg::{Style, Svg, line_of};
use super::theme::{Ink, Theme};
use super::units::count;

const TEXT_SIZE: f64 = 11.0;
/// Spans that are narrower are merged with their neighbours.
const SPAN_MIN: f64 = 4.0;
const BASELINE: f64 = LANE_HEIGHT / 2.0 + 4.0;

/// Draws the spans of a lane whose upper edge is at `y`.
pub(super) fn draw(
    svg: &mut Svg,
    layout: &Layout,
    theme: Theme,
    lane: &Lane,
    names: &[String],
    y: f64,
) {
    let edges = |span: &Span| (layout.x(span.start), layout.x(span.end));
    let right = layout.plot.right();
    let next_x = |at: usize| lane.spans.get(at).map_or(right, |span| layout.x(span.start));
    let mut at = 0;
    while let Some(span) = lane.spans.get(at) {
        let first = at;
        at += 1;
        let (left, mut end) = edges(span);
        let name = names.get(span.name).map_or_else(String::new, |name| line_of(name));
        if end - left >= SPAN_MIN {
            let is_named = draw_span(svg, theme, lane, first, &name, (left, end), y);
            if !is_named {
                draw_beside(svg, theme, &name, end, next_x(at), y);
            }
            continue;
        }
        // A run of narrow spans: on to the first that is wide or lies apart.
        while let Some(next) = lane.spans.get(at) {
            let (next_left, next_end) = edges(next);
            if next_left - end > SPAN_MIN || next_end - next_left >= SPAN_MIN {
                break;
            }
            (end, at) = (next_end, at + 1);
        }
        let end = end.max(left + 2.0).min(right);
        let merged = at - first;
        let height = LANE_HEIGHT - 2.0;
        let wide = (end - left - 0.5).max(1.0);
        svg.rect([left, y + 1.0, wide, height], 0.0, theme.ink("lane-merged").fill());
        if merged == 1 {
            draw_beside(svg, theme, &name, end, next_x(at), y);
            continue;
        }
        let title = if lane.title.is_empty() { "ranges" } else { lane.title };
        let (short, dim) = (count(merged as u64), Style::new(TEXT_SIZE, theme.ink("dim")));
        let text = format!("{short} {title}, merged");
        for text in [text, short] {
            if svg.width(&text, dim) < end - left - 8.0 {
                svg.text(&text, left + 5.0, y + BASELINE, dim);
                break;
            }
        }
    }
}

/// Returns whether the span has room for its name, or a part of it.
fn draw_span(
    svg: &mut Svg,
    theme: Theme,
    lane: &Lane,
    place: usize,
    name: &str,
    (left, right): (f64, f64),
    y: f64,
) -> bool {
    let colours = theme.colours();
    let ink = if lane.title == "steps" {
        theme.ink(if place.is_multiple_of(2) { "lane-a" } else { "lane-b" })
    } else {
        Ink::from(colours.of_name(name)).with_opacity(colours.lane)
    };
    let wide = (right - left - 1.0).max(1.0);
    svg.rect([left + 0.5, y + 1.0, wide, LANE_HEIGHT - 2.0], 3.0, ink.fill());
    let style = Style::new(TEXT_SIZE, theme.ink("ink"));
    let Some(text) = svg.font(style.weight).fit(name, style.size, right - left - 10.0) else {
        return false;
    };
    svg.text(&text, left + 6.0, y + BASELINE, style);
    true
}

/// The name of a span that is too narrow for it, where nothing else is.
fn draw_beside(svg: &mut Svg, theme: Theme, name: &str, x: f64, room: f64, y: f64) {
    let style = Style::new(TEXT_SIZE, theme.ink("dim"));
    if svg.width(name, style) + 10.0 <= room - x {
        svg.text(name, x + 4.0, y + BASELINE, style);
    }
}
