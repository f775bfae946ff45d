//! Prometheus' text format, version 0.0.4, which node exporter reads too; and the same as JSON.

use allocator::stats::{Stat, StatArray, Stats};
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Encoder, TextEncoder};
use serde_json::{Map, Value, json};

use super::family::{Label, counter, gauge};
use super::rings::DeviceReport;

/// All metrics that have values.
pub(super) fn families(devices: &[DeviceReport]) -> Vec<MetricFamily> {
    let mut families = vec![info(devices)];
    families.extend(memory(devices));
    families.extend(calls(devices));
    families.extend(recording(devices));
    // The encoder refuses a metric without values.
    families.retain(|family| !family.get_metric().is_empty());
    families
}

/// The whole text.
pub(super) fn text(families: &[MetricFamily]) -> String {
    let mut text = Vec::new();
    // Each metric has a name and values, and the text goes into memory.
    let _ = TextEncoder::new().encode(families, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Name, type, help and values of each metric.
pub(super) fn json(families: &[MetricFamily]) -> Value {
    let of_family = |family: &MetricFamily| {
        let is_counter = family.get_field_type() == MetricType::COUNTER;
        let values = family.get_metric().iter().map(|metric| {
            let labels = metric.get_label().iter();
            let labels: Map<_, _> =
                labels.map(|label| (label.name().to_owned(), label.value().into())).collect();
            let value = if is_counter {
                metric.get_counter().get_value()
            } else {
                metric.get_gauge().get_value()
            };
            json!({ "labels": labels, "value": value })
        });
        json!({
            "name": family.name(),
            "type": if is_counter { "counter" } else { "gauge" },
            "help": family.help(),
            "values": values.collect::<Vec<_>>(),
        })
    };
    families.iter().map(of_family).collect()
}

fn info(devices: &[DeviceReport]) -> MetricFamily {
    let mut processes: Vec<Vec<Label>> = Vec::new();
    for one in devices {
        let labels = [&one.process[..], &one.program[..]].concat();
        if !processes.contains(&labels) {
            processes.push(labels);
        }
    }
    let help = "A process: vramtape's version and settings. Always 1.";
    gauge("info", help).of(processes.into_iter().map(|labels| (labels, 1.0)))
}

/// Current memory by kind of pool, and the peaks, which are not sums of the pools' own.
fn memory(devices: &[DeviceReport]) -> Vec<MetricFamily> {
    let now = |name, help, of: fn(&Stats) -> &StatArray| {
        gauge(name, help).of(by_pool(devices, of, |stat| stat.current))
    };
    let peak = |name, help, of: fn(&Stats) -> &StatArray| {
        gauge(name, help).of(counted(devices, |stats| of(stats).all.peak))
    };
    vec![
        now("allocated_bytes", "Bytes of blocks that the program holds.", |s| &s.allocated_bytes),
        now("reserved_bytes", "Bytes obtained from the device.", |s| &s.reserved_bytes),
        now("active_bytes", "Bytes of blocks held or still in use by a stream.", |s| {
            &s.active_bytes
        }),
        now("requested_bytes", "Bytes asked for, of active blocks.", |s| &s.requested_bytes),
        now("inactive_split_bytes", "Bytes of free parts of segments.", |s| {
            &s.inactive_split_bytes
        }),
        now("allocated_blocks", "Blocks that the program holds.", |s| &s.allocation),
        now("active_blocks", "Blocks held or still in use by a stream.", |s| &s.active),
        now("inactive_split_blocks", "Free parts of segments.", |s| &s.inactive_split),
        now("segments", "Segments obtained with cudaMalloc.", |s| &s.segment),
        peak("allocated_peak_bytes", "Most allocated bytes since a reset.", |s| &s.allocated_bytes),
        peak("reserved_peak_bytes", "Most reserved bytes since a reset.", |s| &s.reserved_bytes),
        peak("active_peak_bytes", "Most active bytes since a reset.", |s| &s.active_bytes),
        peak("requested_peak_bytes", "Most requested bytes since a reset.", |s| &s.requested_bytes),
        peak(
            "inactive_split_peak_bytes",
            "Most bytes of free parts of segments since a reset.",
            |s| &s.inactive_split_bytes,
        ),
    ]
}

/// Counts since the start, or since PyTorch's accumulated statistics were last reset.
fn calls(devices: &[DeviceReport]) -> Vec<MetricFamily> {
    let by_pool = |name, help, of: fn(&Stats) -> &StatArray, value: fn(&Stat) -> i64| {
        counter(name, help).of(by_pool(devices.iter().filter(|one| one.is_counted), of, value))
    };
    let total = |name, help, of: fn(&Stats) -> i64| counter(name, help).of(counted(devices, of));
    let calls: fn(&Stats) -> &StatArray = |s| &s.allocation;
    let bytes: fn(&Stats) -> &StatArray = |s| &s.allocated_bytes;
    vec![
        by_pool("allocations_total", "Allocations.", calls, |stat| stat.allocated),
        by_pool("frees_total", "Frees.", calls, |stat| stat.freed),
        by_pool("allocations_bytes_total", "Bytes of all allocations.", bytes, |stat| {
            stat.allocated
        }),
        total("ooms_total", "Out-of-memory errors.", |s| s.num_ooms),
        total("alloc_retries_total", "Times the device was asked again after a flush.", |s| {
            s.num_alloc_retries
        }),
        total("device_allocs_total", "Calls that obtained device memory.", |s| s.num_device_alloc),
        total("device_frees_total", "Calls that returned device memory.", |s| s.num_device_free),
        total(
            "stream_syncs_total",
            "Times the pending frees of all streams were waited for.",
            |s| s.num_sync_all_streams,
        ),
    ]
}

fn recording(devices: &[DeviceReport]) -> Vec<MetricFamily> {
    let each = |value: fn(&DeviceReport) -> Option<u64>| {
        let known = devices.iter().filter_map(move |one| Some((labels(one), value(one)? as f64)));
        known.collect::<Vec<_>>()
    };
    vec![
        gauge("device_memory_bytes", "Memory that the device has.")
            .of(each(|one| one.memory_bytes)),
        counter("recorded_events_total", "Records written into the ring.")
            .of(each(|one| Some(one.info.written))),
        gauge("ring_events", "Records that the ring holds at most.")
            .of(each(|one| Some(one.info.slots))),
        counter(
            "tape_lost_events_total",
            "Records that are missing on the tape: they were overwritten before they were read.",
        )
        .of(each(|one| Some(one.info.lost_by_tape))),
        gauge(
            "tape_recording",
            "1 while the tape is written, 0 once it cannot be written any more.",
        )
        .of(each(|one| one.info.is_on_tape.map(u64::from))),
    ]
}

/// Values by device and kind of pool.
fn by_pool<'a>(
    devices: impl IntoIterator<Item = &'a DeviceReport>,
    of: impl Fn(&Stats) -> &StatArray,
    value: impl Fn(&Stat) -> i64,
) -> Vec<(Vec<Label>, f64)> {
    let mut values = Vec::new();
    for one in devices {
        let Some(array) = one.stats.as_ref().map(&of) else { continue };
        for (pool, stat) in [("small", &array.small_pool), ("large", &array.large_pool)] {
            let mut labels = labels(one);
            labels.push(("pool", pool.to_owned()));
            values.push((labels, value(stat) as f64));
        }
    }
    values
}

/// Values by device, of allocators that count.
fn counted(devices: &[DeviceReport], of: impl Fn(&Stats) -> i64) -> Vec<(Vec<Label>, f64)> {
    let counted = devices.iter().filter(|one| one.is_counted);
    counted.filter_map(|one| Some((labels(one), of(one.stats.as_ref()?) as f64))).collect()
}

fn labels(one: &DeviceReport) -> Vec<Label> {
    [&one.device[..], &one.process[..]].concat()
}
