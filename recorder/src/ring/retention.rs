//! Rings of processes that died: evidence for `vramtape recover`, and memory that stays in use until it is removed.
//!
//! Creating a ring first prunes rings of dead processes: the newest are kept for a week, up to a size limit. Removals
//! are logged.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::statvfs;

use super::clock_snapshot;
use super::file_region::FileRegion;
use super::ring_file::{
    self, CANDIDATES_MAX, NAMES_MAX, Whose, is_kept, is_live, list_rings, list_some,
};

/// A file that is no ring and older than this was left by a process that died while it made one.
const UNFINISHED_AGE: Duration = Duration::from_secs(60);

/// A node of eight GPUs has as many processes. Each ring of the usual size takes 43 MiB.
const KEPT: usize = 8;

/// How much of dead rings is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Together; the last one stays whatever its size.
    pub(super) size_bytes: u64,
    /// Since they were last written.
    pub(super) age: Duration,
    /// Rings of processes that ended by themselves and kept them: the newest so many stay.
    pub(super) kept: usize,
}

impl Limits {
    /// A gibibyte, which is two dozen rings of the usual size, or half of a small file system; a week.
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let stat = statvfs(dir)?;
        let total_bytes = stat.f_blocks.saturating_mul(stat.f_frsize);
        Ok(Self {
            size_bytes: (1 << 30).min(total_bytes / 2),
            age: Duration::from_secs(7 * 24 * 60 * 60),
            kept: KEPT,
        })
    }
}

#[derive(Debug)]
struct Dead {
    path: PathBuf,
    size_bytes: u64,
    last_written: SystemTime,
    is_kept: bool,
}

/// Removes the dead rings beyond the limits, and says how many. What cannot be removed stays, for `vramtape clean` to
/// say why.
pub(super) fn remove_excess(dir: &Path, limits: Limits) {
    let mut dead: Vec<Dead> = list_some(dir, NAMES_MAX, CANDIDATES_MAX)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|path| look(&path).ok().flatten())
        .collect();
    dead.sort_by_key(|ring| std::cmp::Reverse(ring.last_written));
    // A ring that its process kept at its end gives way to any of a killed one.
    dead.sort_by_key(|ring| ring.is_kept);
    let (mut kept_bytes, mut kept, mut removed, mut removed_bytes) = (0, 0, 0, 0);
    for (at, ring) in dead.iter().enumerate() {
        let is_old = ring.last_written.elapsed().is_ok_and(|age| age > limits.age);
        let fits = at == 0 || kept_bytes + ring.size_bytes <= limits.size_bytes;
        kept += usize::from(ring.is_kept);
        if fits && !is_old && (!ring.is_kept || kept <= limits.kept) {
            kept_bytes += ring.size_bytes;
        } else if fs::remove_file(&ring.path).is_ok() && !ring.is_kept {
            removed += 1;
            removed_bytes += ring.size_bytes;
        }
    }
    if removed > 0 {
        tracing::warn!(
            "removed {removed} rings of killed processes from {} ({} MiB): the newest are kept for a week, up to {} \
             MiB. Run `vramtape recover` before that to make tapes of them",
            dir.display(),
            removed_bytes >> 20,
            limits.size_bytes >> 20
        );
    }
}

/// Removes this user's rings in `dir` whose processes are dead, and adds them to `removed`.
///
/// # Errors
/// Where `dir` cannot be read or a ring cannot be removed; rings before it are gone.
pub fn remove_dead_rings(dir: &Path, removed: &mut Vec<PathBuf>) -> io::Result<()> {
    for path in list_rings(dir)? {
        match look(&path)
            .and_then(|dead| dead.map_or(Ok(false), |_| fs::remove_file(&path).map(|()| true)))
        {
            Ok(true) => removed.push(path),
            Ok(false) => {}
            // Its process removed it in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The ring, if its process is dead and this user's.
fn look(path: &Path) -> io::Result<Option<Dead>> {
    let file = ring_file::open(path, Whose::Own)?;
    let metadata = file.metadata()?;
    if is_live(&file) {
        return Ok(None);
    }
    let made = metadata.modified()?;
    let last_written = match FileRegion::open(file).and_then(|ring| last_snapshot_time(&ring)) {
        Ok(moment) => moment.max(made),
        // Between its creation and its lock a ring looks dead; it is not sealed then.
        Err(_) if made.elapsed().is_ok_and(|age| age > UNFINISHED_AGE) => made,
        Err(_) => return Ok(None),
    };
    Ok(Some(Dead {
        path: path.to_owned(),
        size_bytes: metadata.blocks() * 512,
        last_written,
        is_kept: is_kept(&metadata),
    }))
}

/// The time of the ring's last clock snapshot. Writes through a mapping do not change the file's own time.
fn last_snapshot_time(ring: &FileRegion) -> io::Result<SystemTime> {
    let snapshot = clock_snapshot::newest(ring);
    ring.check()?;
    let since_1970 = Duration::from_nanos(snapshot.moment.unix_ns);
    Ok(SystemTime::UNIX_EPOCH.checked_add(since_1970).unwrap_or(SystemTime::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::getuid;
    use tempfile::{TempDir, tempdir};
    use trace_format::DeviceId;

    use super::*;
    use crate::clock::manual::ManualClock;
    use crate::{RingOptions, RingRecorder};

    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn limits(size_bytes: u64) -> Limits {
        Limits { size_bytes, age: 100 * HOUR, kept: 2 }
    }

    /// A ring whose process lives, which began to record at this Unix time.
    fn live_ring(dir: &Path, began: Duration) -> RingRecorder<ManualClock> {
        let clock = ManualClock::default();
        clock.suspend(began.as_nanos().try_into().unwrap());
        let options =
            RingOptions { dir: dir.to_owned(), device: DeviceId(0), slots: 64, has_pages: false };
        RingRecorder::new(&options, clock).unwrap()
    }

    /// As the ring would be had its process died, under another name; made so many hours ago.
    fn leave(ring: &RingRecorder<ManualClock>, name: &str, hours: u32) -> PathBuf {
        let ring = ring.ring().path().expect("a file");
        let path =
            ring.with_file_name(ring.file_name().unwrap().to_str().unwrap().replace(".ring", name));
        // A copy has no lock.
        fs::copy(&ring, &path).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - HOUR * hours).unwrap();
        path
    }

    /// Rings of dead processes of which only the files' times say when, so many hours ago; and the size of each.
    fn dead_rings(hours: &[u32]) -> (TempDir, Vec<PathBuf>, u64) {
        let dir = tempdir().unwrap();
        let ring = live_ring(dir.path(), Duration::ZERO);
        let paths: Vec<_> =
            hours.iter().map(|&hours| leave(&ring, &format!("-{hours}.ring"), hours)).collect();
        let size_bytes = fs::metadata(&paths[0]).unwrap().blocks() * 512;
        (dir, paths, size_bytes)
    }

    fn stay(paths: &[PathBuf]) -> Vec<bool> {
        paths.iter().map(|path| path.exists()).collect()
    }

    #[test]
    fn the_last_of_the_dead_stay_as_many_as_fit() {
        let (dir, paths, size_bytes) = dead_rings(&[30, 1, 20, 2]);
        remove_excess(dir.path(), limits(4 * size_bytes));
        assert_eq!(stay(&paths), [true; 4]);
        remove_excess(dir.path(), limits(3 * size_bytes - 1));
        assert_eq!(stay(&paths), [false, true, false, true]);
        remove_excess(dir.path(), limits(0));
        assert_eq!(
            stay(&paths),
            [false, true, false, false],
            "the last one is what a crash is asked about"
        );
    }

    #[test]
    fn rings_that_were_kept_give_way_to_those_of_killed_processes() {
        let (dir, paths, size_bytes) = dead_rings(&[1, 2, 3, 50]);
        for path in &paths[..3] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
        }
        remove_excess(dir.path(), limits(u64::MAX));
        assert_eq!(stay(&paths), [true, true, false, true], "the newest two of those kept");
        remove_excess(dir.path(), limits(size_bytes));
        assert_eq!(stay(&paths), [false, false, false, true]);
    }

    #[test]
    fn a_ring_is_kept_on_request_and_is_live_until_its_process_ends() {
        let dir = tempdir().unwrap();
        let ring = live_ring(dir.path(), Duration::ZERO);
        let path = ring.ring().path().expect("a file");
        assert!(ring.ring().keep());
        ring.ring().remove();
        let metadata = fs::metadata(&path).expect("it is there");
        assert!(is_kept(&metadata) && is_live(&File::open(&path).unwrap()));
        assert!(!ring.ring().keep(), "there is nothing to keep any more");
    }

    #[test]
    fn the_old_go_and_the_living_stay() {
        let (dir, paths, _) = dead_rings(&[99, 101]);
        let living = live_ring(dir.path(), Duration::ZERO);
        let path = living.ring().path().expect("a file");
        remove_excess(dir.path(), limits(u64::MAX));
        assert_eq!(stay(&paths), [true, false]);
        remove_excess(dir.path(), Limits { size_bytes: 0, age: Duration::ZERO, kept: 0 });
        assert_eq!(stay(&paths), [false, false]);
        assert!(path.exists());
    }

    #[test]
    fn a_process_that_ran_for_long_has_not_died_long_ago() {
        let dir = tempdir().unwrap();
        let hour_ago = (SystemTime::now() - HOUR).duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let ring = live_ring(dir.path(), hour_ago);
        let path = leave(&ring, "-dead.ring", 500);
        remove_excess(dir.path(), limits(u64::MAX));
        assert!(path.exists(), "made 500 hours ago, last written an hour ago");
    }

    #[test]
    fn keeps_unrecognized_files_that_may_become_rings() {
        let (dir, _, _) = dead_rings(&[1]);
        let unfinished = dir.path().join(format!("vramtape-{}-1-0.ring", getuid().as_raw()));
        fs::write(&unfinished, "").unwrap();
        remove_excess(dir.path(), limits(0));
        assert!(unfinished.exists());
        File::open(&unfinished).unwrap().set_modified(SystemTime::now() - 200 * HOUR).unwrap();
        remove_excess(dir.path(), limits(0));
        assert!(!unfinished.exists());
    }
}
