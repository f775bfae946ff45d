//! All settings of a process from its environment, which is passed in.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::{ConfigError, PyException, Result, TextPosition, Warning};
use super::{Compat, Config, Settings, Strategy};

/// PyTorch's variables: the first that is set counts, also where it is empty.
const PYTORCH_VARIABLES: [&str; 3] =
    ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];

/// PyTorch's switch for memory of expandable segments in other processes.
const SHARING: &str = "TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC";

/// The settings of the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// The allocator's settings.
    pub config: Config,
    /// Ours.
    pub settings: Settings,
    /// Likely mistakes, and settings without effect here.
    pub warnings: Vec<Warning>,
}

impl Environment {
    /// Reads PyTorch's variable and `VRAMTAPE_CONF` for an allocator that serves a running program.
    ///
    /// `variable` looks a name up and returns the bytes of its text; `torch` is the PyTorch to follow where `compat`
    /// does not name one.
    ///
    /// # Errors
    /// If the reproduced PyTorch refuses its variable, or vramtape's cannot be parsed.
    pub fn read(variable: impl Fn(&str) -> Option<Vec<u8>>, torch: Compat) -> Result<Self> {
        let ours = text_of(&variable, "VRAMTAPE_CONF")?.unwrap_or_default();
        let (settings, mut warnings) = Settings::parse(&ours)?;
        let sharing = text_of(&variable, SHARING)?;
        warnings.extend(sharing.as_deref().and_then(no_switch));
        let base = Config {
            shares_expandable_segments: sharing.as_deref() != Some("0"),
            compat: settings.compat.unwrap_or(torch),
            expandable_segments: settings.strategy == Strategy::Expandable,
            stitch: (settings.strategy == Strategy::Stitch).then_some(settings.stitch),
            search_after_flush: settings.search_after_flush.unwrap_or(true),
            ..Config::default()
        };
        let mut found = None;
        for name in PYTORCH_VARIABLES {
            if found.is_none() {
                found = text_of(&variable, name)?.map(|text| (name, text));
            }
        }
        let (name, text) = found.unwrap_or((PYTORCH_VARIABLES[0], String::new()));
        let parsed = base.parse_variable(&text, name)?;
        warnings.extend(parsed.warnings);
        if parsed.config.stitch.is_some() {
            warnings.extend(without_effect(&text, name));
        }
        Ok(Self { config: parsed.config, settings, warnings })
    }
}

/// The keys of PyTorch's variable that reduce a fragmentation which `stitch` does not have.
fn without_effect(text: &str, variable: &'static str) -> impl Iterator<Item = Warning> {
    let keys = ["expandable_segments:True", "max_split_size_mb", "roundup_power2_divisions"];
    keys.into_iter().filter_map(move |key| {
        let at = text[..text.find(key)?].chars().count();
        let key = key.split(':').next().unwrap_or(key);
        let message = format!("{key} has no effect with strategy:stitch");
        Some(Warning { message, place: TextPosition { variable, text: text.to_owned(), at } })
    })
}

/// A value other than 0 and 1 has no effect, as in PyTorch.
fn no_switch(text: &str) -> Option<Warning> {
    let place = TextPosition { variable: SHARING, text: text.to_owned(), at: 0 };
    let message = "neither 0 nor 1, so memory is shared as if it were not set".to_owned();
    (!matches!(text, "0" | "1")).then_some(Warning { message, place })
}

fn text_of(
    variable: impl Fn(&str) -> Option<Vec<u8>>,
    name: &'static str,
) -> Result<Option<String>> {
    variable(name).map(String::from_utf8).transpose().map_err(|error| {
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        ConfigError {
            exception: PyException::ValueError,
            message: "the text is not UTF-8".to_owned(),
            place: TextPosition {
                variable: name,
                at: text.chars().take_while(|c| *c != '\u{fffd}').count(),
                text,
            },
            advice: "write it in UTF-8".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;
    use crate::error::Result;

    fn read(variables: &[(&str, &str)]) -> Result<Environment> {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, text)| text.as_bytes().to_vec())
        };
        Environment::read(variable, Compat::V2_11)
    }

    #[test]
    fn the_first_variable_that_is_set_counts_even_when_empty() {
        let splits = |variables: &[_]| read(variables).unwrap().config.max_split_size_bytes >> 20;
        let (cuda, hip, common) = (
            ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:30"),
            ("PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:40"),
            ("PYTORCH_ALLOC_CONF", "max_split_size_mb:50"),
        );
        assert_eq!(splits(&[common, hip, cuda]), 30);
        assert_eq!(splits(&[common, hip]), 40);
        assert_eq!(splits(&[common]), 50);
        assert_eq!(
            splits(&[("PYTORCH_CUDA_ALLOC_CONF", ""), common]),
            super::super::UNLIMITED >> 20
        );
    }

    #[test]
    fn our_compat_decides_which_keys_pytorchs_variable_may_have() {
        let newer = ("PYTORCH_ALLOC_CONF", "throw_on_cudamalloc_oom:False");
        let error = read(&[newer]).unwrap_err().to_string();
        assert!(error.contains("PYTORCH_ALLOC_CONF character 1 of"), "{error}");
        assert!(error.contains("Unrecognized key 'throw_on_cudamalloc_oom'"), "{error}");
        assert!(read(&[newer, ("VRAMTAPE_CONF", "compat:2.15")]).is_ok());
    }

    #[test]
    fn expandable_is_a_shorthand_that_pytorchs_own_key_overrules() {
        let ours = ("VRAMTAPE_CONF", "strategy:expandable");
        assert!(read(&[ours]).unwrap().config.expandable_segments);
        let theirs = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False");
        assert!(!read(&[ours, theirs]).unwrap().config.expandable_segments);
    }

    #[test]
    fn a_live_allocator_searches_after_a_flush_by_default() {
        assert!(read(&[]).unwrap().config.search_after_flush);
        let off = ("VRAMTAPE_CONF", "search_after_flush:False");
        assert!(!read(&[off]).unwrap().config.search_after_flush);
    }

    #[test]
    fn settings_against_fragmentation_have_no_effect_with_stitch() {
        let theirs = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:64");
        let warnings = |strategy| read(&[("VRAMTAPE_CONF", strategy), theirs]).unwrap().warnings;
        assert!(warnings("strategy:native").is_empty());
        let found = warnings("strategy:stitch");
        let found: Vec<_> = found.iter().map(|one| (one.message.as_str(), one.place.at)).collect();
        assert_eq!(
            found,
            [
                ("expandable_segments has no effect with strategy:stitch", 0),
                ("max_split_size_mb has no effect with strategy:stitch", 25),
            ]
        );
    }

    #[test]
    fn sharing_is_switched_off_by_0_and_by_nothing_else() {
        for (text, shares, warnings) in [("0", false, 0), ("1", true, 0), ("off", true, 1)] {
            let environment = read(&[(SHARING, text)]).unwrap();
            assert_eq!(environment.config.shares_expandable_segments, shares, "{text}");
            assert_eq!(environment.warnings.len(), warnings, "{text}");
        }
        assert!(read(&[]).unwrap().config.shares_expandable_segments);
    }

    #[test]
    fn warnings_of_both_variables_arrive() {
        let environment = read(&[
            ("VRAMTAPE_CONF", "record:ring,tape:a"),
            ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
        ]);
        let warnings = environment.unwrap().warnings;
        let variables: Vec<_> = warnings.iter().map(|warning| warning.place.variable).collect();
        assert_eq!(variables, ["VRAMTAPE_CONF", "PYTORCH_CUDA_ALLOC_CONF"]);
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused() {
        let variable = |name: &str| (name == "PYTORCH_ALLOC_CONF").then(|| b"max\xff".to_vec());
        let error = Environment::read(variable, Compat::V2_11).unwrap_err();
        assert!(
            error.to_string().contains("not UTF-8 (at PYTORCH_ALLOC_CONF character 4"),
            "{error}"
        );
    }
}
