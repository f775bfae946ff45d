//! Runs that begin in the middle, in words: one sentence about the start, and the label of the recorded settings.

use replay::start::{Departure, Effects, Start};
use serde::Serialize;

use crate::bytes;

/// A start that takes over more than this share of the peak hides what other settings would gain.
const LARGE_SHARE: f64 = 0.1;

/// A start, and how replays begin with it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Started {
    #[serde(flatten)]
    pub(crate) start: Start,
    /// Whether its live blocks are requested anew, from an empty device (`--cold`).
    pub(crate) cold: bool,
}

impl Started {
    /// The sentence that every verb prints. Verbs that compare settings give the recorded peak, and point to `--cold`
    /// where the start is a large part of it.
    pub(crate) fn sentence(self, compared_peak_bytes: Option<u64>) -> String {
        let Start { reserved_bytes, allocated_bytes } = self.start;
        let (reserved, allocated) = (bytes::show(reserved_bytes), bytes::show(allocated_bytes));
        let sentence =
            format!("starts mid-run: {reserved} reserved before, {allocated} of it allocated");
        let is_large = |peak: u64| reserved_bytes as f64 > LARGE_SHARE * peak as f64;
        if self.cold {
            format!("{sentence}; requested anew from an empty device (--cold)\n")
        } else if compared_peak_bytes.is_some_and(is_large) {
            format!(
                "{sentence}; other settings take over these segments: --cold requests the live blocks anew\n"
            )
        } else {
            sentence + "\n"
        }
    }
}

/// The sentence as a paragraph behind an empty line; nothing where the run begins with an empty device.
pub(crate) fn paragraph(started: Option<Started>, compared_peak_bytes: Option<u64>) -> String {
    started.map_or(String::new(), |started| format!("\n{}", started.sentence(compared_peak_bytes)))
}

/// The label of a replay under the recorded settings, in brackets.
pub(crate) fn label(differs: Option<&Departure>, is_cold: bool) -> &'static str {
    match (differs, is_cold) {
        (_, true) => "recorded settings, cold start",
        (Some(_), false) => "recorded settings; replay differs",
        (None, false) => "as recorded",
    }
}

/// By how much a replay differs from its recording, as a line.
pub(crate) fn difference(differs: &Departure) -> String {
    let Departure { recorded, replayed } = differs;
    let mut parts = Vec::new();
    if recorded.peak_reserved_bytes != replayed.peak_reserved_bytes {
        let [one, other] = [recorded, replayed].map(|run| run.peak_reserved_bytes);
        let (mut shown, mut shown_other) = (bytes::show(one), bytes::show(other));
        if shown == shown_other {
            (shown, shown_other) = (format!("{one} bytes"), format!("{other} bytes"));
        }
        parts.push(format!("peak reserved {shown} recorded, {shown_other} replayed"));
    }
    if recorded.segment_calls != replayed.segment_calls {
        let [one, other] = [recorded, replayed].map(|run: &Effects| run.segment_calls);
        parts.push(format!("{one} segment calls recorded, {other} replayed"));
    }
    format!("the replay of the recorded settings differs: {}\n", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Start = Start { reserved_bytes: 2 << 30, allocated_bytes: 1 << 30 };

    #[test]
    fn the_sentence_points_to_cold_where_the_start_is_large() {
        let warm = Started { start: START, cold: false };
        let small = "starts mid-run: 2.00 GiB reserved before, 1.00 GiB of it allocated\n";
        assert_eq!(warm.sentence(None), small);
        assert_eq!(warm.sentence(Some(100 << 30)), small);
        assert!(warm.sentence(Some(4 << 30)).contains("--cold requests"));
        assert!(Started { cold: true, ..warm }.sentence(Some(4 << 30)).ends_with("(--cold)\n"));
    }

    #[test]
    fn the_label_is_earned() {
        let recorded = Effects { peak_reserved_bytes: 3 << 30, segment_calls: 7 };
        let replayed = Effects { segment_calls: 6, ..recorded };
        assert_eq!(Departure::between(recorded, recorded), None);
        let differs = Departure::between(recorded, replayed).unwrap();
        assert_eq!(label(None, false), "as recorded");
        assert_eq!(label(Some(&differs), false), "recorded settings; replay differs");
        let line =
            "the replay of the recorded settings differs: 7 segment calls recorded, 6 replayed\n";
        assert_eq!(difference(&differs), line);
    }
}
