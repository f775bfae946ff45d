//! Recordings of real PyTorch, from an empty device on.

use std::collections::BTreeSet;
use std::path::Path;

use replay::start::cold;
use replay::tape::Tape;
use trace_format::Event;

/// A recording from an empty device on.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) tape: Tape,
    pub(crate) streams: usize,
}

/// All recordings, each once.
pub(crate) fn recordings() -> Vec<Recording> {
    let mut seen = BTreeSet::new();
    let load = |path: &Path| {
        let name = path.file_name().expect("a file").to_string_lossy().replace(".pickle.zst", "");
        let mut tape = Tape::open(path, &super::known(path)).expect("a snapshot");
        let device = &mut tape.devices[0];
        (device.base, device.records) = cold(&device.base, &device.records);
        let stream = |event: &Event| match event {
            Event::Alloc { stream, .. } => Some(*stream),
            _ => None,
        };
        let events = device.records.iter().map(|record| &record.event);
        let streams = events.filter_map(stream).collect::<BTreeSet<_>>().len();
        Recording { name, tape, streams }
    };
    let all: Vec<_> = super::all_traces().iter().map(|path| load(path)).collect();
    all.into_iter().filter(|recording| seen.insert(recording.name.clone())).collect()
}
