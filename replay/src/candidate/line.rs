//! A line of settings as the search sees it: a value or none for each knob it turns, and what it leaves alone.

use settings::{Compat, Config};

/// A setting that the search turns, and the values it tries besides leaving it out and what was recorded.
pub(crate) struct Knob {
    pub(crate) key: &'static str,
    pub(crate) values: &'static [&'static str],
}

/// The knobs, in the order in which the search turns them: what changes most comes first. Segments have to be whole
/// pages of 2 MiB, so `large_segment_size_mb` is even.
pub(crate) const KNOBS: [Knob; 6] = [
    Knob { key: "expandable_segments", values: &["True"] },
    Knob { key: "max_split_size_mb", values: &["32", "64", "128", "256", "512", "1024", "2048"] },
    Knob { key: "roundup_power2_divisions", values: &["2", "4", "8", "16"] },
    Knob { key: "garbage_collection_threshold", values: &["0.6", "0.8", "0.9"] },
    Knob { key: "max_non_split_rounding_mb", values: &["32", "64", "128", "256", "1024"] },
    Knob { key: "large_segment_size_mb", values: &["12", "16", "32", "64", "128"] },
];

/// A line, and whether our allocator searches once more after its last flush.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    /// The entries other than the knobs, unchanged.
    pub(crate) rest: Vec<String>,
    /// A value for each of [`KNOBS`].
    pub(crate) values: [Option<String>; KNOBS.len()],
    pub(crate) search_after_flush: bool,
}

impl Line {
    /// Takes a recorded line apart. Of a key that is given twice the last counts, as in PyTorch.
    pub(crate) fn read(text: &str) -> Self {
        let mut line =
            Self { rest: Vec::new(), values: Default::default(), search_after_flush: false };
        for entry in entries(text) {
            let (key, value) = entry.split_once(':').unwrap_or((entry, ""));
            match KNOBS.iter().position(|knob| knob.key == key.trim()) {
                Some(knob) => line.values[knob] = Some(value.trim().to_owned()),
                None => line.rest.push(entry.to_owned()),
            }
        }
        line
    }

    /// The same line without any knob.
    pub(crate) fn bare(&self) -> Self {
        Self { rest: self.rest.clone(), values: Default::default(), search_after_flush: false }
    }

    /// The same line with these settings too.
    pub(crate) fn and(mut self, text: &str) -> Self {
        let added = Self::read(text);
        for (value, new) in self.values.iter_mut().zip(added.values) {
            *value = new.or(value.take());
        }
        self.rest.extend(added.rest);
        self
    }

    /// The text for `PYTORCH_CUDA_ALLOC_CONF`.
    pub(crate) fn text(&self) -> String {
        let values = KNOBS.iter().zip(&self.values);
        let knobs =
            values.filter_map(|(knob, value)| Some(format!("{}:{}", knob.key, value.as_ref()?)));
        knobs.chain(self.rest.iter().cloned()).collect::<Vec<_>>().join(",")
    }

    /// The settings it means; `None` where PyTorch would refuse it, or the driver could not have such segments.
    pub(crate) fn config(&self, compat: Compat) -> Option<Config> {
        let config = Config::parse(&self.text(), compat).ok()?.config;
        let whole_pages = config.large_segment_size_bytes.is_multiple_of(2 << 20);
        whole_pages.then_some(Config { search_after_flush: self.search_after_flush, ..config })
    }

    /// How much there is to explain about it: of equal lines the simpler is better.
    pub(crate) fn complexity(&self) -> usize {
        self.values.iter().flatten().count() + usize::from(self.search_after_flush)
    }
}

/// The comma-separated entries, lists in brackets whole.
fn entries(text: &str) -> Vec<&str> {
    let (mut depth, mut begin) = (0_i32, 0);
    let mut entries = Vec::new();
    for (at, character) in text.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth <= 0 => {
                entries.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    entries.push(&text[begin..]);
    entries.into_iter().map(str::trim).filter(|entry| !entry.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_what_it_does_not_turn_and_lists_whole() {
        let text = "pinned_num_register_threads:8, roundup_power2_divisions:[64:8,>:1],expandable_segments:True";
        let line = Line::read(text);
        assert_eq!(line.rest, ["pinned_num_register_threads:8"]);
        let expected = "expandable_segments:True,roundup_power2_divisions:[64:8,>:1],pinned_num_register_threads:8";
        assert_eq!(line.text(), expected);
        assert_eq!(Line::read(&line.text()), line);
        assert_eq!(
            (line.complexity(), line.bare().text().as_str()),
            (2, "pinned_num_register_threads:8")
        );
        assert_eq!(Line::read("").text(), "");
    }

    #[test]
    fn a_line_that_pytorch_or_the_driver_refuses_is_none() {
        for text in ["max_split_size_mb:3", "large_segment_size_mb:13", "what:1"] {
            assert_eq!(Line::read(text).config(Compat::V2_15), None, "{text}");
        }
        let line = Line { search_after_flush: true, ..Line::read("max_split_size_mb:64") };
        let config = line.config(Compat::V2_11).expect("settings");
        assert!(config.search_after_flush && config.max_split_size_bytes == 64 << 20);
    }

    #[test]
    fn every_value_of_every_knob_is_one_that_both_versions_take() {
        for (at, knob) in KNOBS.iter().enumerate() {
            for value in knob.values {
                for compat in Compat::ALL {
                    let mut line = Line::read("");
                    line.values[at] = Some((*value).to_owned());
                    if knob.key == "large_segment_size_mb" {
                        line.values[4] = Some("1024".to_owned());
                    }
                    assert!(line.config(compat).is_some(), "{}:{value}", knob.key);
                }
            }
        }
    }
}
