//! The messages of one fixed text each: one row a text, found by an anchor in it.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::fields::Fields;
use super::grammar::compile;
use super::pytorch::window;

/// Which of the rules judge a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rules {
    /// Of a device with a capacity.
    General,
    /// Host memory: no device's numbers.
    Host,
    /// A share of a device that an engine wants at its start.
    Startup,
    /// A budget that the cache of one request exceeds, in bytes.
    Cache,
    /// The same in tokens.
    CacheTokens,
    /// A limit of the process: MPS.
    ProcessLimit,
    /// A limit of a pool.
    PoolLimit,
}

/// A message in a window of squashed text.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) framework: &'static str,
    pub(super) generation: &'static str,
    pub(super) rules: Rules,
    pub(super) fields: Fields,
}

/// A message's text.
struct Pattern {
    anchor: &'static str,
    framework: &'static str,
    generation: &'static str,
    rules: Rules,
    /// Squashed bytes before the anchor at which it may begin.
    back: usize,
    text: &'static str,
}

/// Squashed bytes of a text after its anchor.
const LONGEST: usize = 600;

const fn row(
    anchor: &'static str,
    framework: &'static str,
    generation: &'static str,
    rules: Rules,
    back: usize,
    text: &'static str,
) -> Pattern {
    Pattern { anchor, framework, generation, rules, back, text }
}

/// The first row of an anchor that matches counts. Where an anchor begins another one, the longer is first.
const PATTERNS: &[Pattern] = &[
    row(
        "mpsbackendoutofmemory",
        "pytorch-mps",
        "mps",
        Rules::ProcessLimit,
        0,
        r"mpsbackendoutofmemory\(mpsallocated:?{allocated}(?:,otherallocations:{others})?(?:,maxallowed:{allowed})?
        (?:.{0,8}?triedtoallocate{requested})?",
    ),
    // cudaMallocAsync.
    row(
        "wouldexceedallowedmemory",
        "pytorch-cuda",
        "cudaMallocAsync",
        Rules::General,
        40,
        r"allocationondevice{device#}?wouldexceedallowedmemory(?:.{0,60}?currentlyallocated:{allocated})?
        (?:.{0,24}?requested:{requested})?(?:.{0,24}?devicelimit:{capacity})?(?:.{0,24}?free\([a-z]*\):{free})?
        (?:.{0,24}?pytorchlimit\([a-z]*\).{0,24}?:{allowed})?",
    ),
    row(
        "memoryallocationfailedwithoom",
        "pytorch-cuda",
        "2.12+ warning",
        Rules::General,
        0,
        r"memoryallocationfailedwithoomondevice{device#}whiletryingtoallocate{requested}
        (?:\(free:{free#},total:{capacity#}\))?",
    ),
    row(
        "youtriedtoallocate",
        "pytorch-cpu",
        "host",
        Rules::Host,
        160,
        r"(?:(?:enforcefail|defaultcpuallocator|torch).{0,140}?)?youtriedtoallocate{requested}",
    ),
    row(
        "unabletoallocate",
        "numpy",
        "host",
        Rules::Host,
        0,
        r"unabletoallocate{requested}foranarray",
    ),
    row(
        "unabletoallocatearray",
        "numpy",
        "host",
        Rules::Host,
        0,
        r"unabletoallocatearraywithshape",
    ),
    // vLLM.
    row(
        "freememoryondevice",
        "vllm",
        "startup",
        Rules::Startup,
        0,
        r"freememoryondevice(?:[a-z]*:{device#})?\({free_number#}/{capacity}\)onstartup
        (?:islessthandesiredgpumemoryutilization(?:\([0-9.]+,{requested}\))?)?",
    ),
    row(
        "kvcacheisneeded",
        "vllm",
        "kv-cache",
        Rules::Cache,
        60,
        r"{requested}kvcacheisneeded(?:,whichislargerthantheavailablekvcachememory\(?{free})?",
    ),
    row(
        "noavailablememoryforthecacheblocks",
        "vllm",
        "kv-cache",
        Rules::Cache,
        0,
        "noavailablememoryforthecacheblocks",
    ),
    row(
        "thanthemaximumnumberoftokensthatcanbestored",
        "vllm",
        "kv-cache",
        Rules::CacheTokens,
        60,
        r"(?:maxseqlen\([0-9]+\)islarger)?thanthemaximumnumberoftokensthatcanbestoredinkvcache",
    ),
    // XLA: JAX, and TensorFlow since it compiles.
    row(
        "outofmemorywhiletryingtoallocate",
        "jax",
        "request-only",
        Rules::General,
        0,
        r"outofmemorywhiletryingtoallocate{requested}(?:\({exact}\))?",
    ),
    row(
        "failedtoallocaterequestfor",
        "jax",
        "request-only",
        Rules::General,
        0,
        r"failedtoallocaterequestfor{requested}(?:\({exact}\))?(?:ondeviceordinal{device#})?",
    ),
    row(
        "thatwasnotpossible.thereare",
        "jax",
        "tpu",
        Rules::General,
        80,
        r"attemptingto(?:allocate|reserve){requested}.{0,40}?thatwasnotpossible.thereare{free}",
    ),
    row(
        "ranoutofmemoryinmemoryspacehbm",
        "jax",
        "tpu",
        Rules::General,
        0,
        r"ranoutofmemoryinmemoryspacehbm.{0,24}?used{requested}of{capacity}",
    ),
    row(
        "wouldexceedmemory",
        "jax",
        "tpu",
        Rules::General,
        60,
        r"allocation\(size={requested#}\)wouldexceedmemory\(size={capacity#}\)",
    ),
    // TensorFlow.
    row(
        "oomwhenallocatingtensor",
        "tensorflow",
        "host",
        Rules::Host,
        0,
        r"oomwhenallocatingtensor.{0,200}?(?:device:cpu:[0-9]+|byallocator(?:cpu|mklcpu|gpuhost|cudahost))[a-z0-9]*",
    ),
    row(
        "oomwhenallocatingtensor",
        "tensorflow",
        "shape-only",
        Rules::General,
        0,
        r"oomwhenallocatingtensor
        (?:withshape\[[0-9,]*\](?:andtype[a-z0-9]*on/[a-z0-9:/]{0,100}?device:gpu:{device#})?)?",
    ),
    row(
        "ranoutofmemorytryingtoallocate",
        "tensorflow",
        "request-only",
        Rules::General,
        40,
        r"(?:allocator\((?:gpu{device#})?[a-z0-9]*\))?ranoutofmemorytryingtoallocate{requested}
        (?:\(roundedto{exact#}\))?",
    ),
    row(
        "fromdevice:cudaerroroutofmemory",
        "tensorflow",
        "request-only",
        Rules::General,
        80,
        r"failedtoallocate{requested}(?:\({exact}\))?fromdevice:cudaerroroutofmemory",
    ),
    row(
        "bytesonhost",
        "tensorflow",
        "host",
        Rules::Host,
        60,
        r"failedtoalloc(?:ate)?{requested}onhost",
    ),
    // CuPy.
    row(
        "outofmemoryallocating",
        "cupy",
        "pool",
        Rules::PoolLimit,
        0,
        r"outofmemoryallocating{requested}\(allocatedsofar:{allocated}(?:,limitsetto:{allowed})?",
    ),
    row(
        "outofmemoryallocating",
        "jax",
        "request-only",
        Rules::General,
        0,
        r"outofmemoryallocating{requested}",
    ),
    row(
        "outofmemorytoallocate",
        "cupy",
        "pool",
        Rules::PoolLimit,
        0,
        r"outofmemorytoallocate{requested}(?:\(total{allocated}\))?",
    ),
    // RMM.
    row(
        "maximumpoolsizeexceeded",
        "rmm",
        "pool",
        Rules::PoolLimit,
        160,
        r"(?:rmmfailure.{0,140}?)?maximumpoolsizeexceeded(?:\(failedtoallocate{requested}\))?
        (?:.{0,60}?current/max/trysize={reserved},{allowed},)?",
    ),
    row(
        "cudaerror(failedtoallocate",
        "rmm",
        "driver",
        Rules::General,
        0,
        r"cudaerror\(failedtoallocate{requested}\)",
    ),
    row(
        "exceededmemorylimit(failedtoallocate",
        "rmm",
        "limit",
        Rules::PoolLimit,
        0,
        r"exceededmemorylimit\(failedtoallocate{requested}\)",
    ),
    // ggml.
    row(
        "cudamallocfailed:outofmemory",
        "llama.cpp",
        "request-only",
        Rules::General,
        120,
        r"allocating{requested}ondevice{device#}:.{0,8}?cudamallocfailed:outofmemory",
    ),
    row(
        "cudamallocfailed:outofmemory",
        "llama.cpp",
        "request-only",
        Rules::General,
        0,
        r"cudamallocfailed:outofmemory.{0,40}?failedtoallocate(?:[a-z]+{device#})?bufferofsize{requested#}",
    ),
    row(
        "devicememoryallocationofsize",
        "llama.cpp",
        "request-only",
        Rules::General,
        0,
        r"devicememoryallocationofsize{requested#}failed",
    ),
    // Others.
    row(
        "outofgpumemorytryingtoallocate",
        "julia",
        "no-allocated",
        Rules::General,
        0,
        r"outofgpumemorytryingtoallocate{requested}(?:effectivegpumemoryusage:[0-9.]+\([^/)]{0,20}/{capacity}\))?",
    ),
    row(
        "outofmemoryerrorongpu",
        "paddle",
        "no-capacity",
        Rules::General,
        0,
        r"outofmemoryerrorongpu{device#}.{0,4}?cannotallocate{requested}memoryongpu[0-9]+
        (?:,{allocated}memoryhasbeenallocatedandavailablememoryisonly{free})?",
    ),
    row(
        "memoryforrequestedbufferofsize",
        "onnxruntime",
        "request-only",
        Rules::General,
        0,
        r"memoryforrequestedbufferofsize{requested#}",
    ),
];

static COMPILED: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PATTERNS.iter().map(|pattern| compile(pattern.text)).collect());

/// The anchors of all rows.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    PATTERNS.iter().map(|pattern| pattern.anchor)
}

/// The message at an anchor.
pub(super) fn parse(text: &[u8], anchor: usize, words: &[u8]) -> Option<Candidate> {
    let rows = PATTERNS.iter().zip(&*COMPILED);
    rows.filter(|(pattern, _)| pattern.anchor.as_bytes() == words).find_map(|(pattern, regex)| {
        let from = anchor.saturating_sub(pattern.back);
        let part = window(text, from, pattern.back + LONGEST);
        let groups = regex.captures(part)?;
        let found = groups.get(0)?;
        // The text around this anchor, not around a later one.
        if from + found.start() > anchor {
            return None;
        }
        let mut fields = Fields::default();
        fields.take(&groups);
        Some(Candidate {
            start: from + found.start(),
            end: from + found.end(),
            framework: pattern.framework,
            generation: pattern.generation,
            rules: pattern.rules,
            fields,
        })
    })
}
