//! The page's colours besides those of groups: they are read from its style sheet, so that both are the same.

use std::fmt;

use super::colours::{Rgb, SHARED, ThemeColours};

const STYLE: &str = include_str!("../../page/page.css");
/// Before the dark theme's block in the style sheet.
const DARK: &str = "(prefers-color-scheme: dark)";

/// The background of a picture, and the colours that go with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark ink on white.
    #[default]
    Light,
    /// Light ink on a dark background.
    Dark,
}

/// A colour with its opacity, as attributes of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ink {
    pub(crate) rgb: Rgb,
    opacity: f64,
}

impl From<Rgb> for Ink {
    fn from(rgb: Rgb) -> Self {
        Self { rgb, opacity: 1.0 }
    }
}

impl Ink {
    pub(crate) fn with_opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }

    pub(crate) fn fill(self) -> Attribute {
        Attribute("fill", self)
    }

    pub(crate) fn stroke(self) -> Attribute {
        Attribute("stroke", self)
    }
}

/// `fill="#rrggbb"`, with its opacity if that is not 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute(&'static str, Ink);

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, Ink { rgb, opacity }) = self;
        write!(f, "{name}=\"{rgb}\"")?;
        if *opacity < 1.0 { write!(f, " {name}-opacity=\"{opacity}\"") } else { Ok(()) }
    }
}

impl Theme {
    /// The colours of groups, and of the background.
    pub(crate) fn colours(self) -> &'static ThemeColours {
        match self {
            Self::Light => &SHARED.light,
            Self::Dark => &SHARED.dark,
        }
    }

    /// A colour of the page by its name in the style sheet.
    pub(crate) fn ink(self, name: &str) -> Ink {
        let (light, dark) = STYLE.split_once(DARK).expect("the style sheet has two themes");
        let block = if self == Self::Light { light } else { dark };
        parse(block, name).unwrap_or_else(|| panic!("the style sheet has no colour {name}"))
    }
}

/// `--name: #rrggbb;` or `--name: rgb(r g b / p%);`.
fn parse(block: &str, name: &str) -> Option<Ink> {
    let (_, value) = block.split_once(&format!("--{name}: "))?;
    let (value, _) = value.split_once(';')?;
    let Some(parts) = value.strip_prefix("rgb(") else {
        return Rgb::try_from(value.to_owned()).ok().map(Ink::from);
    };
    let (parts, percent) = parts.split_once(" / ")?;
    let mut parts = parts.split(' ').map(str::parse);
    let rgb = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    let percent: f64 = percent.strip_suffix("%)")?.parse().ok()?;
    Some(Ink { rgb: Rgb(rgb), opacity: percent / 100.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_style_sheet() {
        let text = |theme: Theme, name| theme.ink(name).fill().to_string();
        assert_eq!(text(Theme::Light, "ink"), "fill=\"#1b1f24\"");
        assert_eq!(text(Theme::Dark, "ink"), "fill=\"#e5e8eb\"");
        let band = text(Theme::Light, "reserved-band");
        assert_eq!(band, "fill=\"#3d4650\" fill-opacity=\"0.14\"");
        for theme in [Theme::Light, Theme::Dark] {
            assert_eq!(theme.ink("card").rgb, theme.colours().background);
        }
    }
}
