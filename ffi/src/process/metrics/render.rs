//! Prometheus' text format, version 0.0.4, which node exporter reads too.

use allocator::stats::{Stat, StatArray, Stats};
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, TextEncoder};

use super::collect::{Context, DeviceReport, RecordingReport};
use super::family::{Label, counter, gauge};

/// The whole text. `common` labels are put on every value: they keep apart what several processes
/// write into one folder.
pub(super) fn render(context: &Context, devices: &[DeviceReport], common: &[Label]) -> String {
    let mut families = vec![info(context, common)];
    families.extend(memory(devices, common));
    families.extend(calls(devices, common));
    families.extend(recording(devices, common));
    // The encoder refuses a metric without values.
    families.retain(|family| !family.get_metric().is_empty());
    let mut text = Vec::new();
    if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
        tracing::error!("no metrics: they cannot be written as text: {error}");
    }
    String::from_utf8(text).unwrap_or_default()
}

fn info(context: &Context, common: &[Label]) -> MetricFamily {
    let mut labels = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("strategy", context.strategy.to_owned()),
        ("compat", context.compat.to_owned()),
        ("pid", std::process::id().to_string()),
    ];
    labels.extend(context.rank.clone().map(|rank| ("rank", rank)));
    labels.retain(|(name, _)| common.iter().all(|(known, _)| known != name));
    let help = "The process: vramtape's version and settings. Always 1.";
    gauge("vramtape_info", help, common).of([(labels, 1.0)])
}

/// Current memory by kind of pool, and the peaks, which are not sums of the pools' own.
fn memory(devices: &[DeviceReport], common: &[Label]) -> Vec<MetricFamily> {
    let now = |name, help, of: fn(&Stats) -> &StatArray| {
        gauge(name, help, common).of(by_pool(devices, of, |stat| stat.current))
    };
    let peak = |name, help, of: fn(&Stats) -> &StatArray| {
        gauge(name, help, common).of(by_device(devices, |stats| of(stats).all.peak))
    };
    vec![
        now("vramtape_allocated_bytes", "Bytes of blocks that the program holds.", |stats| {
            &stats.allocated_bytes
        }),
        now("vramtape_reserved_bytes", "Bytes obtained from the device.", |stats| {
            &stats.reserved_bytes
        }),
        now(
            "vramtape_active_bytes",
            "Bytes of blocks held or still in use by a stream.",
            |stats| &stats.active_bytes,
        ),
        now("vramtape_requested_bytes", "Bytes asked for, of active blocks.", |stats| {
            &stats.requested_bytes
        }),
        now("vramtape_inactive_split_bytes", "Bytes of free parts of segments.", |stats| {
            &stats.inactive_split_bytes
        }),
        now("vramtape_allocated_blocks", "Blocks that the program holds.", |stats| {
            &stats.allocation
        }),
        now("vramtape_active_blocks", "Blocks held or still in use by a stream.", |stats| {
            &stats.active
        }),
        now("vramtape_inactive_split_blocks", "Free parts of segments.", |stats| {
            &stats.inactive_split
        }),
        now("vramtape_segments", "Segments obtained with cudaMalloc.", |stats| &stats.segment),
        peak("vramtape_allocated_peak_bytes", "Most allocated bytes since a reset.", |stats| {
            &stats.allocated_bytes
        }),
        peak("vramtape_reserved_peak_bytes", "Most reserved bytes since a reset.", |stats| {
            &stats.reserved_bytes
        }),
        peak("vramtape_active_peak_bytes", "Most active bytes since a reset.", |stats| {
            &stats.active_bytes
        }),
        peak("vramtape_requested_peak_bytes", "Most requested bytes since a reset.", |stats| {
            &stats.requested_bytes
        }),
        peak(
            "vramtape_inactive_split_peak_bytes",
            "Most bytes of free parts of segments since a reset.",
            |stats| &stats.inactive_split_bytes,
        ),
    ]
}

/// Counts since the start, or since PyTorch's accumulated statistics were last reset.
fn calls(devices: &[DeviceReport], common: &[Label]) -> Vec<MetricFamily> {
    let by_pool = |name, help, of: fn(&Stats) -> &StatArray, value: fn(&Stat) -> i64| {
        counter(name, help, common).of(by_pool(devices, of, value))
    };
    let total =
        |name, help, of: fn(&Stats) -> i64| counter(name, help, common).of(by_device(devices, of));
    let calls: fn(&Stats) -> &StatArray = |stats| &stats.allocation;
    let bytes: fn(&Stats) -> &StatArray = |stats| &stats.allocated_bytes;
    vec![
        by_pool("vramtape_allocations_total", "Allocations.", calls, |stat| stat.allocated),
        by_pool("vramtape_frees_total", "Frees.", calls, |stat| stat.freed),
        by_pool("vramtape_allocations_bytes_total", "Bytes of all allocations.", bytes, |stat| {
            stat.allocated
        }),
        total("vramtape_ooms_total", "Out-of-memory errors.", |stats| stats.num_ooms),
        total(
            "vramtape_alloc_retries_total",
            "Times the device was asked again after a flush.",
            |stats| stats.num_alloc_retries,
        ),
        total("vramtape_device_allocs_total", "Calls that obtained device memory.", |stats| {
            stats.num_device_alloc
        }),
        total("vramtape_device_frees_total", "Calls that returned device memory.", |stats| {
            stats.num_device_free
        }),
        total(
            "vramtape_stream_syncs_total",
            "Times the pending frees of all streams were waited for.",
            |stats| stats.num_sync_all_streams,
        ),
    ]
}

fn recording(devices: &[DeviceReport], common: &[Label]) -> Vec<MetricFamily> {
    let each = |value: fn(&RecordingReport) -> Option<u64>| {
        let known = devices.iter().filter_map(move |one| {
            let value = value(one.recording.as_ref()?)?;
            Some((vec![device(one)], value as f64))
        });
        known.collect::<Vec<_>>()
    };
    let is_on_tape: fn(&RecordingReport) -> Option<u64> = |r| r.is_on_tape.map(u64::from);
    vec![
        gauge("vramtape_device_memory_bytes", "Memory that the device has.", common)
            .of(each(|recording| recording.memory_bytes)),
        counter("vramtape_recorded_events_total", "Records written into the ring.", common)
            .of(each(|recording| Some(recording.records))),
        gauge("vramtape_ring_events", "Records that the ring holds at most.", common)
            .of(each(|recording| Some(recording.ring_records))),
        counter(
            "vramtape_tape_lost_events_total",
            "Records that are missing on the tape: they were overwritten before they were read.",
            common,
        )
        .of(each(|recording| Some(recording.lost_by_tape))),
        gauge(
            "vramtape_tape_recording",
            "1 while the tape is written, 0 once it cannot be written any more.",
            common,
        )
        .of(each(is_on_tape)),
    ]
}

/// Values by device and kind of pool.
fn by_pool(
    devices: &[DeviceReport],
    of: impl Fn(&Stats) -> &StatArray,
    value: impl Fn(&Stat) -> i64,
) -> Vec<(Vec<Label>, f64)> {
    let mut values = Vec::new();
    for one in devices {
        let array = of(&one.stats);
        for (pool, stat) in [("small", &array.small_pool), ("large", &array.large_pool)] {
            let labels = vec![device(one), ("pool", pool.to_owned())];
            values.push((labels, value(stat) as f64));
        }
    }
    values
}

fn by_device(devices: &[DeviceReport], of: impl Fn(&Stats) -> i64) -> Vec<(Vec<Label>, f64)> {
    devices.iter().map(|one| (vec![device(one)], of(&one.stats) as f64)).collect()
}

fn device(report: &DeviceReport) -> Label {
    ("device", report.device.0.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_format::DeviceId;

    #[test]
    fn what_is_not_known_is_left_out_and_no_label_comes_twice() {
        let context =
            Context { strategy: "native", compat: "2.15", rank: Some("3\"\n".to_owned()) };
        let report = DeviceReport { device: DeviceId(7), stats: Stats::default(), recording: None };
        let pid = ("pid", "77".to_owned());
        let text = render(&context, &[report], &[pid]);
        assert!(
            !text.contains("_ring_") && !text.contains("_tape_"),
            "nothing is recorded: {text}"
        );
        assert!(text.contains("\nvramtape_ooms_total{pid=\"77\",device=\"7\"} 0\n"), "{text}");
        let info =
            text.lines().find(|line| line.starts_with("vramtape_info")).expect("it is there");
        assert_eq!(info.matches("pid=").count(), 1, "{info}");
        assert!(info.contains(r#"rank="3\"\n""#), "{info}");
        let idle = render(&context, &[], &[]);
        assert_eq!(idle.lines().count(), 3, "no device, no metric of one: {idle}");
    }
}
