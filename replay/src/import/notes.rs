//! Notes on facts that a whole snapshot leaves open. Notes on single events are made where the events are read.

use observer::entry::is_free_pair;
use settings::Compat;

use crate::snapshot::{Snapshot, TraceAction, TraceEntry};

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
    let pending = snapshot.traces.iter().map(|trace| pending_frees(trace)).sum::<usize>();
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
fn pending_frees(trace: &[TraceEntry]) -> usize {
    let is_pending = |(at, entry): &(usize, &TraceEntry)| {
        entry.action == TraceAction::FreeRequested && !is_free_pair(entry, trace.get(at + 1))
    };
    trace.iter().enumerate().filter(is_pending).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::sample::entry;

    #[test]
    fn a_free_is_pending_where_its_completion_does_not_follow() {
        let [alloc, request, complete] =
            [TraceAction::Alloc, TraceAction::FreeRequested, TraceAction::FreeCompleted]
                .map(|a| entry(a, 512));
        assert_eq!(pending_frees(&[request, complete, request, complete]), 0);
        assert_eq!(pending_frees(&[request, alloc, complete, request]), 2);
    }
}
