//! Notes on facts that a whole snapshot leaves open. Notes on single events are made where the events are read.

use settings::Compat;

use crate::snapshot::{Action, Entry, Snapshot};

/// A sentence for each thing that the file does not hold: what is taken in its place, and what changes that. `assumed`
/// is whose behaviour is taken where the file does not say.
pub(super) fn of_file(snapshot: &Snapshot, assumed: Option<Compat>) -> Vec<String> {
    let has_events = snapshot.traces.iter().any(|trace| !trace.is_empty());
    let no_events = "the file holds no events, so there is nothing to replay: call \
                     torch.cuda.memory._record_memory_history() before the run";
    let no_settings = "the file holds no settings: PyTorch's defaults are taken for those of the run \
                       (--config tries others)";
    let assumed = assumed.filter(|_| has_events).map(|compat| {
        format!(
            "the file does not say which PyTorch wrote it: one that behaves as {} is assumed, by \
             whether its events name their pool (--compat changes it)",
            compat.name()
        )
    });
    let pending = pending_frees(snapshot.traces.iter().flatten());
    let pending = (pending > 0).then(|| {
        format!(
            "{pending} frees waited for another stream: a replay completes them where the run did, \
             under every setting"
        )
    });
    let notes = [
        (!has_events).then(|| no_events.to_owned()),
        (!snapshot.has_settings).then(|| no_settings.to_owned()),
        assumed,
        pending,
    ];
    notes.into_iter().flatten().collect()
}

/// Requests of frees that are not completed at once.
fn pending_frees<'e>(entries: impl Iterator<Item = &'e Entry>) -> u64 {
    let mut pending = 0;
    let mut requested = None;
    for entry in entries {
        let is_completed = entry.action == Action::FreeCompleted && requested == Some(entry.addr);
        pending += u64::from(requested.is_some() && !is_completed);
        requested = (entry.action == Action::FreeRequested).then_some(entry.addr);
    }
    pending + u64::from(requested.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::sample::entry;

    #[test]
    fn a_free_is_pending_where_its_completion_does_not_follow() {
        let [alloc, request, complete] =
            [Action::Alloc, Action::FreeRequested, Action::FreeCompleted].map(|a| entry(a, 512));
        assert_eq!(pending_frees([request, complete, request, complete].iter()), 0);
        assert_eq!(pending_frees([request, alloc, complete, request].iter()), 2);
    }
}
