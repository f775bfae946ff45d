//! Colours of groups, as the page gives them (`page/engine/colours.ts`): the numbers are shared in `colours.json`, and
//! both are tested with the vectors in `page/test/colours.json`.

use std::collections::HashSet;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;

/// The numbers, parsed.
pub(crate) static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../colours.json")).expect("a test parses colours.json")
});

#[derive(Debug, Deserialize)]
pub(crate) struct Shared {
    pub(crate) light: ThemeColours,
    pub(crate) dark: ThemeColours,
    second_tone: f64,
    /// How far a colour goes towards the background where memory is not allocated at every moment of its column.
    pub(crate) at_times: f64,
    /// The step from a colour that is taken to the next.
    step: usize,
    no_group: NoGroup,
    categories: Vec<CategoryHue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ThemeColours {
    pub(crate) background: Rgb,
    hues: Vec<Rgb>,
    towards: Rgb,
    pub(crate) other: Rgb,
    pub(crate) pending: Rgb,
    /// How far edges of spans go towards black.
    pub(crate) edge: f64,
    /// The opacity of spans in lanes.
    pub(crate) lane: f64,
}

#[derive(Debug, Deserialize)]
struct NoGroup {
    labels: Vec<String>,
    first_words: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct CategoryHue {
    prefix: String,
    hue: usize,
}

/// A colour; its text is `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Rgb(pub(crate) [u8; 3]);

impl TryFrom<String> for Rgb {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6);
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let number = number.ok_or(text)?;
        Ok(Self([16, 8, 0].map(|shift| (number >> shift) as u8)))
    }
}

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

impl Rgb {
    /// The colour that lies this far towards another one.
    pub(crate) fn mixed(self, towards: Self, part: f64) -> Self {
        Self([0, 1, 2].map(|at| {
            let (a, b) = (f64::from(self.0[at]), f64::from(towards.0[at]));
            (a + (b - a) * part).round() as u8
        }))
    }
}

impl ThemeColours {
    /// Each hue, and a second tone of it.
    pub(crate) fn tones(&self) -> Vec<Rgb> {
        let second = |hue: &Rgb| hue.mixed(self.towards, SHARED.second_tone);
        self.hues.iter().copied().chain(self.hues.iter().map(second)).collect()
    }

    /// The colours of groups, from the bottom of the stack.
    pub(crate) fn of_groups(&self, labels: &[String], is_category: bool) -> Vec<Rgb> {
        let tones = self.tones();
        let places = places(tones.len(), labels, is_category);
        places.into_iter().map(|place| place.map_or(self.other, |place| tones[place])).collect()
    }

    /// The colour of a name in a lane.
    pub(crate) fn of_name(&self, name: &str) -> Rgb {
        self.hues[hash(name) as usize % self.hues.len()]
    }
}

/// FNV-1a over UTF-16 units.
fn hash(text: &str) -> u32 {
    let value = text
        .encode_utf16()
        .fold(0x811c_9dc5, |value: u32, unit| (value ^ u32::from(unit)).wrapping_mul(0x0100_0193));
    value ^ (value >> 15)
}

/// The places in a list of `count` colours of groups, from the bottom of the stack: by the label, or the next one that
/// no group below has taken. All are given out before one is used again. `None` has no colour of its own.
fn places(count: usize, labels: &[String], is_category: bool) -> Vec<Option<usize>> {
    let mut taken = HashSet::new();
    let place = |label: &String| {
        if is_no_group(label) {
            return None;
        }
        let mut categories = SHARED.categories.iter().filter(|_| is_category);
        let fixed = categories.find(|it| starts_with(label, &it.prefix)).map(|it| it.hue);
        let mut at = fixed.unwrap_or_else(|| hash(label) as usize % count);
        if taken.len() == count {
            taken.clear();
        }
        while fixed.is_none() && taken.contains(&at) {
            at = (at + SHARED.step) % count;
        }
        taken.insert(at);
        Some(at)
    };
    labels.iter().map(place).collect()
}

fn starts_with(label: &str, prefix: &str) -> bool {
    label.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn is_no_group(label: &str) -> bool {
    let NoGroup { labels, first_words } = &SHARED.no_group;
    let is_word = |next: u8| next.is_ascii_alphanumeric() || next == b'_';
    labels.iter().any(|it| it.eq_ignore_ascii_case(label))
        || first_words.iter().any(|words| {
            starts_with(label, words)
                && !label.as_bytes().get(words.len()).is_some_and(|it| is_word(*it))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        tones: Tones,
        hashes: Vec<Hash>,
        groups: Vec<Groups>,
    }

    #[derive(Deserialize)]
    struct Tones {
        light: Vec<Rgb>,
        dark: Vec<Rgb>,
    }

    #[derive(Deserialize)]
    struct Hash {
        text: String,
        hash: u32,
    }

    #[derive(Deserialize)]
    struct Groups {
        name: String,
        is_category: bool,
        labels: Vec<String>,
        places: Vec<Option<usize>>,
    }

    #[test]
    fn groups_have_the_colours_of_the_page() {
        let vectors = include_str!("../../page/test/colours.json");
        let Vectors { tones, hashes, groups } = serde_json::from_str(vectors).unwrap();
        assert_eq!((SHARED.light.tones(), SHARED.dark.tones()), (tones.light, tones.dark));
        for Hash { text, hash: expected } in hashes {
            assert_eq!(hash(&text), expected, "{text}");
        }
        assert!(groups.len() >= 7);
        for Groups { name, is_category, labels, places: expected } in groups {
            assert_eq!(places(24, &labels, is_category), expected, "{name}");
        }
    }
}
