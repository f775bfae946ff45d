//! The warning where a ring has no file.

use std::io;

use super::region::Region;
use super::{RingOptions, SLOTS_MIN, ring_file, shape_of};

/// Why the ring is in this process's memory only, and what to do.
pub(super) fn anonymous(
    options: &RingOptions,
    text_bytes: usize,
    size_bytes: u64,
    error: &io::Error,
) -> String {
    let dir = options.dir.display();
    let consequence = "if this process is killed, its last events are lost";
    if error.kind() != io::ErrorKind::StorageFull {
        return format!(
            "no ring in {dir}: {error}; {consequence}. Set VRAMTAPE_RINGS to a folder on a tmpfs that can be written"
        );
    }
    // Sizes that fit are found by the check that creating the file makes.
    let fits = |slots: &usize| {
        let size_bytes = Region::size_bytes(shape_of(*slots, options.has_pages, text_bytes));
        size_bytes.is_some_and(|bytes| ring_file::has_room(&options.dir, bytes).is_ok())
    };
    let slots = options.slots.max(SLOTS_MIN).checked_next_power_of_two().unwrap_or(usize::MAX);
    let mut smaller = (1..=slots.ilog2() - SLOTS_MIN.ilog2()).map(|halvings| slots >> halvings);
    let smaller = smaller.find(fits).map_or_else(String::new, |slots| {
        format!(", or make the ring smaller (ring_events:{slots} in VRAMTAPE_CONF)")
    });
    format!(
        "{dir} has no room for a ring of {} MiB ({error}); {consequence}. Pass --shm-size=1g to docker, set \
         VRAMTAPE_RINGS to a folder on a larger tmpfs{smaller}",
        size_bytes.div_ceil(1 << 20)
    )
}

#[cfg(test)]
mod tests {
    use trace_format::DeviceId;

    use super::*;

    fn options(dir: &str) -> RingOptions {
        RingOptions { dir: dir.into(), device: DeviceId(0), slots: 1 << 40, has_pages: false }
    }

    #[test]
    fn a_small_folder_is_named_with_every_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let (options, size_bytes) = (options(dir.path().to_str().unwrap()), 43 << 20);
        let error = io::Error::new(io::ErrorKind::StorageFull, "it has 64 MiB free");
        let text = anonymous(&options, 1 << 20, size_bytes, &error);
        let begin = format!(
            "{} has no room for a ring of 43 MiB (it has 64 MiB free); ",
            dir.path().display()
        );
        assert!(text.starts_with(&begin), "{text}");
        for way in ["--shm-size=1g", "VRAMTAPE_RINGS", "(ring_events:"] {
            assert!(text.contains(way), "{text}");
        }
        assert!(!text.contains('\n'));
    }

    #[test]
    fn a_folder_that_is_not_there_needs_another() {
        let error = io::Error::from(io::ErrorKind::NotFound);
        let text = anonymous(&options("/nowhere"), 1 << 20, 43 << 20, &error);
        assert!(text.starts_with("no ring in /nowhere: "), "{text}");
        assert!(text.contains("VRAMTAPE_RINGS") && !text.contains("docker"), "{text}");
    }
}
