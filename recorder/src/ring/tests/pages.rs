//! Rings and the pages of `stitch`.

use events::Recorder;
use trace_format::{Addr, Event, PageNumber, StackId};

use super::{reader, ring};

#[test]
fn a_ring_without_room_for_the_pages_names_the_setting() {
    let (_dir, mut recorder) = ring(64);
    let (addr, page) = (Addr(2 << 20), PageNumber(7));
    recorder.record(StackId::NONE, Event::PageMap { addr, page });
    let error = reader(&recorder).base_state().unwrap_err().to_string();
    assert!(error.ends_with("no room for 1 mappings of pages: set ring_events higher"), "{error}");
    recorder.record(StackId::NONE, Event::PageUnmap { addr, page });
    assert_eq!(reader(&recorder).base_state().unwrap().0.pages, []);
}
