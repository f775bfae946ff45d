//! Groupings: the ways in which lives are put together in the stack.
//!
//! The groups of a grouping are numbered from the bottom of the stack to its top, those whose bytes live longest
//! first: parameters lie below activations, activations below temporary memory.

use replay::modules::ModuleUse;
use trace_format::Category;

use crate::follow::{Followed, NO_END};
use crate::kinds::{Kind, LIFETIMES};

/// The meaning of a stack's height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quantity {
    Allocated,
    Reserved,
    /// Allocated bytes, those of private pools in envelopes.
    Envelope,
}

/// A grouping of a device's lives.
#[derive(Debug)]
pub(crate) struct Grouping {
    pub(crate) name: &'static str,
    pub(crate) quantity: Quantity,
    /// The labels of the groups, by number.
    pub(crate) labels: Vec<String>,
    /// The number of each kind's group.
    pub(crate) of_kind: Vec<u32>,
}

/// The texts that groupings are labelled with.
pub(crate) struct Texts<'t> {
    pub(crate) code: &'t [String],
    pub(crate) phases: Vec<&'t str>,
    pub(crate) modules: Vec<&'t str>,
}

const UNCATEGORIZED: &str = "other";

/// The groupings of a device, the first one for the first picture.
pub(crate) fn groupings(followed: &Followed, texts: &Texts<'_>) -> Vec<Grouping> {
    let mut made = Vec::new();
    let kinds = &followed.kinds;
    let weights = weights(followed);
    let mut add = |name, label: &dyn Fn(u32) -> String, of: &dyn Fn(&Kind) -> u32| {
        made.push(grouping(name, kinds, &weights, label, of));
    };
    if kinds.iter().any(|kind| kind.category.is_some()) {
        let place = |kind: &Kind| {
            Category::ALL
                .iter()
                .position(|it| Some(*it) == kind.category)
                .unwrap_or(Category::ALL.len())
        };
        add(
            "category",
            &|at| Category::ALL.get(at as usize).map_or(UNCATEGORIZED, |it| it.name()).to_owned(),
            &|kind| place(kind) as u32,
        );
    }
    add("code", &|at| texts.code[at as usize].clone(), &|kind| kind.code);
    if followed.phases.len() > 1 {
        add("phase", &|at| texts.phases[at as usize].to_owned(), &|kind| kind.phase);
    }
    if followed.modules.len() > 1 {
        add("module", &|at| texts.modules[at as usize].to_owned(), &|kind| kind.module);
        let place = |kind: &Kind| kind.module_use.map_or(ModuleUse::ALL.len(), |it| it as usize);
        add(
            "module use",
            &|at| ModuleUse::ALL.get(at as usize).map_or(UNCATEGORIZED, |it| it.name()).to_owned(),
            &|kind| place(kind) as u32,
        );
    }
    add("size", &size_label, &|kind| size_class(kind.size_bytes));
    add("lifetime", &|at| LIFETIMES[at as usize].to_owned(), &|kind| u32::from(kind.lifetime));
    add("stream", &|at| followed.streams[at as usize].to_string(), &|kind| kind.stream);
    add("pool", &|at| followed.pools[at as usize].to_string(), &|kind| kind.pool);
    made
}

/// Bytes of each kind's lives, and the same times their moments.
fn weights(followed: &Followed) -> Vec<(f64, f64)> {
    let mut weights = vec![(0.0, 0.0); followed.kinds.len()];
    for life in &followed.lives {
        let (bytes, byte_moments) = &mut weights[life.kind as usize];
        let size_bytes = followed.kinds[life.kind as usize].size_bytes as f64;
        let end = if life.end == NO_END { followed.moments } else { life.end };
        *bytes += size_bytes;
        *byte_moments += size_bytes * f64::from(end - life.start);
    }
    weights
}

fn grouping(
    name: &'static str,
    kinds: &[Kind],
    weights: &[(f64, f64)],
    label: &dyn Fn(u32) -> String,
    of: &dyn Fn(&Kind) -> u32,
) -> Grouping {
    let key = |kind: &Kind| of(kind) as usize;
    let keys = kinds.iter().map(key).max().map_or(0, |most| most + 1);
    let mut sums = vec![(0.0, 0.0); keys];
    for (kind, weight) in kinds.iter().zip(weights) {
        let (bytes, byte_moments) = &mut sums[key(kind)];
        *bytes += weight.0;
        *byte_moments += weight.1;
    }
    let mut order: Vec<usize> = (0..keys).filter(|key| sums[*key].0 > 0.0).collect();
    let mean = |key: usize| sums[key].1 / sums[key].0;
    order.sort_by(|a, b| mean(*b).total_cmp(&mean(*a)).then(a.cmp(b)));
    let mut number = vec![0; keys];
    for (at, key) in order.iter().enumerate() {
        number[*key] = at as u32;
    }
    Grouping {
        name,
        quantity: Quantity::Allocated,
        labels: order.iter().map(|key| label(*key as u32)).collect(),
        of_kind: kinds.iter().map(|kind| number[key(kind)]).collect(),
    }
}

/// Sizes up to 512 B, then up to each power of two.
fn size_class(size_bytes: u64) -> u32 {
    size_bytes.saturating_sub(1).checked_ilog2().map_or(0, |log| (log + 1).max(9) - 9)
}

fn size_label(class: u32) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let log = class + 9;
    format!("up to {} {}", 1u64 << (log % 10), UNITS[(log / 10) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_classes_of_two() {
        let label = |bytes| size_label(size_class(bytes));
        assert_eq!(label(1), "up to 512 B");
        assert_eq!(label(512), "up to 512 B");
        assert_eq!(label(513), "up to 1 KiB");
        assert_eq!(label(1 << 20), "up to 1 MiB");
        assert_eq!(label((3 << 30) + 1), "up to 4 GiB");
        assert_eq!(label(u64::MAX), "up to 16 EiB");
    }
}
