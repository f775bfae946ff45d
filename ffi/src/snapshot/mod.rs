//! The state of memory as JSON, under the keys of PyTorch's snapshots.

mod segments;
mod traces;

use std::ffi::c_int;

use trace_format::PoolId;

use segments::{Names, Segment};
pub(crate) use segments::{Snapshot, frames_of};
pub(crate) use traces::Taken;
use traces::{Settings, Trace};

use crate::error::Error;
use crate::process::{self, history};

/// One device's segments; of one pool unless the default is named.
pub(crate) fn of_device(device: c_int, pool: PoolId) -> Result<Snapshot, Error> {
    let states = match process::used(device)? {
        Some(heap) => heap.lock()?.snapshot(pool),
        None => Vec::new(),
    };
    let mut names = Names::default();
    for state in &states {
        names.add_of(state);
    }
    let segments = states.iter().map(|state| Segment::of(device, state)).collect();
    Ok(Snapshot { segments, names })
}

/// All devices' segments, the history and the settings.
pub(crate) fn take(pool: PoolId, with_traces: bool) -> Result<Taken, Error> {
    let (mut segments, mut device_traces, mut names) = (Vec::new(), Vec::new(), Names::default());
    for device in 0..process::devices_used() {
        let Some(heap) = process::used(device)? else {
            device_traces.push(Vec::new());
            continue;
        };
        let (states, entries) = {
            let mut heap = heap.lock()?;
            let entries = if with_traces { history::entries(device) } else { Vec::new() };
            let states = heap.snapshot(pool);
            history::name_pool_of_snapshot(device, pool);
            (states, entries)
        };
        for state in &states {
            names.add_of(state);
            segments.push(Segment::of(device, state));
        }
        for entry in &entries {
            names.add(entry.stack);
        }
        device_traces.push(entries.iter().map(Trace::from).collect());
    }
    if !with_traces {
        device_traces.clear();
    }
    let settings = Settings::from(&process::config()?);
    Ok(Taken { segments, device_traces, settings, names })
}
