//! A GPU by the names that people and drivers give it: `4090`, `A100-SXM4-80GB`, `NVIDIA GeForce RTX 4090`.

use crate::{Gpu, all};

/// Words of product names that do not decide how much memory a GPU has. `laptop`, `ti` and `d` do.
const SILENT: [&str; 14] = [
    "nvidia",
    "geforce",
    "tesla",
    "quadro",
    "gpu",
    "generation",
    "graphics",
    "edition",
    "blackwell",
    "workstation",
    "server",
    "max",
    "q",
    "pcie",
];

/// Suggestions for a name that is not known, at most.
const SUGGESTIONS_MAX: usize = 4;

/// The GPU of this name: one of the table, a short name, or a product name as `torch.cuda.get_device_name` prints it.
/// Upper case and lower case are the same, and punctuation does not count.
///
/// `a100` and `v100` come in two sizes: `a100` alone is the one with 80 GB, which is the usual one today, `v100` alone
/// the one with 16 GB.
pub fn find(name: &str) -> Option<&'static Gpu> {
    let words = words(name);
    if let Some(gpu) = exactly(&words.concat()) {
        return Some(gpu);
    }
    // A size behind the name of a GPU that comes in one size.
    let (size, rest) = words.split_last()?;
    let size_gb: u64 = size.strip_suffix("gb")?.parse().ok()?;
    exactly(&rest.concat()).filter(|gpu| gpu.has_about(size_gb))
}

/// The other size of a GPU whose name was given without one.
pub fn other_size(name: &str) -> Option<&'static Gpu> {
    match words(name).concat().as_str() {
        "a100" => exactly("a10040gb"),
        "v100" => exactly("v10032gb"),
        _ => None,
    }
}

/// Names that are close to one that is not known, the table's order; none where nothing is close.
pub fn suggest(name: &str) -> Vec<&'static str> {
    let asked = words(name).concat();
    let distance = |gpu: &Gpu| {
        let own = distance(&asked, &words(&gpu.name).concat());
        gpu.aliases.iter().map(|alias| self::distance(&asked, alias)).fold(own, usize::min)
    };
    let distances: Vec<_> = all().iter().map(|gpu| (distance(gpu), gpu.name.as_str())).collect();
    let least = distances.iter().map(|(distance, _)| *distance).min().unwrap_or(usize::MAX);
    if least > asked.len() / 2 {
        return Vec::new();
    }
    let close = distances.into_iter().filter(|(distance, _)| *distance == least);
    close.map(|(_, name)| name).take(SUGGESTIONS_MAX).collect()
}

fn exactly(key: &str) -> Option<&'static Gpu> {
    let aliased = all().iter().find(|gpu| gpu.aliases.iter().any(|alias| alias == key));
    aliased.or_else(|| all().iter().find(|gpu| words(&gpu.name).concat() == key))
}

/// The words of a name that decide: lower case, sizes as `80gb`.
fn words(name: &str) -> Vec<String> {
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut decisive: Vec<String> = Vec::new();
    for word in words {
        let is_bus = ["sxm", "hbm"].iter().any(|bus| {
            word.strip_prefix(bus).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
        });
        if is_bus || SILENT.contains(&word) {
            continue;
        }
        let digits = word.trim_end_matches(|c: char| c.is_alphabetic());
        match &word[digits.len()..] {
            "g" | "gb" | "gib" if !digits.is_empty() && is_number(digits) => {
                decisive.push(format!("{digits}gb"));
            }
            // `80 GB`: the unit belongs to the number before it.
            "g" | "gb" | "gib"
                if digits.is_empty() && decisive.last().is_some_and(|w| is_number(w)) =>
            {
                let number = decisive.pop().unwrap_or_default();
                decisive.push(format!("{number}gb"));
            }
            _ => decisive.push(word.to_owned()),
        }
    }
    decisive
}

fn is_number(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_digit())
}

/// Letters to change, add or remove to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, known) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *known);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_found_by_each_name_that_people_and_drivers_give_it() {
        let expected = [
            ("4090", "rtx4090"),
            ("RTX 4090", "rtx4090"),
            ("rtx_4090", "rtx4090"),
            ("rtx-4090", "rtx4090"),
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("rtx4090 24GB", "rtx4090"),
            ("a100", "a100-80gb"),
            ("A100-80G", "a100-80gb"),
            ("a100 80 GB", "a100-80gb"),
            ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
            ("NVIDIA A100 80GB PCIe", "a100-80gb"),
            ("NVIDIA A100-PCIE-40GB", "a100-40gb"),
            ("h100", "h100"),
            ("NVIDIA H100 80GB HBM3", "h100"),
            ("NVIDIA H100 PCIe", "h100"),
            ("h100-sxm", "h100"),
            ("NVIDIA H100 NVL", "h100-nvl"),
            ("l4", "l4"),
            ("NVIDIA L4", "l4"),
            ("L40S", "l40s"),
            ("a10g", "a10g"),
            ("a40", "a40"),
            ("a6000", "rtx-a6000"),
            ("NVIDIA RTX A6000", "rtx-a6000"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
            ("RTX PRO 6000", "rtx-pro-6000"),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
            ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000"),
            ("NVIDIA GB200", "gb200"),
            ("Tesla T4", "t4"),
            ("Tesla V100-SXM2-32GB", "v100-32gb"),
            ("v100", "v100-16gb"),
            ("rtx pro 5000 72GB", "rtx-pro-5000-72gb"),
        ];
        for (name, row) in expected {
            assert_eq!(find(name).map(|gpu| gpu.name.as_str()), Some(row), "{name}");
        }
        for gpu in all() {
            assert_eq!(find(&gpu.name.to_uppercase()), Some(gpu));
            assert_eq!(find(&gpu.product), Some(gpu), "{}", gpu.product);
            for alias in &gpu.aliases {
                assert_eq!(find(alias), Some(gpu), "{alias}");
            }
        }
    }

    #[test]
    fn another_gpu_of_a_similar_name_is_not_taken_for_it() {
        let others = [
            "NVIDIA GeForce RTX 4090 Laptop GPU",
            "NVIDIA GeForce RTX 4090 D",
            "RTX 3080 Ti",
            "RTX 6000",
            "NVIDIA RTX PRO 5000 Blackwell",
            "h100 96GB",
            "a100 20GB",
            "tpu",
            "",
        ];
        for name in others {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_not_known_gets_the_nearest_ones() {
        assert_eq!(suggest("a200"), ["b200", "h200", "a100-80gb"]);
        assert_eq!(suggest("rtx4080"), ["rtx4090", "rtx3080"]);
        assert_eq!(suggest("h10O"), ["h100"]);
        assert!(suggest("raspberry").is_empty());
    }

    #[test]
    fn a_name_without_its_size_has_another_size() {
        assert_eq!(other_size("A100").map(|gpu| gpu.name.as_str()), Some("a100-40gb"));
        assert_eq!(other_size("a100-80gb"), None);
    }
}
