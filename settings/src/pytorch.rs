//! `PYTORCH_CUDA_ALLOC_CONF`: accepted and refused as that PyTorch does, with the same values.
//!
//! Two parsers read the same string one after the other, as in PyTorch: c10's common one, then
//! CUDA's. Each skips the other's keys, and neither looks at what a separator is. Before both,
//! `large_segment_size_mb` is searched for, because the limits of other keys depend on it.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

use super::cursor::{Cursor, ParsePhase};
use super::error::{Result, Warning};
use super::keys::{Key, Reader, advice_for_unknown};
use super::{Compat, Config, ROUNDUP_INTERVALS, UNLIMITED, roundup};

/// An accepted settings string.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The settings.
    pub config: Config,
    /// Likely mistakes, and settings without effect here.
    pub warnings: Vec<Warning>,
}

impl Config {
    /// Reads `text` as the PyTorch that `compat` names reads it at its start.
    ///
    /// # Errors
    /// If that PyTorch refuses the text; has its exception and its message.
    pub fn parse(text: &str, compat: Compat) -> Result<Parsed> {
        let base = Self { compat, ..Self::default() };
        base.parse_over(text)
    }

    /// Reads `text` over these settings, as they are before a program starts.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_over(&self, text: &str) -> Result<Parsed> {
        self.parse_variable(text, "PYTORCH_CUDA_ALLOC_CONF")
    }

    /// As [`parse`](Self::parse), with the settings in the environment variable that errors shall
    /// name.
    pub(super) fn parse_variable(&self, text: &str, variable: &'static str) -> Result<Parsed> {
        self.parse_as(text, variable, ParsePhase::Start(self.compat))
    }

    /// Reads `text` over these settings, as PyTorch does while it runs
    /// (`torch._C._accelerator_setAllocatorSettings`).
    ///
    /// `max_split_size_mb`, `roundup_power2_divisions`, `garbage_collection_threshold` and
    /// `max_non_split_rounding_mb` return to their defaults where `text` does not name them;
    /// everything else stays. Other than in PyTorch, a refused string changes nothing.
    ///
    /// # Errors
    /// If that PyTorch refuses the text; has its exception and its message.
    pub fn reparse(&self, text: &str) -> Result<Parsed> {
        self.parse_as(text, "allocator settings", ParsePhase::Running)
    }

    fn parse_as(&self, text: &str, variable: &'static str, phase: ParsePhase) -> Result<Parsed> {
        let config = Self {
            max_split_size_bytes: UNLIMITED,
            roundup_power2_divisions: [0; ROUNDUP_INTERVALS],
            garbage_collection_threshold: 0.0,
            text: text.to_owned(),
            ..self.clone()
        };
        let mut parser = Parser { cursor: Cursor::new(variable, text, phase), config };
        parser.cursor.warn_of_closed_up_tokens();
        parser.large_segment_size()?;
        parser.read(Reader::Common)?;
        parser.read(Reader::Cuda)?;
        Ok(Parsed { config: parser.config, warnings: parser.cursor.warnings })
    }
}

/// A string on its way to becoming settings.
pub(super) struct Parser<'a> {
    pub cursor: Cursor<'a>,
    pub config: Config,
}

impl Parser<'_> {
    /// Searches every token for the key, as PyTorch does.
    fn large_segment_size(&mut self) -> Result<()> {
        let mut i = 0;
        while i < self.cursor.len() {
            if self.cursor.token(i)? == "large_segment_size_mb" {
                i = self.value(i, Self::large_segment_size_value)?;
            }
            i += 1;
        }
        self.config.max_non_split_rounding_bytes = self.config.large_segment_size_bytes;
        Ok(())
    }

    fn read(&mut self, reader: Reader) -> Result<()> {
        let mut seen: Vec<&'static str> = Vec::new();
        let mut i = 0;
        while i < self.cursor.len() {
            let name = self.cursor.token(i)?;
            let Some(key) = Key::find(name, self.config.compat) else {
                let parser = if reader == Reader::Common { "Accelerator" } else { "CUDA" };
                let message = format!("Unrecognized key '{name}' in {parser} allocator config.");
                let advice = advice_for_unknown(name, self.config.compat);
                return Err(self.cursor.invalid(i, message, advice));
            };
            if seen.contains(&key.name) {
                self.cursor.warn(i, format!("{} is given twice, the last one counts", key.name));
            }
            seen.push(key.name);
            i = if key.reader == reader {
                self.setting(key.name, i)?
            } else {
                self.cursor.skip_value(i)?
            };
            if i + 1 < self.cursor.len() {
                i += 1;
                self.cursor.separator(i, ",")?;
            }
            i += 1;
        }
        Ok(())
    }

    /// Reads one key and its value; returns the value's last token.
    fn setting(&mut self, name: &'static str, key: usize) -> Result<usize> {
        match name {
            // Read before everything else.
            "large_segment_size_mb" => self.cursor.skip_value(key),
            "max_split_size_mb" => self.value(key, |parser, i| {
                parser.config.max_split_size_bytes = parser.at_least_a_segment(name, i)?;
                Ok(())
            }),
            "max_non_split_rounding_mb" => self.value(key, |parser, i| {
                parser.config.max_non_split_rounding_bytes = parser.at_least_a_segment(name, i)?;
                Ok(())
            }),
            "garbage_collection_threshold" => self.value(key, Self::garbage_collection_threshold),
            "roundup_power2_divisions" => {
                roundup::parse(&mut self.cursor, key, &mut self.config.roundup_power2_divisions)
            }
            "expandable_segments" => self.flag(key, |config| &mut config.expandable_segments),
            "release_lock_on_cudamalloc" | "release_lock_on_hipmalloc" => {
                self.flag(key, |config| &mut config.release_lock_on_cudamalloc)
            }
            "graph_capture_record_stream_reuse" => {
                self.flag(key, |config| &mut config.graph_capture_record_stream_reuse)
            }
            "per_process_memory_fraction" => self.value(key, Self::per_process_memory_fraction),
            "backend" => self.value(key, Self::backend),
            "pinned_num_register_threads" => self.value(key, Self::pinned_num_register_threads),
            "pinned_reserve_segment_size_mb" => self.value(key, |parser, i| {
                let message = "Pinned reserve segment size has to be greater than 0";
                match parser.cursor.whole(i)? {
                    0 => Err(parser.cursor.invalid(i, message, "write a size in MiB".to_owned())),
                    _ => Ok(()),
                }
            }),
            "pinned_max_round_threshold_mb" | "pinned_max_cached_size_mb" => {
                self.value(key, |parser, i| parser.cursor.whole(i).map(drop))
            }
            "throw_on_cudamalloc_oom" => {
                self.flag(key, |config| &mut config.throw_on_cudamalloc_oom)
            }
            "expandable_segments_reserve" => self.value(key, Self::segment_reserve),
            "expandable_segments_reserve_by_class" => self.reserve_by_class(key),
            // The rest are switches of PyTorch's pinned host memory, which stays PyTorch's own.
            _ => self.value(key, |parser, i| parser.cursor.boolean(i).map(drop)),
        }
    }

    /// Steps from a key over its colon and reads the value there.
    fn value(
        &mut self,
        key: usize,
        read: impl FnOnce(&mut Self, usize) -> Result<()>,
    ) -> Result<usize> {
        self.cursor.separator(key + 1, ":")?;
        read(self, key + 2)?;
        Ok(key + 2)
    }

    fn flag(&mut self, key: usize, field: impl FnOnce(&mut Config) -> &mut bool) -> Result<usize> {
        self.value(key, |parser, i| {
            *field(&mut parser.config) = parser.cursor.boolean(i)?;
            Ok(())
        })
    }

    pub(super) fn warn_no_effect(&mut self, key: usize, name: &str) {
        self.cursor.warn(key, format!("{name} has no effect in vramtape"));
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;

    fn warnings(text: &str) -> Vec<String> {
        let parsed = Config::parse(text, Compat::V2_15).unwrap();
        parsed.warnings.into_iter().map(|w| format!("{}: {}", w.place.at + 1, w.message)).collect()
    }

    #[test]
    fn input_that_pytorch_ignores_is_warned_of_once_with_its_place() {
        for (text, expected) in [
            ("max_split_size_mb,100", "18: \",\" stands where \":\" belongs and is read as it"),
            ("max_split_size_mb:64;", "19: \"64;\" is read as \"64\""),
            ("max_split_size_mb:1 00", "19: white space is ignored, this reads \"100\""),
            ("large_segment_size_mb:-1", "23: a negative number is read as 18446744073709551615"),
            (
                "expandable_segments:True,expandable_segments:False",
                "26: expandable_segments is given twice, the last one counts",
            ),
            (
                "expandable_segments_reserve:40GB",
                "29: Ignoring invalid expandable-segment reserve value '40GB'",
            ),
            ("backend:cudaMallocAsync", "9: backend:cudaMallocAsync has no effect: vramtape is"),
            ("roundup_power2_divisions:9223372036854775808", "26: 9223372036854775808 divisions"),
        ] {
            let found = warnings(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with(expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_string_without_mistakes_is_not_warned_of() {
        let text = "max_split_size_mb: 128, expandable_segments:False, \
                    roundup_power2_divisions:[64:8,>:1], pinned_num_register_threads:8";
        assert_eq!(warnings(text), [""; 0]);
    }

    #[test]
    fn a_refused_string_has_its_place_and_a_remedy() {
        let error = Config::parse("expandable_segments:True,max_split_size_mb:5", Compat::V2_11);
        assert_eq!(
            error.unwrap_err().to_string(),
            "CachingAllocator option max_split_size_mb too small, must be >= 20 (got 5) \
             (at PYTORCH_CUDA_ALLOC_CONF character 44 of \
             \"expandable_segments:True,max_split_size_mb:5\"): \
             write 20 or more: large_segment_size_mb is the lower limit"
        );
    }
}
