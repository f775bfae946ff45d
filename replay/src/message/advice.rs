//! What to try first for a verdict, and what to record to know more.

use allocator::stats::ByteSize;
use serde::Serialize;

use super::fields::Fields;
use oom::OomVerdict;

/// What follows from a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Things to try, the most promising first.
    pub try_first: Vec<String>,
    /// Things to record or to look up.
    pub record: Vec<String>,
}

/// Records a program and shows the memory at its out of memory.
const RECORD: &str = "vramtape run -o run.vtape train.py; then vramtape explain run.vtape: the blocks that pin the \
    memory, the code that holds them, and what would have helped";
const HOLDERS: &str = "vramtape run -o run.vtape train.py; then vramtape info run.vtape: the code that holds memory at \
    the peak, and vramtape view run.vtape: memory over time";
const FIT: &str = "vramtape fit run.vtape: the smallest GPU on which the recorded run fits";
const TUNE: &str =
    "vramtape tune run.vtape: the settings under which the recorded run reserves least";
const HUGE: [&str; 3] = [
    "the line of the request in the traceback: no device of this size can serve it",
    "a smaller or split operation: chunks, a smaller batch, attention without the full score matrix",
    "the shapes of its tensors: a dimension in the wrong place is a usual reason",
];
const NVIDIA_SMI: &str =
    "nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv";
const LESS_LIVE: &str = "less live memory: a smaller batch or shorter sequences, activation checkpointing, lower \
    precision, or a larger device";

/// The advice on one message.
pub(super) fn advice(
    verdict: OomVerdict,
    framework: &str,
    generation: &str,
    fields: &Fields,
) -> Advice {
    let is_pytorch = framework.starts_with("pytorch");
    let list = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    // vramtape records PyTorch on CUDA.
    let is_recordable =
        matches!(framework, "pytorch" | "pytorch-cuda" | "vllm" | "cuda-error" | "cublas" | "nccl");
    let record = |lines: &[&str]| if is_recordable { list(lines) } else { Vec::new() };
    match verdict {
        OomVerdict::Capacity if framework == "vllm" => Advice {
            try_first: list(&[
                "a lower --max-model-len, a higher --gpu-memory-utilization, or more GPUs (--tensor-parallel-size)",
                "a KV cache in FP8 (--kv-cache-dtype fp8)",
            ]),
            record: Vec::new(),
        },
        OomVerdict::Capacity => Advice {
            try_first: [Some(live(fields)), raise(framework, fields), Some(LESS_LIVE.to_owned())]
                .into_iter()
                .flatten()
                .collect(),
            record: record(&[HOLDERS, FIT]),
        },
        OomVerdict::HugeRequest => Advice {
            try_first: raise(framework, fields).into_iter().chain(list(&HUGE)).collect(),
            record: record(&[HOLDERS]),
        },
        OomVerdict::Fragmentation | OomVerdict::PartlyFragmentation => {
            let mut try_first = fragmentation(framework, generation);
            if verdict == OomVerdict::PartlyFragmentation {
                try_first.push(format!("the rest has to come from {LESS_LIVE}"));
            }
            Advice { try_first, record: record(&[RECORD, TUNE]) }
        }
        OomVerdict::Graphs => Advice {
            try_first: list(&[
                "fewer or smaller graphs: fewer captured batch sizes, or one pool that graphs share",
                "no graphs, to compare: enforce_eager=True in vLLM, mode=\"default\" of torch.compile",
            ]),
            record: record(&[RECORD]),
        },
        OomVerdict::OtherProcess => Advice {
            try_first: other_process(framework, fields),
            record: vec![
                format!("{}: the processes on the device", process_list(framework)),
                "vramtape top: the jobs on this machine that vramtape records".to_owned(),
            ],
        },
        OomVerdict::NonPytorch if framework == "pytorch-mps" => Advice {
            try_first: list(&[
                "close other users of the GPU's memory in this process: other models, OpenCL, Metal buffers",
            ]),
            record: Vec::new(),
        },
        OomVerdict::NonPytorch => Advice {
            try_first: list(&[
                "libraries that allocate beside PyTorch: NCCL buffers, cuBLAS workspaces, TensorFlow or JAX in the \
                 same process, CUDA modules of many kernels",
                "fewer communicators and streams, or CUBLAS_WORKSPACE_CONFIG=:4096:2",
            ]),
            record: vec![format!(
                "{}: the memory of this process, with that outside the pools",
                process_list(framework)
            )],
        },
        OomVerdict::Host => Advice {
            try_first: list(&[
                "the machine's memory, not the GPU's: fewer data loader workers, less pinned memory, smaller arrays",
                "the limits of the container or job: cgroup memory, ulimit -l for pinned memory",
            ]),
            record: list(&["free -h, and the peak of the process in /proc/PID/status (VmHWM)"]),
        },
        OomVerdict::OtherStream | OomVerdict::PendingFree | OomVerdict::Settings => {
            Advice::default()
        }
        OomVerdict::Unknown => Advice {
            try_first: unknown(framework, fields),
            record: if is_pytorch || is_recordable {
                record(&[RECORD])
            } else {
                list(&["nvidia-smi, while the program runs"])
            },
        },
    }
}

/// A limit that is below the device's memory, or unrelated to it.
fn raise(framework: &str, fields: &Fields) -> Option<String> {
    let limit = fields.allowed_bytes.get()?;
    if fields.capacity_bytes.get().is_some_and(|capacity| capacity <= limit) {
        return None;
    }
    let setting = match framework {
        "pytorch-mps" => {
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO; 0.0 removes it, and the system may then swap or stop"
        }
        "cupy" => "CUPY_GPU_MEMORY_LIMIT or set_limit of the memory pool",
        "rmm" => "maximum_pool_size of the pool, or its limiting adaptor",
        _ => "torch.cuda.set_per_process_memory_fraction",
    };
    Some(format!("a limit above {}: {setting}", ByteSize(limit)))
}

/// The share of live memory, which no allocator can reduce.
fn live(fields: &Fields) -> String {
    let size = |bytes: u64| ByteSize(bytes);
    let limit = fields.allowed_bytes.get().into_iter().chain(fields.capacity_bytes.get()).min();
    match (fields.allocated_bytes.get(), limit) {
        (Some(live), Some(limit)) => {
            format!("nothing in the allocator helps: {} of {} are live", size(live), size(limit))
        }
        _ => "nothing in the allocator helps: the memory is live".to_owned(),
    }
}

fn fragmentation(framework: &str, generation: &str) -> Vec<String> {
    let is_before_2_1 = generation.starts_with("1.");
    if is_before_2_1 {
        let limit = "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (since PyTorch 1.10)";
        let upgrade = "PyTorch 2.1 or later with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
        return vec![limit.to_owned(), upgrade.to_owned()];
    }
    let variable = match framework {
        "pytorch-hip" => "PYTORCH_HIP_ALLOC_CONF",
        "pytorch-xpu" => "PYTORCH_ALLOC_CONF",
        _ => "PYTORCH_CUDA_ALLOC_CONF",
    };
    vec![
        format!("{variable}=expandable_segments:True"),
        "if that is set already: fewer different sizes (padded batches), or a run of vramtape tune"
            .to_owned(),
    ]
}

/// The command that lists the processes on a device.
fn process_list(framework: &str) -> &'static str {
    match framework {
        "pytorch-hip" | "hip-error" => "rocm-smi --showpids",
        "pytorch-xpu" => "xpu-smi ps",
        "pytorch-npu" => "npu-smi info",
        _ => NVIDIA_SMI,
    }
}

fn other_process(framework: &str, fields: &Fields) -> Vec<String> {
    let mut lines = Vec::new();
    if fields.processes.is_empty() {
        lines.push(
            "find the holder: another job, a notebook, a process that did not end".to_owned(),
        );
    } else {
        lines.push(
            "end or move the other processes above, or choose another device with CUDA_VISIBLE_DEVICES".to_owned(),
        );
    }
    if framework == "vllm" {
        lines.push("else a lower --gpu-memory-utilization".to_owned());
    }
    lines
}

fn unknown(framework: &str, fields: &Fields) -> Vec<String> {
    let text = match framework {
        "vllm" => "a higher --gpu-memory-utilization or a lower --max-model-len",
        "jax" => {
            "XLA_PYTHON_CLIENT_PREALLOCATE=false or XLA_PYTHON_CLIENT_MEM_FRACTION, if others need the device too"
        }
        "tensorflow" => {
            "TF_GPU_ALLOCATOR=cuda_malloc_async, and the allocator's statistics in the log above the error"
        }
        "rmm" => {
            "the pool's size against the device's memory: rmm.statistics, or rmm.mr.LoggingResourceAdaptor, whose \
                  log vramtape reads"
        }
        "cublas" | "nccl" => {
            "more memory left for the library: it allocates beside PyTorch's pools"
        }
        _ if fields.free_bytes.get() > fields.requested_bytes.get()
            && fields.requested_bytes.get().is_some() =>
        {
            "a restart of the program, and the driver's log (dmesg): memory was free when the request was refused"
        }
        _ => "nvidia-smi at the time of the error: free memory, and the other processes",
    };
    vec![text.to_owned()]
}
