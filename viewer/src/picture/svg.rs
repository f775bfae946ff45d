//! The text of an SVG: shapes, outlines of text, and its title and description.

use std::fmt::{self, Display, Write};

use trace_format::visible;

use super::Size;
use super::font::{Font, Weight};
use super::theme::{Attribute, Ink};

/// A number with at most two decimals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Num(pub(crate) f64);

impl Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        let short = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if short == "-0" { "0" } else { short })
    }
}

/// Longer texts are cut before they are measured.
const LETTERS_MAX: usize = 400;

/// Text in one line without control characters, and not longer than a picture has room for.
pub(crate) fn line_of(text: &str) -> String {
    let start: String = text.chars().take(LETTERS_MAX).collect();
    let line = visible(&start).replace(['\n', '\t'], " ");
    if start.len() < text.len() { format!("{line}…") } else { line }
}

/// Text as content of an element; characters that XML excludes are replaced.
fn escape(text: &str) -> String {
    let text = line_of(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Where a text is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The look of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) size: f64,
    pub(crate) weight: Weight,
    pub(crate) ink: Ink,
    pub(crate) anchor: Anchor,
}

impl Style {
    pub(crate) fn new(size: f64, ink: Ink) -> Self {
        Self { size, weight: Weight::Regular, ink, anchor: Anchor::Start }
    }

    pub(crate) fn bold(self) -> Self {
        Self { weight: Weight::SemiBold, ..self }
    }

    pub(crate) fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

/// An SVG that is being written.
pub(crate) struct Svg {
    body: String,
    bands: usize,
    regular: Font,
    semi_bold: Font,
}

impl Svg {
    pub(crate) fn new() -> Self {
        let [regular, semi_bold] = [Weight::Regular, Weight::SemiBold].map(Font::new);
        Self { body: String::new(), bands: 0, regular, semi_bold }
    }

    pub(crate) fn font(&self, weight: Weight) -> &Font {
        match weight {
            Weight::Regular => &self.regular,
            Weight::SemiBold => &self.semi_bold,
        }
    }

    pub(crate) fn width(&self, text: &str, style: Style) -> f64 {
        self.font(style.weight).width(text, style.size)
    }

    /// Any element, or the start or end of one.
    pub(crate) fn put(&mut self, element: fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A shape with an edge above it, and a name that browsers show at the pointer.
    pub(crate) fn band(&mut self, name: &str, edge: Attribute, fill: Attribute, data: &str) {
        let name = escape(name);
        self.bands += 1;
        let id = self.bands;
        self.put(format_args!(
            "<g {edge}><path id=\"band{id}\" d=\"{data}\"><title>{name}</title></path>\
             <use href=\"#band{id}\" y=\"1\" {fill}/></g>"
        ));
    }

    pub(crate) fn path(&mut self, data: &str, fill: Attribute) {
        self.put(format_args!("<path {fill} d=\"{data}\"/>"));
    }

    pub(crate) fn rect(&mut self, [x, y, width, height]: [f64; 4], radius: f64, fill: Attribute) {
        let [x, y, width, height] = [x, y, width, height].map(Num);
        self.put(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\" {fill}/>"
        ));
    }

    /// `more` is further attributes of the stroke.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Attribute, more: &str) {
        let [x0, y0, x1, y1] = [from.0, from.1, to.0, to.1].map(Num);
        self.put(format_args!("<path {stroke} {more} d=\"M{x0} {y0}L{x1} {y1}\"/>"));
    }

    /// Text on a baseline.
    pub(crate) fn text(&mut self, text: &str, x: f64, y: f64, style: Style) {
        let fill = style.ink.fill();
        self.glyphs(text, x, y, style, |_| fill.to_string());
    }

    /// Text with a halo that keeps it apart from the shapes below it.
    pub(crate) fn text_on(&mut self, text: &str, x: f64, y: f64, style: Style, halo: Ink) {
        const HALO_WIDTH: f64 = 3.0;
        self.glyphs(text, x, y, style, |scale| {
            let (stroke, width) = (halo.stroke(), Num(HALO_WIDTH / scale));
            format!("fill=\"none\" {stroke} stroke-width=\"{width}\" stroke-linejoin=\"round\"")
        });
        self.text(text, x, y, style);
    }

    fn glyphs(
        &mut self,
        text: &str,
        x: f64,
        y: f64,
        style: Style,
        look: impl FnOnce(f64) -> String,
    ) {
        let width = self.width(text, style);
        let x = match style.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        let mut glyphs = String::new();
        let font = match style.weight {
            Weight::Regular => &mut self.regular,
            Weight::SemiBold => &mut self.semi_bold,
        };
        let scale = font.put(&mut glyphs, text, style.size);
        let (look, x, y) = (look(scale), Num(x), Num(y));
        self.put(format_args!(
            "<g transform=\"translate({x} {y}) scale({scale:.6} -{scale:.6})\" {look}>{glyphs}</g>"
        ));
    }

    /// The whole file.
    pub(crate) fn finish(self, size: Size, title: &str, description: &str) -> String {
        let (width, height) = (size.width, size.height);
        let (title, description) = (escape(title), escape(description));
        let mut outlines = String::new();
        self.regular.put_outlines(&mut outlines);
        self.semi_bold.put_outlines(&mut outlines);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title description\">\n\
             <title id=\"title\">{title}</title>\n<desc id=\"description\">{description}</desc>\n\
             <defs>\n{outlines}</defs>\n{}</svg>\n",
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let text = |value| Num(value).to_string();
        assert_eq!([0.0, 10.0, 1.5, -0.001, 2.345].map(text), ["0", "10", "1.5", "0", "2.35"]);
    }

    #[test]
    fn text_is_one_line_and_no_markup() {
        assert_eq!(escape("<b>&\u{0}\u{202e}\n\u{ffff}"), "&lt;b&gt;&amp;\\u0000\\u202e \u{fffd}");
        assert_eq!(line_of(&"x".repeat(10_000)).chars().count(), LETTERS_MAX + 1);
    }
}
