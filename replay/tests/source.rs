//! Input is recognised by its content, whatever it is called, and never read past its limit.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use replay::source::{SourceError, read_all};

const TEXT: &[u8] = b"}(\x8c\x08segments]\x8c\x0ddevice_traces]u.";

fn written(folder: &tempfile::TempDir, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("run.pickle");
    fs::write(&path, bytes).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// With the window of `zstd --long=27`.
fn zstd_long(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn plain_gzip_and_zstd_read_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in
        [TEXT.to_vec(), gzip(TEXT), zstd_long(TEXT), [gzip(b"}"), gzip(&TEXT[1..])].concat()]
    {
        let input = read_all(&written(&folder, &bytes), 1).unwrap();
        assert_eq!((input.bytes.as_slice(), input.stored_bytes), (TEXT, bytes.len() as u64));
    }
}

#[test]
fn a_small_file_cannot_unpack_without_end_unless_it_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let zeros = vec![0; 80 << 20];
    for bytes in [gzip(&zeros), zstd_long(&zeros)] {
        let path = written(&folder, &bytes);
        let error = match read_all(&path, 1) {
            Err(error @ SourceError::TooMuch { .. }) => error.to_string(),
            // Half a megabyte of gzip may unpack to so much.
            answer => {
                assert!(answer.is_ok() && bytes.len() > 64 << 10, "{} bytes", bytes.len());
                continue;
            }
        };
        assert!(error.contains("run.pickle: ") && error.contains("--trust-factor"), "{error}");
        assert_eq!(read_all(&path, 2).unwrap().bytes.len(), 80 << 20);
    }
}

#[test]
fn a_cut_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [gzip(TEXT), zstd_long(TEXT)] {
        let path = written(&folder, &bytes[..bytes.len() - 3]);
        let error = read_all(&path, 1).unwrap_err().to_string();
        assert!(error.contains("run.pickle: cannot read ("), "{error}");
    }
    let error = read_all(&folder.path().join("missing"), 1).unwrap_err().to_string();
    assert!(error.contains("missing: cannot read: "), "{error}");
}
