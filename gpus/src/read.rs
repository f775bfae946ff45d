//! Reading and checking `gpus.toml`, and a user's file for one GPU.

use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::{Capability, Context, Gpu};

const PRESETS: &str = include_str!("../gpus.toml");
/// A user's file has about 500 bytes.
const FILE_MAX_BYTES: u64 = 64 << 10;
/// The range of the simulated driver.
const MEMORY_RANGE_BYTES: RangeInclusive<f64> = (2 << 20) as f64..=(1_u64 << 40) as f64;
const NAME_MAX_BYTES: usize = 200;

/// A file that does not describe a GPU.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}; docs/gpus.md has an example")]
pub struct GpuFileError {
    file: String,
    problem: String,
}

impl Gpu {
    /// Reads the file of one GPU.
    ///
    /// # Errors
    /// The file, and the line or the field that is wrong.
    pub fn from_file(path: &Path) -> Result<Self, GpuFileError> {
        let file = path.display().to_string();
        match text_of(path) {
            Ok(text) => Self::from_toml(&file, &text),
            Err(error) => Err(GpuFileError { file, problem: format!("cannot be read: {error}") }),
        }
    }

    /// Reads the text of a file of one GPU.
    ///
    /// # Errors
    /// `file`, and the line or the field that is wrong.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, GpuFileError> {
        let read = || {
            let record: GpuRecord = parsed(text)?;
            let mut gpu = record.checked(&KNOWN.capability)?;
            if gpu.memory_source.is_empty() {
                file.clone_into(&mut gpu.memory_source);
            }
            Ok(gpu)
        };
        read().map_err(|problem| GpuFileError { file: file.to_owned(), problem })
    }
}

/// The GPUs of `gpus.toml`.
pub(crate) fn presets() -> Vec<Gpu> {
    let gpus = KNOWN.gpu.iter().map(|record| record.clone().checked(&KNOWN.capability));
    gpus.collect::<Result<_, _>>().expect("gpus.toml is tested")
}

static KNOWN: LazyLock<Presets> = LazyLock::new(|| parsed(PRESETS).expect("gpus.toml is tested"));

/// `gpus.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Presets {
    capability: Vec<CapabilityRecord>,
    gpu: Vec<GpuRecord>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CapabilityRecord {
    number: String,
    max_threads_per_multiprocessor: u32,
    max_blocks_per_multiprocessor: u32,
    registers_per_multiprocessor: u32,
    shared_per_multiprocessor_kib: u32,
    shared_per_block_optin_kib: u32,
    shared_reserved_kib: u32,
    context: Context,
}

/// One GPU as a file has it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuRecord {
    name: String,
    product: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    memory_gib: f64,
    #[serde(default)]
    memory_source: String,
    capability: String,
    multiprocessors: u32,
    l2_kib: u32,
    clock_mhz: u32,
    memory_clock_mhz: u32,
    memory_bus_bits: u32,
    #[serde(default)]
    source: String,
    context: Option<Context>,
}

impl GpuRecord {
    /// The GPU, or the field that is wrong and its remedy.
    fn checked(self, known: &[CapabilityRecord]) -> Result<Gpu, String> {
        let product = self.product.unwrap_or_else(|| self.name.clone());
        for (field, text) in [("name", &self.name), ("product", &product)] {
            if text.trim().is_empty()
                || text.len() > NAME_MAX_BYTES
                || text.contains(char::is_control)
            {
                return Err(format!("`{field}`: write 1 to {NAME_MAX_BYTES} bytes of one line"));
            }
        }
        for (field, number, largest) in [
            ("multiprocessors", self.multiprocessors, 1024),
            ("l2_kib", self.l2_kib, 1 << 20),
            ("clock_mhz", self.clock_mhz, 100_000),
            ("memory_clock_mhz", self.memory_clock_mhz, 100_000),
            ("memory_bus_bits", self.memory_bus_bits, 1 << 16),
        ] {
            if !(1..=largest).contains(&number) {
                return Err(format!("`{field}` is {number}: write 1 to {largest}"));
            }
        }
        let memory_bytes = self.memory_gib * (1_u64 << 30) as f64;
        if !MEMORY_RANGE_BYTES.contains(&memory_bytes) {
            return Err(format!("`memory_gib` is {}: write 0.002 to 1024", self.memory_gib));
        }
        let Some(limits) = known.iter().find(|known| known.number == self.capability) else {
            let numbers: Vec<_> = known.iter().map(|known| known.number.as_str()).collect();
            let numbers = numbers.join(", ");
            return Err(format!("`capability` is {}: write one of {numbers}", self.capability));
        };
        let context = self.context.unwrap_or_else(|| limits.context.clone());
        let in_order = context.lower_bytes <= context.expected_bytes
            && context.expected_bytes <= context.upper_bytes
            && context.upper_bytes < memory_bytes as u64;
        if !in_order {
            return Err(
                "`context`: write lower_bytes <= expected_bytes <= upper_bytes, below the memory"
                    .to_owned(),
            );
        }
        Ok(Gpu {
            capability: limits.checked()?,
            name: self.name,
            product,
            aliases: self.aliases,
            memory_bytes: memory_bytes as u64,
            memory_source: self.memory_source,
            multiprocessors: self.multiprocessors,
            l2_bytes: u64::from(self.l2_kib) << 10,
            clock_mhz: self.clock_mhz,
            memory_clock_mhz: self.memory_clock_mhz,
            memory_bus_bits: self.memory_bus_bits,
            source: self.source,
            context,
        })
    }
}

impl CapabilityRecord {
    fn checked(&self) -> Result<Capability, String> {
        let number = self.number.split_once('.');
        let number =
            number.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) =
            number.ok_or_else(|| format!("`number` is {}: write 9.0", self.number))?;
        Ok(Capability {
            major,
            minor,
            max_threads: self.max_threads_per_multiprocessor,
            max_blocks: self.max_blocks_per_multiprocessor,
            registers: self.registers_per_multiprocessor,
            shared_bytes: self.shared_per_multiprocessor_kib << 10,
            shared_per_block_optin_bytes: self.shared_per_block_optin_kib << 10,
            shared_reserved_bytes: self.shared_reserved_kib << 10,
        })
    }
}

/// The value of a text, or the line and its fault.
fn parsed<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let fault = error.message().trim_end().replace('\n', ", ");
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        // A missing field has the span of the whole text.
        if before.is_empty() {
            return fault;
        }
        format!("line {}: {fault}", before.matches('\n').count() + 1)
    })
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(io::Error::other("it is larger than 64 KiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: &str = r#"
name = "lab-gpu"
memory_gib = 24
capability = "8.9"
multiprocessors = 64
l2_kib = 32768
clock_mhz = 2000
memory_clock_mhz = 9000
memory_bus_bits = 256
"#;

    #[test]
    fn a_file_has_the_limits_and_the_context_of_its_compute_capability() {
        let gpu = Gpu::from_toml("own.toml", OWN).unwrap();
        let l40s = crate::find("l40s").unwrap();
        assert_eq!((gpu.product.as_str(), gpu.memory_bytes), ("lab-gpu", 24 << 30));
        assert_eq!((gpu.capability, &gpu.context), (l40s.capability, &l40s.context));
        assert_eq!(gpu.memory_source, "own.toml");
    }

    #[test]
    fn a_file_may_have_a_context_of_its_own() {
        let context = "[context]\nlower_bytes = 1\nexpected_bytes = 2\nupper_bytes = 3\nsource = \"measured\"\n";
        let gpu = Gpu::from_toml("own.toml", &format!("{OWN}{context}")).unwrap();
        assert_eq!(gpu.context.expected_bytes, 2);
    }

    #[test]
    fn a_wrong_field_is_named_with_its_file_and_the_remedy() {
        let order =
            "[context]\nlower_bytes = 3\nexpected_bytes = 2\nupper_bytes = 3\nsource = \"\"\n";
        for (line, instead, words) in [
            (
                "multiprocessors = 64",
                "multiprocessors = 0",
                "`multiprocessors` is 0: write 1 to 1024",
            ),
            ("multiprocessors = 64", "", "missing field `multiprocessors`"),
            ("multiprocessors = 64", "multiprocessors = -1", "line 5: invalid value"),
            ("multiprocessors = 64", "sms = 64", "line 5: unknown field `sms`"),
            ("memory_gib = 24", "memory_gib = 2000", "`memory_gib` is 2000: write 0.002 to 1024"),
            ("memory_gib = 24", "memory_gib = nan", "`memory_gib` is NaN: write"),
            ("memory_gib = 24", "memory_gib = 0.01", "`context`: write lower_bytes <= "),
            ("memory_gib = 24", "memory_gib = \"24GB\"", "line 3: invalid type: string"),
            (
                "capability = \"8.9\"",
                "capability = \"6.1\"",
                "`capability` is 6.1: write one of 7.0, 7.5, ",
            ),
            ("name = \"lab-gpu\"", "name = \" \"", "`name`: write 1 to 200 bytes of one line"),
            ("name = \"lab-gpu\"", "name = ", "line 2: "),
            (
                "memory_bus_bits = 256",
                &format!("memory_bus_bits = 256\n{order}"),
                "`context`: write",
            ),
        ] {
            let text = OWN.replace(line, instead);
            let error = Gpu::from_toml("own.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with("own.toml: ") && error.contains(words), "{error}");
            assert!(error.ends_with("; docs/gpus.md has an example"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.toml");
        std::fs::write(&large, vec![b' '; 70_000]).unwrap();
        let binary = folder.path().join("binary.toml");
        std::fs::write(&binary, b"\xff").unwrap();
        let devices = Path::new("/dev/zero");
        for path in [folder.path(), &large, &binary, &folder.path().join("none.toml"), devices] {
            let error = Gpu::from_file(path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC*", at in 0..OWN.len(), change in ".{0,3}") {
            let _ = Gpu::from_toml("any.toml", &text);
            let (before, after) = OWN.split_at(at);
            let _ = Gpu::from_toml("any.toml", &format!("{before}{change}{}", after.get(1..).unwrap_or_default()));
        }
    }
}
