//! Text as outlines of the embedded fonts (subsets of Inter, `viewer/fonts`), so that it looks the same everywhere.
//!
//! The fonts have Latin, Greek, Cyrillic, digits and punctuation. Other characters are boxes.

use std::collections::BTreeSet;
use std::fmt::Write;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

use super::svg::Num;

const REGULAR: &[u8] = include_bytes!("../../fonts/Inter-Regular.ttf");
const SEMI_BOLD: &[u8] = include_bytes!("../../fonts/Inter-SemiBold.ttf");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Regular,
    SemiBold,
}

/// A font, and the glyphs of it that a picture uses.
pub(crate) struct Font {
    face: Face<'static>,
    prefix: char,
    used: BTreeSet<u16>,
}

impl Font {
    pub(crate) fn new(weight: Weight) -> Self {
        let (data, prefix) = match weight {
            Weight::Regular => (REGULAR, 'r'),
            Weight::SemiBold => (SEMI_BOLD, 'b'),
        };
        let face = Face::parse(data, 0).expect("a test parses the embedded fonts");
        Self { face, prefix, used: BTreeSet::new() }
    }

    fn glyph(&self, one: char) -> GlyphId {
        self.face.glyph_index(one).unwrap_or_default()
    }

    /// In units of the font.
    fn advance(&self, one: char) -> u32 {
        u32::from(self.face.glyph_hor_advance(self.glyph(one)).unwrap_or_default())
    }

    fn scale(&self, size: f64) -> f64 {
        size / f64::from(self.face.units_per_em())
    }

    pub(crate) fn width(&self, text: &str, size: f64) -> f64 {
        let units: u64 = text.chars().map(|one| u64::from(self.advance(one))).sum();
        units as f64 * self.scale(size)
    }

    /// The text, cut to a width if it does not fit; `None` without room for a few letters.
    pub(crate) fn fit(&self, text: &str, size: f64, width: f64) -> Option<String> {
        const LEAST_WIDTH: f64 = 18.0;
        const LEAST_LETTERS: usize = 3;
        let units = width / self.scale(size);
        let (mut sum, mut cut) = (0.0, None);
        let dots = f64::from(self.advance('…'));
        for (letters, (at, one)) in text.char_indices().enumerate() {
            if sum + dots <= units {
                cut = Some((letters, at));
            }
            sum += f64::from(self.advance(one));
            if sum > units {
                let cut =
                    cut.filter(|(letters, _)| *letters >= LEAST_LETTERS && width >= LEAST_WIDTH);
                return cut.map(|(_, at)| format!("{}…", text[..at].trim_end()));
            }
        }
        Some(text.to_owned())
    }

    /// Adds text as references to its glyphs, in units of the font, and returns the scale of those.
    pub(crate) fn put(&mut self, out: &mut String, text: &str, size: f64) -> f64 {
        let mut x = 0;
        for one in text.chars() {
            let GlyphId(glyph) = self.glyph(one);
            if one != ' ' {
                self.used.insert(glyph);
                let _ = write!(out, "<use href=\"#{}{glyph}\" x=\"{x}\"/>", self.prefix);
            }
            x += self.advance(one);
        }
        self.scale(size)
    }

    /// The outlines of all glyphs that are used.
    pub(crate) fn put_outlines(&self, out: &mut String) {
        for glyph in &self.used {
            let mut outline = Outline(String::new());
            let _ = self.face.outline_glyph(GlyphId(*glyph), &mut outline);
            let _ = writeln!(out, "<path id=\"{}{glyph}\" d=\"{}\"/>", self.prefix, outline.0);
        }
    }
}

/// Path data of a glyph.
struct Outline(String);

impl OutlineBuilder for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        let _ = write!(self.0, "M{} {}", Num(x.into()), Num(y.into()));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let _ = write!(self.0, "L{} {}", Num(x.into()), Num(y.into()));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let [x1, y1, x, y] = [x1, y1, x, y].map(|value| Num(value.into()));
        let _ = write!(self.0, "Q{x1} {y1} {x} {y}");
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let [x1, y1, x2, y2, x, y] = [x1, y1, x2, y2, x, y].map(|value| Num(value.into()));
        let _ = write!(self.0, "C{x1} {y1} {x2} {y2} {x} {y}");
    }

    fn close(&mut self) {
        self.0.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_the_width() {
        for weight in [Weight::Regular, Weight::SemiBold] {
            let font = Font::new(weight);
            let width = font.width("parameters", 12.0);
            assert!((50.0..80.0).contains(&width), "{width}");
            assert_eq!(font.fit("parameters", 12.0, width + 0.01).as_deref(), Some("parameters"));
            let cut = font.fit("parameters", 12.0, width - 1.0).unwrap();
            assert!(cut.ends_with('…') && font.width(&cut, 12.0) < width, "{cut}");
            assert_eq!(font.fit("parameters", 12.0, 10.0), None);
            assert_eq!(font.fit("", 12.0, 10.0).as_deref(), Some(""));
        }
    }

    #[test]
    fn each_character_has_an_outline() {
        let mut font = Font::new(Weight::Regular);
        font.put(&mut String::new(), "Aé·…×ЖΩ→層", 12.0);
        assert!(font.used.contains(&0), "a character that the font lacks is a box");
        let mut outlines = String::new();
        font.put_outlines(&mut outlines);
        assert_eq!(outlines.lines().count(), 9, "{outlines}");
        assert!(
            outlines.lines().all(|line| line.contains("d=\"M") && line.contains('Z')),
            "{outlines}"
        );
    }
}
