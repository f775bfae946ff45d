//! What well known GPUs have left for a run.

use serde::Serialize;

/// What the CUDA context and the libraries' own memory take, at most: in the messages below that name all three, the
/// process holds 0.1 to 0.6 GiB more than PyTorch has reserved.
pub const CONTEXT_BYTES: u64 = 640 << 20;

/// A GPU by name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gpu {
    /// The name for `--gpu`.
    pub name: &'static str,
    /// What CUDA says it has (`cudaMemGetInfo`), in hundredths of a GiB, as PyTorch's message prints it.
    hundredths_of_gib: u64,
    /// Where that number is from.
    pub source: &'static str,
}

impl Gpu {
    /// Whether this is a GPU of so many GB, as its vendor counts them.
    pub(super) const fn has_about(&self, size_gb: u64) -> bool {
        let nominal = 100 * size_gb;
        self.hundredths_of_gib <= nominal && 100 * self.hundredths_of_gib >= 88 * nominal
    }

    /// All memory that CUDA reports.
    pub const fn total_bytes(&self) -> u64 {
        self.hundredths_of_gib * (1 << 30) / 100
    }

    /// What is left of it for an allocator, whole pages of 2 MiB.
    pub const fn usable_bytes(&self) -> u64 {
        (self.total_bytes() - CONTEXT_BYTES) / (2 << 20) * (2 << 20)
    }
}

/// The GPUs whose memory is known, largest first. The totals are those of PyTorch's out-of-memory message, which
/// prints what `cudaMemGetInfo` reports ("GPU 0 has a total capacity of ..."); where reports differ, the lower one. Two
/// rows have no such report; they are those of the card that `nvidia-smi` gives as much memory.
pub const GPUS: [Gpu; 25] = [
    gpu("gb200", 184, 31, "github.com/vllm-project/vllm/issues/52511"),
    gpu("b200", 178, 35, "PyTorch's message in several public logs: 178.35 and 178.36 GiB"),
    gpu("h200", 139, 72, "PyTorch's message in several public logs: 139.72 to 139.81 GiB"),
    gpu(
        "rtx-pro-6000",
        94,
        97,
        "github.com/antirez/ds4/issues/431: cudaMemGetInfo, printed by another program",
    ),
    gpu("h100-nvl", 93, 0, "github.com/ali-vilab/VACE/issues/56"),
    gpu("a100-80gb", 79, 14, "github.com/lianqi1008/Control-GIC/issues/6"),
    gpu("h100", 79, 11, "github.com/vllm-project/vllm/issues/27508"),
    gpu("rtx-a6000", 47, 53, "github.com/allenai/open-instruct/issues/163"),
    gpu("rtx6000-ada", 44, 43, "github.com/DINGYANB/MTVCrafter/issues/21"),
    gpu(
        "a40",
        44,
        43,
        "as rtx6000-ada: nvidia-smi shows 46068 MiB for both, github.com/sgl-project/sglang/issues/1522",
    ),
    gpu("l40s", 44, 42, "github.com/stepfun-ai/Step-Video-T2V/issues/8"),
    gpu("l40", 44, 40, "github.com/QwenLM/Qwen3-VL/issues/2097"),
    gpu("a100-40gb", 39, 50, "github.com/TianheWu/CoSeR/issues/10"),
    gpu("v100-32gb", 31, 74, "github.com/liucongg/ChatGLM-Finetuning/issues/73"),
    gpu("rtx5090", 31, 36, "github.com/TrajectoryCrafter/TrajectoryCrafter/issues/20"),
    gpu("rtx3090", 23, 69, "github.com/ucwxb/GraphAvatar/issues/4"),
    gpu("a30", 23, 53, "github.com/google/RB-Modulation/issues/5"),
    gpu(
        "rtx4090",
        23,
        52,
        "github.com/Soul-AILab/SoulX-FlashTalk/issues/5; others report up to 23.65",
    ),
    gpu("l4", 22, 3, "github.com/ArcInstitute/evo2/issues/190"),
    gpu("a10", 21, 99, "github.com/zai-org/CogVLM/issues/236"),
    gpu(
        "a10g",
        21,
        99,
        "as a10: nvidia-smi shows 23028 MiB for both, github.com/vllm-project/vllm/issues/9373",
    ),
    gpu("v100-16gb", 15, 77, "github.com/meta-llama/llama/issues/918"),
    gpu("rtx-a4000", 15, 61, "github.com/DengKaiCQ/VGGT-Long/issues/6"),
    gpu("t4", 14, 56, "github.com/AlphaGPU/leetgpu-challenges/issues/52"),
    gpu("rtx3080", 9, 78, "github.com/zai-org/CogVideo/issues/34"),
];

const fn gpu(name: &'static str, gib: u64, hundredths: u64, source: &'static str) -> Gpu {
    Gpu { name, hundredths_of_gib: 100 * gib + hundredths, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gpu_has_a_source_and_whole_pages_that_it_can_give() {
        for gpu in GPUS {
            assert!(!gpu.source.is_empty());
            assert!(gpu.usable_bytes().is_multiple_of(2 << 20));
            assert!(gpu.usable_bytes() < gpu.total_bytes() - 500 * (1 << 20), "{gpu:?}");
        }
        assert!(GPUS.is_sorted_by_key(|gpu| std::cmp::Reverse(gpu.total_bytes())));
        let h100 = GPUS.iter().find(|gpu| gpu.name == "h100");
        assert_eq!(h100.map(|gpu| gpu.usable_bytes() >> 20), Some(80_368));
    }
}
