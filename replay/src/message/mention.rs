//! Messages without numbers: the words of an error, and around them the name of the library that printed it.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexSet};

use super::fields::Fields;
use super::grammar::compile;
use super::patterns::{Candidate, Rules};
use super::pytorch::{contains, window};

/// The words of such errors.
pub(super) const ANCHORS: [&str; 9] = [
    "outofmemory",
    "cudaerrormemoryallocation",
    "statusallocfailed",
    "resourceexhausted",
    "badalloc",
    "oomkill",
    "cannotallocatememory",
    "outofdevicememory",
    "outofhostmemory",
];

/// The generation of all of them.
pub(super) const GENERATION: &str = "no-numbers";

/// Squashed bytes before and after the words, of the same line, in which a name counts.
pub(super) const AROUND: usize = 160;
/// Squashed bytes after the words in which ggml names the device.
const DEVICE: usize = 40;

/// Words around the error, the program or library, and whether the memory is the host's. The first row counts.
const NAMES: [(&[&str], &str, Rules); 17] = [
    (
        &["mallochost", "hostalloc", "allochost", "hostregister", "pinnedmemory", "pinmemory"],
        "cuda-error",
        Rules::Host,
    ),
    (&["outofhostmemory"], "driver", Rules::Host),
    (&["nccl"], "nccl", Rules::General),
    (&["cublas", "cudnn", "cusolver", "cusparse", "cufft"], "cublas", Rules::General),
    (&["java.lang"], "jvm", Rules::Host),
    (
        &["oomkill", "killedprocess", "cannotallocatememory", "slurm", "srun:"],
        "system",
        Rules::Host,
    ),
    (&["badalloc:", "rmm::", "/rmm/"], "rmm", Rules::General),
    (&["badalloc"], "c++", Rules::Host),
    (&["cupy"], "cupy", Rules::General),
    (&["tensorflow"], "tensorflow", Rules::General),
    (&["resourceexhausted", "xlaruntime"], "jax", Rules::General),
    (&["cudaruntimeerror(2)"], "pytorch-cuda", Rules::General),
    (&["cudaoutofmemory"], "pytorch-cuda", Rules::General),
    (&["hipoutofmemory"], "pytorch-hip", Rules::General),
    (&["xpuoutofmemory", "outofdevicememory"], "pytorch-xpu", Rules::General),
    (&["hiperror"], "hip-error", Rules::General),
    (&["cuda"], "cuda-error", Rules::General),
];

/// The name of errors around which is none.
const UNNAMED: &str = "unrecognized";

/// The rows of [`NAMES`], searched together.
static AROUND_WORDS: LazyLock<RegexSet> = LazyLock::new(|| {
    let row = |(words, ..): &(&[&str], &str, Rules)| {
        let words: Vec<String> = words.iter().map(|words| regex::escape(words)).collect();
        words.join("|")
    };
    RegexSet::new(NAMES.iter().map(row)).expect("literals compile")
});

static CURRENT_DEVICE: LazyLock<Regex> = LazyLock::new(|| compile(r"currentdevice:{device#}"));

/// Whether the words after `before` are an error's, and not PyTorch's advice to search for one.
pub(super) fn is_error(words: &[u8], before: &[u8]) -> bool {
    let is_known = |known: &str| contains(words, known.as_bytes());
    ANCHORS.iter().any(|known| is_known(known)) && !before.ends_with(b"searchfor")
}

/// The error whose words are at `start..end`, on the line `line`.
pub(super) fn parse(text: &[u8], (start, end): (usize, usize), line: &[u8]) -> Candidate {
    let named = AROUND_WORDS.matches(line).iter().next().map(|row| NAMES[row]);
    let (framework, rules) = named.map_or((UNNAMED, Rules::General), |row| (row.1, row.2));
    let mut fields = Fields::default();
    if let Some(groups) = CURRENT_DEVICE.captures(window(text, end, DEVICE)) {
        fields.take(&groups);
    }
    Candidate { start, end, framework, generation: GENERATION, rules, fields }
}

/// Whether an error on the line beside a message is a part of it: its library is the message's, or below that.
pub(super) fn belongs(error: &Candidate, framework: &str) -> bool {
    let is_pytorch = |name: &str| name.starts_with("pytorch");
    error.framework == framework
        || matches!(error.framework, UNNAMED | "cuda-error" | "jax")
        || (is_pytorch(error.framework) && is_pytorch(framework))
}

/// How much a name says: an error that several libraries report counts as the most specific one.
pub(super) fn rank(candidate: &Candidate) -> usize {
    let row = NAMES
        .iter()
        .position(|(_, name, rules)| (*name, *rules) == (candidate.framework, candidate.rules));
    row.unwrap_or(NAMES.len())
}
