//! Files that are not what they seem: of another user, a link, a pipe, or cut off while they are read.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;
use tempfile::tempdir;
use trace_format::{DeviceId, StackId};

use super::{alloc, live, poll, reader, removed_from, ring, segment, small};
use crate::ring::retention::{Limits, remove_excess};
use crate::ring::ring_file::list_some;
use crate::ring::{RingReader, list_rings};
use crate::{RingOptions, RingRecorder, SystemClock, tape_of_ring};
use events::Recorder;

/// A user that is not the one of the tests.
const OTHER_USER: u32 = 4711;

/// A whole ring of a dead process under a name that is found.
fn dead_ring(dir: &Path, name: &str) -> PathBuf {
    let (_dir, mut recorder) = ring(64);
    (0..10).for_each(|n| recorder.record(StackId::NONE, alloc(n)));
    let path = dir.join(format!("vramtape-{}-{name}.ring", geteuid().as_raw()));
    fs::copy(recorder.ring().path().unwrap(), &path).unwrap();
    path
}

fn refusal(path: &Path) -> String {
    RingReader::open(path).expect_err("refused").to_string()
}

#[test]
fn a_ring_cut_off_under_its_reader_is_an_error_and_no_signal() {
    for size_bytes in [0, 4_096, 4_100, 9_000] {
        let (_dir, mut recorder) = ring(1 << 10);
        segment(&mut recorder);
        (0..40).for_each(|n| recorder.record(StackId::NONE, small(n)));
        let mut polled = reader(&recorder);
        let named = reader(&recorder);
        let mut state = reader(&recorder);
        assert!(poll(&mut polled).0.len() > 30);
        (0..900).for_each(|n| recorder.record(StackId::NONE, small(n)));
        // The writer of this test has the pages mapped and must not touch them from here on.
        let path = recorder.ring().path().unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(size_bytes).unwrap();
        poll(&mut polled);
        let (_, records) = named.newest(u64::MAX);
        assert!(records.len() < 900, "{size_bytes}");
        assert!(state.base_state().is_err());
        for reader in [polled, named, state] {
            let error = reader.check().expect_err("it is shorter").to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
            assert!(error.contains("became shorter"), "{error}");
            assert_eq!(reader.info().device, DeviceId(3), "as it said at first");
        }
        let _ = fs::remove_file(&path);
        std::mem::forget(recorder);
    }
}

#[test]
fn a_tape_of_a_ring_that_is_cut_off_is_an_error() {
    let dir = tempdir().unwrap();
    let path = dead_ring(dir.path(), "1-0");
    assert!(tape_of_ring(&path).is_ok());
    File::options().write(true).open(&path).unwrap().set_len(20_000).unwrap();
    let error = tape_of_ring(&path).expect_err("cut off").to_string();
    assert!(error.contains("its size contradicts its header"), "{error}");
}

#[test]
fn a_link_a_folder_and_a_pipe_are_no_rings_and_nothing_waits_for_them() {
    let dir = tempdir().unwrap();
    let ring = dead_ring(dir.path(), "1-0");
    let planted =
        |name: &str| dir.path().join(format!("vramtape-{}-{name}.ring", geteuid().as_raw()));
    let (link, folder, pipe) = (planted("2-0"), planted("3-0"), planted("4-0"));
    symlink(&ring, &link).unwrap();
    fs::create_dir(&folder).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(list_rings(dir.path()).unwrap(), std::slice::from_ref(&ring));
    assert!(refusal(&link).contains("symbolic link"), "{}", refusal(&link));
    for path in [&folder, &pipe] {
        assert!(refusal(path).contains("a folder, a device or a pipe"), "{}", refusal(path));
        assert!(tape_of_ring(path).is_err());
    }
    assert_eq!(removed_from(dir.path()), [ring]);
    assert!(link.is_symlink() && folder.exists() && pipe.exists());
}

#[test]
fn a_ring_that_others_can_write_is_not_taken_for_ones_own() {
    let dir = tempdir().unwrap();
    let path = dead_ring(dir.path(), "1-0");
    for mode in [0o620, 0o602] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(refusal(&path).contains("other users can write it"), "{}", refusal(&path));
    }
    assert!(RingReader::open_named(&path).is_ok(), "the user named it");
}

#[test]
fn a_ring_of_another_user_is_neither_found_nor_removed() {
    if !geteuid().is_root() {
        println!("not as root: no file can be given to another user");
        return;
    }
    let dir = tempdir().unwrap();
    let (own, planted) = (dead_ring(dir.path(), "1-0"), dead_ring(dir.path(), "2-0"));
    fs::set_permissions(&planted, Permissions::from_mode(0o666)).unwrap();
    chown(&planted, Some(OTHER_USER), None).unwrap();
    assert_eq!(list_rings(dir.path()).unwrap(), std::slice::from_ref(&own));
    assert!(refusal(&planted).contains("belongs to user 4711"), "{}", refusal(&planted));
    assert!(RingReader::open_named(&planted).is_ok(), "root may read it by its name");
    let none = Limits { size_bytes: 0, age: std::time::Duration::ZERO, kept: 0 };
    remove_excess(dir.path(), none);
    assert!(!own.exists() && planted.exists());
    assert_eq!(removed_from(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn names_that_others_planted_neither_stop_a_ring_nor_delay_it() {
    let dir = tempdir().unwrap();
    let (uid, pid) = (geteuid().as_raw(), std::process::id());
    let planted = |name: String| File::create(dir.path().join(name)).unwrap();
    planted(format!("vramtape-{uid}-{pid}-3.ring"));
    (0..100).for_each(|n| drop(planted(format!("vramtape-{uid}-{pid}-3-{n}.ring"))));
    let options = RingOptions {
        dir: dir.path().to_owned(),
        device: DeviceId(3),
        slots: 64,
        has_pages: false,
    };
    let recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
    // Creating one looks at so many only.
    assert!(list_some(dir.path(), 5, usize::MAX).unwrap().len() <= 5);
    assert_eq!(list_some(dir.path(), usize::MAX, 5).unwrap().len(), 5);
    let path = recorder.ring().path().expect("a file under another name");
    assert!(list_rings(dir.path()).unwrap().contains(&path));
    assert_eq!(live(&mut RingReader::open(&path).unwrap()), []);
}
