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

impl Pattern {
    fn compile(&self) -> Regex {
        let start = if self.back == 0 { r"\A" } else { "" };
        compile(&format!("{start}(?:{})", self.text))
    }
}

/// Squashed bytes of a text after its anchor.
const LONGEST: usize = 600;

/// Makes rows of `ANCHOR => FRAMEWORK, GENERATION, RULES, BACK; TEXT`.
macro_rules! table {
    ($($anchor:literal => $framework:literal, $generation:literal, $rules:ident, $back:literal; $text:literal,)*) => {
        &[$(Pattern {
            anchor: $anchor,
            framework: $framework,
            generation: $generation,
            rules: Rules::$rules,
            back: $back,
            text: $text,
        }),*]
    };
}

/// The first row of an anchor that matches counts. Where an anchor begins another one, the longer is first.
const PATTERNS: &[Pattern] = table! {
    "mpsbackendoutofmemory" => "pytorch-mps", "mps", ProcessLimit, 0;
        r"mpsbackendoutofmemory\(mpsallocated:?{allocated}(?:,otherallocations:{others})?(?:,maxallowed:{allowed})?
        (?:.{0,8}?triedtoallocate{requested})?",
    // cudaMallocAsync.
    "wouldexceedallowedmemory" => "pytorch-cuda", "cudaMallocAsync", General, 40;
        r"allocationondevice{device#}?wouldexceedallowedmemory(?:.{0,60}?currentlyallocated:{allocated})?
        (?:.{0,24}?requested:{requested})?(?:.{0,24}?devicelimit:{capacity})?(?:.{0,24}?free\([a-z]*\):{free})?
        (?:.{0,24}?pytorchlimit\([a-z]*\).{0,24}?:{allowed})?",
    "memoryallocationfailedwithoom" => "pytorch-cuda", "2.12+ warning", General, 0;
        r"memoryallocationfailedwithoomondevice{device#}whiletryingtoallocate{requested}
        (?:\(free:{free#},total:{capacity#}\))?",
    "youtriedtoallocate" => "pytorch-cpu", "host", Host, 0;
        "youtriedtoallocate{requested}",
    "unabletoallocate" => "numpy", "host", Host, 0;
        r"unabletoallocate{requested}foranarray",
    "unabletoallocatearray" => "numpy", "host", Host, 0;
        r"unabletoallocatearraywithshape",
    // vLLM.
    "freememoryondevice" => "vllm", "startup", Startup, 0;
        r"freememoryondevice(?:[a-z]*:{device#})?\({free_number#}/{capacity}\)onstartup
        (?:islessthandesiredgpumemoryutilization(?:\([0-9.]+,{requested}\))?)?",
    "kvcacheisneeded" => "vllm", "kv-cache", Cache, 60;
        r"{requested}kvcacheisneeded(?:,whichislargerthantheavailablekvcachememory\(?{free})?",
    "noavailablememoryforthecacheblocks" => "vllm", "kv-cache", Cache, 0;
        "noavailablememoryforthecacheblocks",
    "thanthemaximumnumberoftokensthatcanbestored" => "vllm", "kv-cache", CacheTokens, 60;
        r"(?:maxseqlen\([0-9]+\)islarger)?thanthemaximumnumberoftokensthatcanbestoredinkvcache",
    // XLA: JAX, and TensorFlow since it compiles.
    "outofmemorywhiletryingtoallocate" => "jax", "request-only", General, 0;
        r"outofmemorywhiletryingtoallocate{requested}(?:\({exact}\))?",
    "failedtoallocaterequestfor" => "jax", "request-only", General, 0;
        r"failedtoallocaterequestfor{requested}(?:\({exact}\))?(?:ondeviceordinal{device#})?",
    "thatwasnotpossible.thereare" => "jax", "tpu", General, 80;
        r"attemptingto(?:allocate|reserve){requested}.{0,40}?thatwasnotpossible.thereare{free}",
    "ranoutofmemoryinmemoryspacehbm" => "jax", "tpu", General, 0;
        r"ranoutofmemoryinmemoryspacehbm.{0,24}?used{requested}of{capacity}",
    "wouldexceedmemory" => "jax", "tpu", General, 60;
        r"allocation\(size={requested#}\)wouldexceedmemory\(size={capacity#}\)",
    // TensorFlow.
    "oomwhenallocatingtensor" => "tensorflow", "host", Host, 0;
        r"oomwhenallocatingtensorwithshape\[[0-9,]*\](?:andtype[a-z0-9]*)?on/[a-z0-9:/]{0,100}?
        (?:device:cpu:|byallocator(?:cpu|mklcpu|gpuhost|cudahost))",
    "oomwhenallocatingtensor" => "tensorflow", "shape-only", General, 0;
        r"oomwhenallocatingtensor
        (?:withshape\[[0-9,]*\](?:andtype[a-z0-9]*on/[a-z0-9:/]{0,100}?device:gpu:{device#})?)?",
    "ranoutofmemorytryingtoallocate" => "tensorflow", "request-only", General, 40;
        r"(?:allocator\((?:gpu{device#})?[a-z0-9]*\))?ranoutofmemorytryingtoallocate{requested}
        (?:\(roundedto{exact#}\))?",
    "fromdevice:cudaerroroutofmemory" => "tensorflow", "request-only", General, 80;
        r"failedtoallocate{requested}(?:\({exact}\))?fromdevice:cudaerroroutofmemory",
    "bytesonhost" => "tensorflow", "host", Host, 60;
        r"failedtoalloc(?:ate)?{requested}onhost",
    // CuPy.
    "outofmemoryallocating" => "cupy", "pool", PoolLimit, 0;
        r"outofmemoryallocating{requested}\(allocatedsofar:{allocated}(?:,limitsetto:{allowed})?",
    "outofmemoryallocating" => "jax", "request-only", General, 0;
        r"outofmemoryallocating{requested}",
    "outofmemorytoallocate" => "cupy", "pool", PoolLimit, 0;
        r"outofmemorytoallocate{requested}(?:\(total{allocated}\))?",
    // RMM.
    "maximumpoolsizeexceeded" => "rmm", "pool", PoolLimit, 0;
        r"maximumpoolsizeexceeded(?:\(failedtoallocate{requested}\))?
        (?:.{0,60}?current/max/trysize={reserved},{allowed},)?",
    "cudaerror(failedtoallocate" => "rmm", "driver", General, 0;
        r"cudaerror\(failedtoallocate{requested}\)(?:at:.{0,200}?cudaerrormemoryallocation(?:outofmemory)?)?",
    "exceededmemorylimit(failedtoallocate" => "rmm", "limit", PoolLimit, 0;
        r"exceededmemorylimit\(failedtoallocate{requested}\)",
    // ggml.
    "cudamallocfailed:outofmemory" => "llama.cpp", "request-only", General, 120;
        r"allocating{requested}ondevice{device#}:.{0,8}?cudamallocfailed:outofmemory
        (?:.{0,60}?failedtoallocate[a-z]*[0-9]*bufferofsize{exact#})?",
    "cudamallocfailed:outofmemory" => "llama.cpp", "request-only", General, 0;
        r"cudamallocfailed:outofmemory.{0,40}?failedtoallocate(?:[a-z]+{device#})?bufferofsize{requested#}",
    "bufferofsize" => "llama.cpp", "request-only", General, 40;
        r"failedtoallocate(?:cuda|rocm|vulkan|sycl|metal)(?:{device#})?bufferofsize{requested#}",
    "devicememoryallocationofsize" => "llama.cpp", "request-only", General, 0;
        r"devicememoryallocationofsize{requested#}failed",
    // Others.
    "outofgpumemorytryingtoallocate" => "julia", "no-allocated", General, 0;
        r"outofgpumemorytryingtoallocate{requested}(?:effectivegpumemoryusage:[0-9.]+\([^/)]{0,20}/{capacity}\))?",
    "outofmemoryerrorongpu" => "paddle", "no-capacity", General, 0;
        r"outofmemoryerrorongpu{device#}.{0,4}?cannotallocate{requested}memoryongpu[0-9]+
        (?:,{allocated}memoryhasbeenallocatedandavailablememoryisonly{free})?",
    "memoryforrequestedbufferofsize" => "onnxruntime", "request-only", General, 0;
        r"memoryforrequestedbufferofsize{requested#}",
};

static COMPILED: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PATTERNS.iter().map(Pattern::compile).collect());

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
