//! The keys of each PyTorch version and ours, and the error for an unknown one.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Compat;

/// Which of PyTorch's two parsers reads a key. Each skips the keys of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// c10's `AcceleratorAllocatorConfig`, first.
    Common,
    /// `CUDAAllocatorConfig`, second.
    Cuda,
}

/// A key of PyTorch's settings.
#[derive(Debug)]
pub(super) struct Key {
    /// Its name.
    pub name: &'static str,
    /// The program that reads it.
    pub reader: Reader,
    /// The first PyTorch of the two that has it.
    pub since: Compat,
}

impl Key {
    /// The key called `name`, where that PyTorch has it.
    pub(super) fn find(name: &str, compat: Compat) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name && key.is_in(compat))
    }

    fn is_in(&self, compat: Compat) -> bool {
        self.since == Compat::V2_11 || compat == Compat::V2_15
    }
}

const fn key(name: &'static str, reader: Reader, since: Compat) -> Key {
    Key { name, reader, since }
}

const KEYS: [Key; 22] = {
    use Compat::{V2_11, V2_15};
    use Reader::{Common, Cuda};
    [
        key("large_segment_size_mb", Common, V2_11),
        key("max_split_size_mb", Common, V2_11),
        key("max_non_split_rounding_mb", Common, V2_11),
        key("garbage_collection_threshold", Common, V2_11),
        key("roundup_power2_divisions", Common, V2_11),
        key("expandable_segments", Common, V2_11),
        key("pinned_use_background_threads", Common, V2_11),
        key("pinned_max_round_threshold_mb", Common, V2_15),
        key("pinned_max_cached_size_mb", Common, V2_15),
        key("backend", Cuda, V2_11),
        key("release_lock_on_cudamalloc", Cuda, V2_11),
        key("release_lock_on_hipmalloc", Cuda, V2_11),
        key("pinned_use_cuda_host_register", Cuda, V2_11),
        key("pinned_use_hip_host_register", Cuda, V2_11),
        key("graph_capture_record_stream_reuse", Cuda, V2_11),
        key("pinned_reserve_segment_size_mb", Cuda, V2_11),
        key("pinned_num_register_threads", Cuda, V2_11),
        key("per_process_memory_fraction", Cuda, V2_11),
        key("pinned_free_catch_all", Cuda, V2_15),
        key("throw_on_cudamalloc_oom", Cuda, V2_15),
        key("expandable_segments_reserve", Cuda, V2_15),
        key("expandable_segments_reserve_by_class", Cuda, V2_15),
    ]
};

/// The keys of `VRAMTAPE_CONF`, in the order of the documentation.
pub(super) const OUR_KEYS: [&str; 20] = [
    "route",
    "strategy",
    "address_budget",
    "placement_memory",
    "stream_sharing",
    "plan",
    "compat",
    "record",
    "tape",
    "tape_max",
    "tape_replace",
    "ring_events",
    "stacks",
    "stacks_every",
    "stacks_native",
    "marks",
    "command",
    "device",
    "oom_dir",
    "search_after_flush",
];

/// Whether any PyTorch has this key.
pub(super) fn is_pytorchs(name: &str) -> bool {
    KEYS.iter().any(|key| key.name == name)
}

/// The remedy for a key that this PyTorch does not have.
pub(super) fn advice_for_unknown(name: &str, compat: Compat) -> String {
    if OUR_KEYS.contains(&name) {
        return format!("{name} is a setting of vramtape: put it into VRAMTAPE_CONF");
    }
    if is_pytorchs(name) {
        return format!("PyTorch 2.15 has {name}, PyTorch 2.11 does not: remove it");
    }
    if matches!(name, "," | ":" | "[" | "]") {
        return "a key belongs here; write key:value,key:value".to_owned();
    }
    if name.contains('=') {
        return "write key:value with a colon".to_owned();
    }
    let known = KEYS.iter().filter(|key| key.is_in(compat)).map(|key| key.name);
    match nearest(name, known.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the keys are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// The entry of `known` that `name` is probably a typo of, ignoring case.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    known
        .map(|candidate| (edits(&name, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= candidate.len() / 4)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, removals and replacements between two names; names longer than any key are far from
/// all.
fn edits(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_from_its_version_on() {
        assert!(Key::find("expandable_segments", Compat::V2_11).is_some());
        assert!(Key::find("throw_on_cudamalloc_oom", Compat::V2_11).is_none());
        assert!(Key::find("throw_on_cudamalloc_oom", Compat::V2_15).is_some());
    }

    #[test]
    fn an_unknown_key_gets_the_advice_that_fits() {
        let advice = |name| advice_for_unknown(name, Compat::V2_11);
        assert_eq!(advice("Max_Split_Size_MB"), "did you mean max_split_size_mb?");
        assert_eq!(advice("expandable_segment"), "did you mean expandable_segments?");
        assert_eq!(advice("max_split_size_mb=100"), "write key:value with a colon");
        assert!(advice("throw_on_cudamalloc_oom").contains("2.11 does not"));
        assert!(advice("strategy").contains("VRAMTAPE_CONF"));
        assert!(advice("foo").starts_with("the keys are large_segment_size_mb, "));
        assert!(!advice("foo").contains("throw_on_cudamalloc_oom"));
    }
}
