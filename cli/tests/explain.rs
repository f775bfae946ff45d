//! Out-of-memory messages as a person pastes them: what is printed, word for word, and from where it is read.
//!
//! The expected texts are in `tests/golden`; `UPDATE_GOLDEN=1 cargo test -p cli` writes them anew.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use common::{command, golden};

const FRAGMENTATION: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total \
    capacity of 23.64 GiB of which 1.10 GiB is free. Process 4711 has 512.00 MiB memory in use. Including non-PyTorch \
    memory, this process has 22.02 GiB memory in use. Of the allocated memory 16.00 GiB is allocated by PyTorch, and \
    5.50 GiB is reserved by PyTorch but unallocated.";
const CAPACITY: &str = "RuntimeError: CUDA out of memory. Tried to allocate 1.90 GiB (GPU 3; 15.00 GiB total capacity; \
    12.74 GiB already allocated; 474.56 MiB free; 13.55 GiB reserved in total by PyTorch)";
const OTHERS: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total \
    capacity of 94.96 GiB of which 59.69 MiB is free. Process 502587 has 1.78 GiB memory in use. Process 745081 has \
    86.44 GiB memory in use. Including non-PyTorch memory, this process has 6.62 GiB memory in use. Of the allocated \
    memory 5.97 GiB is allocated by PyTorch, and 116.33 MiB is reserved by PyTorch but unallocated.";
const GRAPHS: &str = "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 47.53 GiB of which \
    896.00 KiB is free. Including non-PyTorch memory, this process has 47.51 GiB memory in use. Of the allocated \
    memory 47.00 GiB is allocated by PyTorch, with 46.22 GiB allocated in private pools (e.g., CUDA Graphs), and \
    149.10 MiB is reserved by PyTorch but unallocated.";

/// What a pasted text gives, and the exit code.
fn paste(args: &[&str], text: &[u8]) -> (String, Option<i32>) {
    let mut line = vec!["explain", "--message"];
    line.extend(args);
    let output = command(&line).write_stdin(text).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

fn json(args: &[&str], text: &[u8]) -> Value {
    let (text, _) = paste(&[args, &["--json"]].concat(), text);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_message_gives_its_verdict_the_numbers_and_the_next_step() {
    for (name, text) in [
        ("fragmentation", FRAGMENTATION),
        ("capacity", CAPACITY),
        ("others", OTHERS),
        ("graphs", GRAPHS),
        (
            "huge",
            "MPS backend out of memory (MPS allocated: 4.74 GiB, other allocations: 1.00 GiB, max allowed: 18.13 \
            GiB). Tried to allocate 40.00 GiB on private pool.",
        ),
        (
            "startup",
            "ValueError: Free memory on device cuda:0 (12.18/23.56 GiB) on startup is less than desired GPU \
            memory utilization (0.92, 21.67 GiB).",
        ),
        (
            "no-numbers",
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        ),
    ] {
        let (text, code) = paste(&[], text.as_bytes());
        assert_eq!(code, Some(0), "{text}");
        golden(&format!("explain-{name}"), &text);
    }
}

#[test]
fn a_log_is_read_from_a_file_from_standard_input_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = "step 1 loss 0.5\n".repeat(500);
    let log = [
        &quiet,
        FRAGMENTATION,
        "\n",
        &quiet,
        CAPACITY,
        "\n",
        FRAGMENTATION,
        "\nNCCL: out of memory\n",
    ]
    .concat();
    let path = folder.path().join("train.log");
    fs::write(&path, &log).unwrap();
    let path = path.to_str().unwrap();
    let (text, code) = paste(&[path], b"");
    assert_eq!(code, Some(0), "{text}");
    golden("explain-log", &text);
    let found = json(&[path], b"");
    assert_eq!(json(&["-"], log.as_bytes()), found);
    assert_eq!(json(&[], log.as_bytes()), found);
    let packed = folder.path().join("train.log.gz");
    let mut packer = flate2::write::GzEncoder::new(
        fs::File::create(&packed).unwrap(),
        flate2::Compression::fast(),
    );
    packer.write_all(log.as_bytes()).unwrap();
    packer.finish().unwrap();
    assert_eq!(json(&[packed.to_str().unwrap()], b""), found);

    let first = &found["messages"][0];
    assert_eq!((&first["verdict"], &first["count"]), (&"fragmentation".into(), &2.into()));
    assert_eq!((&first["line"], &first["byte_offset"]), (&501.into(), &(quiet.len() + 6).into()));
    assert_eq!(first["fields"]["requested_bytes"], 2u64 << 30);
    assert_eq!(first["fields"]["other_process_bytes"], serde_json::json!([512u64 << 20]));
}

#[test]
fn text_without_a_message_is_1_and_no_text_at_all_is_2() {
    let (text, code) = paste(&[], b"FooNet: wanted 3.5 GiB of 8 GiB\n");
    assert_eq!(code, Some(1), "{text}");
    golden("explain-nothing", &text);
    assert_eq!(json(&[], b"")["messages"], serde_json::json!([]));
    let output = command(&["explain"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    golden("explain-no-message", &String::from_utf8(output.stderr).unwrap());
    let (text, code) = paste(&["missing.log"], b"");
    assert!(code == Some(2) && text.contains("missing.log: cannot read"), "{text}");
}

#[test]
fn escapes_and_other_bytes_of_a_log_do_not_reach_the_terminal() {
    let text = [CAPACITY.as_bytes(), b"\x1b[2J\x07\xff\xfe\0 1 GiB\x1b]0;owned\x07"].concat();
    let (text, code) = paste(&[], &text);
    assert!(code == Some(0) && !text.contains('\x1b'), "{text}");
    let (text, _) = paste(&[], b"\x1b[2J 1 GiB\x1b]0;owned\x07");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn each_message_of_the_collection_is_one_message_of_the_command() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/messages/messages.jsonl");
    let lines = fs::read_to_string(own).unwrap();
    for line in lines.lines().step_by(7) {
        let case: Value = serde_json::from_str(line).unwrap();
        let found = json(&[], case["message"].as_str().unwrap().as_bytes());
        assert_eq!(found["messages"].as_array().map(Vec::len), Some(1), "{line}");
        assert_eq!(found["messages"][0]["fields"], case["expected"], "{line}");
    }
}
