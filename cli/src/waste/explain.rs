//! The worst moment of a run in a sentence, and what to try next.

use allocator::config::Config;
use replay::waste::{Moment, Parts, Reference, Waste};

use crate::bytes;

/// Below this share of what is reserved, waste is not worth a change.
const WASTE_SHARE_MIN: f64 = 0.02;

/// The first time memory was out, else the peak: what happened there, and what to try next.
pub(crate) fn explain(waste: &Waste, config: &Config) -> (String, String) {
    match waste.ooms.first().and_then(|oom| Some((oom, oom.refused?))) {
        Some((oom, refused)) => explain_oom(oom, refused, config),
        None => explain_peak(&waste.filled, waste.peak.sample.reserved_bytes, config),
    }
}

fn explain_oom(oom: &Moment, refused: Reference, config: &Config) -> (String, String) {
    let Reference { requested_bytes, stream, .. } = refused;
    let parts = &oom.sample.parts;
    let head = format!(
        "Out of memory after {} records: {} asked for by stream {stream}, {} left on the device, {} reserved for {} \
         of live requests.",
        oom.sample.after_records,
        bytes::show(requested_bytes),
        bytes::show(oom.available_bytes),
        bytes::show(oom.sample.reserved_bytes),
        bytes::show(parts.requested_bytes),
    );
    let most_bytes = oom.available_bytes + parts.free_bytes() + parts.pending_free_bytes;
    if most_bytes < requested_bytes {
        let why = format!(
            "All that is free, pending and left together is {}: this is no fragmentation, the run needs more memory.",
            bytes::show(most_bytes)
        );
        let next = "`vramtape fit RUN` for the smallest device that is enough, or a smaller batch";
        return (format!("{head} {why}"), next.to_owned());
    }
    let fits = oom.largest_free.large_bytes.max(oom.largest_free.small_bytes);
    if parts.cached_reusable_bytes > 0 && fits >= requested_bytes {
        let why = format!(
            "A free piece of {} fits, made by the last flush, after which PyTorch does not search again.",
            bytes::show(fits)
        );
        let next =
            "search_after_flush:True in VRAMTAPE_CONF, on unless a run only reproduces PyTorch";
        return (format!("{head} {why}"), next.to_owned());
    }
    let (what, next) = cause(oom, config);
    (format!("{head} Most of the rest is {what}."), next)
}

fn explain_peak(filled: &Moment, peak_bytes: u64, config: &Config) -> (String, String) {
    let parts = &filled.sample.parts;
    let (reserved, waste) = (filled.sample.reserved_bytes, parts.waste_bytes());
    let when = if reserved == peak_bytes { "At the peak" } else { "As the run filled the device" };
    let head = format!(
        "{when}, after {} records, {} are reserved for {} of live requests",
        filled.sample.after_records,
        bytes::show(reserved),
        bytes::show(parts.requested_bytes)
    );
    if waste as f64 <= WASTE_SHARE_MIN * reserved as f64 {
        let next = "nothing here: only fewer or smaller live tensors lower this peak";
        return (format!("{head}: next to nothing is wasted."), next.to_owned());
    }
    let (what, next) = cause(filled, config);
    (format!("{head}; most of the other {} is {what}.", bytes::show(waste)), next)
}

/// What a part is, and what to try against it.
type Words = fn(&Moment, &Config) -> (String, String);

/// The largest part that nobody asked for, in words, and what to try against it.
fn cause(moment: &Moment, config: &Config) -> (String, String) {
    let Parts {
        rounding_bytes,
        unsplit_remainder_bytes,
        cached_reusable_bytes,
        stranded_by_stream_bytes,
        stranded_by_pool_bytes,
        stranded_by_fragmentation_bytes,
        pending_free_bytes,
        driver_granularity_bytes,
        ..
    } = moment.sample.parts;
    let causes: [(u64, Words); 8] = [
        (stranded_by_fragmentation_bytes, fragmentation),
        (stranded_by_stream_bytes, stream),
        (stranded_by_pool_bytes, pool),
        (pending_free_bytes, pending),
        (unsplit_remainder_bytes, unsplit),
        (rounding_bytes, rounding),
        (cached_reusable_bytes, cached),
        (driver_granularity_bytes, granularity),
    ];
    // Of equal parts the first is named.
    let (most_bytes, words) =
        causes.into_iter().rev().max_by_key(|(part, _)| *part).unwrap_or(causes[0]);
    let (what, next) = words(moment, config);
    (format!("{what} ({})", bytes::show(most_bytes)), next)
}

fn fragmentation(moment: &Moment, config: &Config) -> (String, String) {
    let stranded = moment.sample.parts.stranded_by_fragmentation_bytes;
    if moment.withheld_by_settings_bytes > stranded / 2 {
        let what = "free in pieces that are large enough, but that max_split_size_mb keeps from the request";
        let next = "the same settings without max_split_size_mb: `vramtape waste RUN --config ...`";
        return (what.to_owned(), next.to_owned());
    }
    let what = "free in pieces too small for the request that needed the device";
    let next = if config.expandable_segments {
        "`vramtape tune RUN`: expandable segments are on already"
    } else {
        "expandable_segments:True; `vramtape waste RUN --strategy expandable` shows what it would leave"
    };
    (what.to_owned(), next.to_owned())
}

fn stream(moment: &Moment, _: &Config) -> (String, String) {
    let owner = moment.streams.first().map_or(String::new(), |most| format!(" {}", most.stream));
    let what =
        format!("free on stream{owner}, where another stream that asked for more cannot have it");
    let next = format!(
        "allocate on one stream, or call torch.cuda.empty_cache() when the work on stream{owner} is done"
    );
    (what, next)
}

fn pool(moment: &Moment, _: &Config) -> (String, String) {
    let owner = moment.pools.first().map_or(String::new(), |most| format!(" {}", most.pool));
    let what = format!("free in pool{owner}, where a request of another pool cannot have it");
    let next =
        "let graphs share a pool (torch.cuda.graph_pool_handle), or MemPool(use_on_oom=True)";
    (what, next.to_owned())
}

fn pending(_: &Moment, _: &Config) -> (String, String) {
    let what = "freed, but still waiting for other streams that use it (Tensor.record_stream)";
    let next = "let those streams finish earlier, or keep the tensor until they are done instead of record_stream";
    (what.to_owned(), next.to_owned())
}

fn unsplit(_: &Moment, config: &Config) -> (String, String) {
    let what = "the rest of blocks that were larger than what was asked for";
    let next = if config.expandable_segments {
        "`vramtape tune RUN`"
    } else {
        "expandable_segments:True, which cuts off every rest; `vramtape waste RUN --strategy expandable`"
    };
    (what.to_owned(), next.to_owned())
}

fn rounding(_: &Moment, config: &Config) -> (String, String) {
    let what = "what rounding sizes up added";
    let next = if config.roundup_power2_divisions.iter().any(|divisions| *divisions > 1) {
        "more divisions in roundup_power2_divisions, or none; `vramtape tune RUN` tries some"
    } else {
        "fewer, larger tensors: every block is a multiple of 512 bytes"
    };
    (what.to_owned(), next.to_owned())
}

fn cached(_: &Moment, _: &Config) -> (String, String) {
    let what = "cached and serves the next request of its kind";
    let next = "nothing while memory is enough; torch.cuda.empty_cache() or garbage_collection_threshold return it";
    (what.to_owned(), next.to_owned())
}

fn granularity(_: &Moment, _: &Config) -> (String, String) {
    let what = "the last page of large segments, which are whole pages of 2 MiB";
    (what.to_owned(), "sizes that are multiples of 2 MiB, where they can be chosen".to_owned())
}
