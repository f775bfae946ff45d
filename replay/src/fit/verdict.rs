//! The answer for the device that was asked for: yes, no or unknown.

use allocator::stats::ByteSize;
use serde::Serialize;

use super::Fit;
use crate::ending::Ending;
use crate::strategy::table::row;

/// Whether the run fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// As it was recorded.
    Yes,
    /// Not as recorded, but with other settings.
    WithSettings,
    /// Under no strategy that is available live.
    No,
    /// What the run asked for fits; it might have asked for more.
    Unknown,
}

/// The answer for one device, or for a device for each of several ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether it fits.
    pub answer: Answer,
    /// The settings that it is about; empty is PyTorch's defaults.
    pub settings: Option<String>,
    /// What is left of the device at the peak under these settings, as far as the run went.
    pub spare_bytes: Option<u64>,
    /// The smallest capacity that is enough, under the settings with which it is smallest; `None` where none is. Of an
    /// unknown answer, and of a lower bound's no, the run needs at least this.
    pub needs_bytes: Option<u64>,
    /// The same as one line.
    pub text: String,
}

impl Verdict {
    /// Whether the answer is a yes.
    pub fn is_yes(&self) -> bool {
        matches!(self.answer, Answer::Yes | Answer::WithSettings)
    }
}

/// One row of a table, of one rank or of all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneRow<'r> {
    pub(crate) strategy: &'r str,
    pub(crate) config: &'r str,
    /// Whether it is as recorded.
    pub(crate) is_recorded: bool,
    /// The smallest capacity that is enough.
    pub(crate) capacity_bytes: Option<u64>,
    /// What is left of the device that was asked for; `None` where the run does not fit.
    pub(crate) spare_bytes: Option<u64>,
}

/// The verdict on the device called `name` for one run, whose first row is as recorded. `None` where no device was
/// asked for.
pub fn verdict(rows: &[Fit], name: &str, ending: &Ending) -> Option<Verdict> {
    rows.first()?.on_device?;
    let rows: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(at, fit)| OneRow {
            strategy: &fit.strategy,
            config: &fit.config,
            is_recorded: at == 0,
            capacity_bytes: fit.capacity_bytes,
            spare_bytes: fit.on_device.filter(|on| on.num_ooms == 0).map(|on| on.spare_bytes),
        })
        .collect();
    let reason = ending.is_lower_bound().then(|| ending.reason());
    Some(verdict_of(&rows, name, reason.as_deref()))
}

/// The verdict from rows; `cut` is the reason why the run might have asked for more.
pub(crate) fn verdict_of(rows: &[OneRow<'_>], name: &str, cut: Option<&str>) -> Verdict {
    let live = || rows.iter().filter(|one| row(one.strategy).is_ok_and(|row| row.is_proven()));
    let recorded = live().find(|one| one.is_recorded && one.spare_bytes.is_some());
    // Of equal rows the first counts.
    let roomiest = live().rev().max_by_key(|one| one.spare_bytes);
    let fitting = recorded.or(roomiest.filter(|one| one.spare_bytes.is_some()));
    let smallest = live()
        .filter_map(|one| Some((one.capacity_bytes?, one)))
        .min_by_key(|(bytes, one)| (*bytes, !one.is_recorded));
    let needs_bytes = smallest.map(|(bytes, _)| bytes);
    let (answer, about) = match (fitting, cut) {
        (Some(one), Some(_)) => (Answer::Unknown, Some(one)),
        (Some(one), None) if one.is_recorded => (Answer::Yes, Some(one)),
        (Some(one), None) => (Answer::WithSettings, Some(one)),
        (None, _) => (Answer::No, smallest.map(|(_, one)| one)),
    };
    let left = ByteSize(fitting.and_then(|one| one.spare_bytes).unwrap_or_default());
    let with = about.map_or("", |one| words(one.config));
    let needs = needs_bytes.map_or("more than any device has".to_owned(), |bytes| {
        format!("{} for the allocator", ByteSize(bytes))
    });
    let text = match (answer, cut) {
        (Answer::Yes, _) => format!("{name}: yes as recorded, {left} left"),
        (Answer::WithSettings, _) => {
            format!("{name}: not as recorded; with {with} yes, {left} left")
        }
        (Answer::Unknown, cut) => {
            let with = match about {
                Some(one) if !one.is_recorded => format!("not as recorded; with {with} "),
                _ => String::new(),
            };
            format!(
                "{name}: {with}unknown: {}, and needs at least {needs}",
                cut.unwrap_or("the run was cut")
            )
        }
        (Answer::No, None) => format!("{name}: no, it needs {needs}, with {with}"),
        (Answer::No, Some(cut)) => {
            format!("{name}: no, it needs at least {needs}, with {with}; {cut}")
        }
    };
    let spare_bytes = fitting.and_then(|one| one.spare_bytes);
    let settings = about.map(|one| one.config.to_owned());
    Verdict { answer, settings, spare_bytes, needs_bytes, text }
}

fn words(config: &str) -> &str {
    if config.is_empty() { "PyTorch's defaults" } else { config }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn one(config: &str, needs_gib: u64, device_gib: u64) -> OneRow<'_> {
        OneRow {
            strategy: "native",
            config,
            is_recorded: config.is_empty(),
            capacity_bytes: Some(needs_gib * GIB),
            spare_bytes: (device_gib * GIB).checked_sub(needs_gib * GIB),
        }
    }

    fn text(rows: &[OneRow<'_>], cut: Option<&str>) -> (Answer, String) {
        let found = verdict_of(rows, "gpu", cut);
        (found.answer, found.text)
    }

    #[test]
    fn each_answer_is_one_line_with_its_settings_and_what_is_left() {
        let rows = |gib| {
            [
                one("", 13, gib),
                one("max_split_size_mb:128", 14, gib),
                one("expandable_segments:True", 10, gib),
            ]
        };
        let cut = "the run died out of memory";
        for (gib, cut, answer, expected) in [
            (16, None, Answer::Yes, "gpu: yes as recorded, 3.00 GiB left"),
            (
                12,
                None,
                Answer::WithSettings,
                "gpu: not as recorded; with expandable_segments:True yes, 2.00 GiB left",
            ),
            (
                9,
                None,
                Answer::No,
                "gpu: no, it needs 10.00 GiB for the allocator, with expandable_segments:True",
            ),
            (
                16,
                Some(cut),
                Answer::Unknown,
                "gpu: unknown: the run died out of memory, and needs at least 10.00 GiB for the allocator",
            ),
            (
                12,
                Some(cut),
                Answer::Unknown,
                "gpu: not as recorded; with expandable_segments:True unknown: the run died out of memory, and needs at \
                 least 10.00 GiB for the allocator",
            ),
            (
                9,
                Some(cut),
                Answer::No,
                "gpu: no, it needs at least 10.00 GiB for the allocator, with expandable_segments:True; the run died \
                 out of memory",
            ),
        ] {
            assert_eq!(text(&rows(gib), cut), (answer, expected.to_owned()), "{gib} GiB");
        }
    }

    #[test]
    fn a_model_that_fits_is_no_yes() {
        let model = OneRow { strategy: "bfc", ..one("", 1, 16) };
        let model = OneRow { is_recorded: false, ..model };
        assert_eq!(text(&[one("", 20, 16), model], None).0, Answer::No);
        let nothing = OneRow { capacity_bytes: None, ..one("", 20, 16) };
        let (answer, text) = text(&[nothing], None);
        assert!(answer == Answer::No && text.contains("more than any device has"), "{text}");
    }
}
