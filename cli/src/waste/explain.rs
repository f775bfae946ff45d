//! The worst moment of a run in a sentence, and what to try next.

use replay::advice::{Advice, Kind};
use replay::waste::{Parts, Reference, Waste, WasteMoment};
use settings::Config;

use crate::bytes;

/// Below this share of what is reserved, waste is not worth a change.
const WASTE_SHARE_MIN: f64 = 0.02;

/// The first time memory was out, else the peak: what happened there, and what to try next.
pub(crate) fn explain(waste: &Waste, config: &Config, advice: Option<&Advice>) -> (String, String) {
    let (what, hint) = match waste.ooms.first().and_then(|oom| Some((oom, oom.refused?))) {
        Some((oom, refused)) => explain_oom(oom, refused, config),
        None => explain_peak(&waste.filled, waste.peak.sample.reserved_bytes, config),
    };
    (what, next_step(hint, advice))
}

/// The next thing to try: the hint is about the program; only the advice names settings.
fn next_step(hint: Option<String>, advice: Option<&Advice>) -> String {
    let Some(advice) = advice else { return hint.unwrap_or_default() };
    match (advice.kind, hint) {
        (Kind::Settings, None) => advice.text.clone(),
        (Kind::Settings, Some(hint)) => format!("{}; or {hint}", advice.text),
        (Kind::NothingHelps, hint) => {
            let program = hint.as_deref().unwrap_or("only fewer or smaller live tensors do");
            format!("{}; {program}", advice.text)
        }
        (Kind::NoCandidateHelps, Some(hint)) => hint,
        (Kind::NoCandidateHelps, None) => {
            format!("{}; `vramtape tune RUN` searches further", advice.text)
        }
    }
}

fn explain_oom(oom: &WasteMoment, refused: Reference, config: &Config) -> (String, Option<String>) {
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
        return (format!("{head} {why}"), Some(next.to_owned()));
    }
    let fits = oom.largest_free.large_bytes.max(oom.largest_free.small_bytes);
    if parts.cached_reusable_bytes > 0 && fits >= requested_bytes {
        let why = format!(
            "A free piece of {} fits, made by the last flush, after which PyTorch does not search again.",
            bytes::show(fits)
        );
        return (format!("{head} {why}"), None);
    }
    let (what, next) = cause(oom, config);
    (format!("{head} Most of the rest is {what}."), next)
}

fn explain_peak(
    filled: &WasteMoment,
    peak_bytes: u64,
    config: &Config,
) -> (String, Option<String>) {
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
        let next = "only fewer or smaller live tensors lower this peak";
        return (format!("{head}: next to nothing is wasted."), Some(next.to_owned()));
    }
    let (what, next) = cause(filled, config);
    (format!("{head}; most of the other {} is {what}.", bytes::show(waste)), next)
}

/// A part in words, and how the program can reduce it; `None` where that is up to the settings.
type Words = fn(&WasteMoment, &Config) -> (String, Option<String>);

/// The largest part that was not requested, in words, and how to reduce it.
fn cause(moment: &WasteMoment, config: &Config) -> (String, Option<String>) {
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

fn fragmentation(moment: &WasteMoment, _: &Config) -> (String, Option<String>) {
    let stranded = moment.sample.parts.stranded_by_fragmentation_bytes;
    let what = if moment.withheld_by_settings_bytes > stranded / 2 {
        "free in pieces that are large enough, but that max_split_size_mb keeps from the request"
    } else {
        "free in pieces too small for the request that needed the device"
    };
    (what.to_owned(), None)
}

fn stream(moment: &WasteMoment, _: &Config) -> (String, Option<String>) {
    let owner = moment.streams.first().map_or(String::new(), |most| format!(" {}", most.stream));
    let what = format!("free on stream{owner} and not available to the stream that needed more");
    let next = format!(
        "allocate on one stream, or call torch.cuda.empty_cache() when the work on stream{owner} is done"
    );
    (what, Some(next))
}

fn pool(moment: &WasteMoment, _: &Config) -> (String, Option<String>) {
    let owner = moment.pools.first().map_or(String::new(), |most| format!(" {}", most.pool));
    let what = format!("free in pool{owner} and not available to requests of other pools");
    let next =
        "let graphs share a pool (torch.cuda.graph_pool_handle), or MemPool(use_on_oom=True)";
    (what, Some(next.to_owned()))
}

fn pending(_: &WasteMoment, _: &Config) -> (String, Option<String>) {
    let what = "freed, but still waiting for other streams that use it (Tensor.record_stream)";
    let next = "let those streams finish earlier, or keep the tensor until they are done instead of record_stream";
    (what.to_owned(), Some(next.to_owned()))
}

fn unsplit(_: &WasteMoment, _: &Config) -> (String, Option<String>) {
    ("the unused rest of blocks larger than their requests".to_owned(), None)
}

fn rounding(_: &WasteMoment, config: &Config) -> (String, Option<String>) {
    let is_of_settings = config.roundup_power2_divisions.iter().any(|divisions| *divisions > 1);
    let next = "use fewer, larger tensors: every block is a multiple of 512 bytes";
    let next = (!is_of_settings).then(|| next.to_owned());
    ("the padding of sizes that were rounded up".to_owned(), next)
}

fn cached(_: &WasteMoment, _: &Config) -> (String, Option<String>) {
    let what = "cached and serves the next request of its kind";
    let next = "torch.cuda.empty_cache() returns it, which is of use only where memory is short";
    (what.to_owned(), Some(next.to_owned()))
}

fn granularity(_: &WasteMoment, _: &Config) -> (String, Option<String>) {
    let what = "the last page of large segments, which are whole pages of 2 MiB";
    let next = "choose sizes that are multiples of 2 MiB, where that is possible";
    (what.to_owned(), Some(next.to_owned()))
}
