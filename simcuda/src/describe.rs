//! A device as a dry run reports it: the GPU, and the most memory of it that was in use.

use std::ffi::{c_char, c_int};

use serde_json::json;

use crate::abi::{Out, driver};
use crate::{machine, nccl};

driver! {
    /// Writes a device of this process as a JSON object. The text is cut to `room` bytes.
    fn simcuda_describe_device(device: c_int, out: Out<c_char>, room: c_int) {
        let ordinal = machine::ordinal(device)?;
        let peak_used_bytes = machine::with(|machine| Ok(machine.device(ordinal)?.peak_used_bytes()))?;
        let settings = &machine::fixed()?.settings;
        let gpu = &settings.gpu;
        // Without a GPU's name nothing is charged for a context, and its size is not known.
        let context = (settings.context_bytes > 0).then(|| {
            json!({
                "lower_bytes": gpu.context.lower_bytes,
                "expected_bytes": settings.context_bytes,
                "upper_bytes": gpu.context.upper_bytes,
                "source": gpu.context.source,
            })
        });
        let description = json!({
            "machine_device": machine::physical(ordinal)?,
            "gpu": gpu.name,
            "product": gpu.product,
            "compute_capability": format!("{}.{}", gpu.capability.major, gpu.capability.minor),
            "memory_bytes": settings.memory_bytes,
            "context": context,
            "is_active": machine::is_active(ordinal),
            "peak_used_bytes": peak_used_bytes,
            "nccl_peak_bytes": nccl::peak_bytes(ordinal),
        });
        out.text(&description.to_string(), room)
    }
}
