//! Messages in logs: all of them, each once, with its place, however often and between whatever they are.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;

const CAPACITY: &str = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 16.00 GiB of \
    which 1.00 GiB is free. Including non-PyTorch memory, this process has 14.90 GiB memory in use. Of the allocated \
    memory 14.50 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated. If reserved but \
    unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
const OLD: &str = "CUDA out of memory. Tried to allocate 98.00 MiB (GPU 3; 39.59 GiB total capacity; 36.46 GiB \
    already allocated; 57.44 MiB free; 36.76 GiB reserved in total by PyTorch)";

fn verdicts(text: &str) -> Vec<(OomVerdict, u64, u64)> {
    let of = |message: &Message| (message.verdict, message.line, message.count);
    explain(text.as_bytes()).messages.iter().map(of).collect()
}

#[test]
fn a_log_has_each_message_once_with_its_first_line_and_its_count() {
    let mut log = String::new();
    for step in 0..400 {
        writeln!(log, "step {step}: loss 0.{step}, memory 3.00 GiB allocated").unwrap();
        if step % 100 == 7 {
            writeln!(log, "[rank0]: torch.OutOfMemoryError: {CAPACITY}").unwrap();
        }
        if step == 50 {
            writeln!(log, "RuntimeError: {OLD}").unwrap();
        }
    }
    log.push_str("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n");
    let expected = [
        (OomVerdict::Capacity, 9, 4),
        (OomVerdict::Capacity, 53, 1),
        (OomVerdict::Unknown, 406, 1),
    ];
    assert_eq!(verdicts(&log), expected);
    let report = explain(log.as_bytes());
    let first = &report.messages[0];
    assert!(
        log[first.byte_offset as usize..]
            .starts_with("OutOfMemoryError: CUDA out of memory. Tried")
    );
}

#[test]
fn a_long_log_is_the_same_in_parts_of_any_size() {
    let filler = "epoch 1 loss 0.5 tokens/s 12345 reserved 3.00 GiB\n".repeat(3000);
    let log = [&filler, CAPACITY, "\n", &filler, OLD, "\n"].concat().repeat(9);
    let whole = explain(log.as_bytes());
    assert_eq!(whole.messages.iter().map(|message| message.count).collect::<Vec<_>>(), [9, 9]);
    for size in [1, 1000, 1 << 20, 3 << 20] {
        let mut scanner = Scanner::default();
        log.as_bytes().chunks(size).for_each(|part| scanner.push(part));
        assert_eq!(report(scanner, &[]), whole, "parts of {size}");
    }
}

#[test]
fn two_messages_in_a_row_stay_two_and_neither_takes_the_others_numbers() {
    let cut = "Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB";
    let report = explain(
        format!("CUDA out of memory. {cut}. CUDA out of memory. {cut} of which 2.00 GiB is free.")
            .as_bytes(),
    );
    let free = report.messages.iter().map(|message| message.fields.free_bytes.get());
    assert_eq!(free.collect::<Vec<_>>(), [None, Some(2 << 30)]);
    // A head that was cut off: the second capacity begins a message of its own.
    let report =
        explain(b"GPU 0 has a total capacity of 8.00 GiB. GPU 1 has a total capacity of 9.00 GiB.");
    assert_eq!(report.messages.len(), 2);
}

#[test]
fn errors_without_numbers_come_last_and_once_a_line() {
    let log = format!(
        "NCCL WARN Cuda failure 2 'out of memory'\nNCCL WARN Cuda failure 2 'out of memory'\n\n{OLD}\n"
    );
    assert_eq!(verdicts(&log), [(OomVerdict::Capacity, 4, 1), (OomVerdict::Unknown, 1, 2)]);
    let one = "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /opt/rmm/mr.hpp:70: \
        cudaErrorMemoryAllocation out of memory";
    let report = explain(one.as_bytes());
    assert_eq!((report.messages.len(), report.messages[0].framework), (1, "rmm"));
}

#[test]
fn an_error_of_another_library_on_the_next_line_is_a_message_of_its_own() {
    let lines = [
        ("NCCL WARN Cuda failure 2 'out of memory'", 2),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED", 2),
        ("This error means you ran out of memory on your GPU.", 1),
        ("RuntimeError: CUDA error: out of memory", 1),
    ];
    for (line, count) in lines {
        assert_eq!(verdicts(&format!("{OLD}\n{line}\n")).len(), count, "{line}");
    }
}

#[test]
fn generations_are_known_by_their_text() {
    let new = |hint: &str| {
        CAPACITY
            .replace("PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.", hint)
    };
    let link = "https://docs.pytorch.org/docs/stable/notes/cuda.html";
    for (text, generation) in [
        (OLD.replace("36.76 GiB reserved in total by PyTorch", "300.00 MiB cached"), "1.0-1.3"),
        (OLD.to_owned(), "1.4-1.9"),
        (
            format!(
                "{OLD} If reserved memory is >> allocated memory try setting max_split_size_mb"
            ),
            "1.10-2.0",
        ),
        (CAPACITY.replace("capacity", "capacty"), "2.1"),
        (CAPACITY.split(" If").next().unwrap_or_default().to_owned(), "2.2+"),
        (new("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid"), "2.2-2.8"),
        (CAPACITY.to_owned(), "2.9-2.10"),
        (
            new(&format!(
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation. ({link})"
            )),
            "2.11+",
        ),
    ] {
        assert_eq!(explain(text.as_bytes()).messages[0].generation, generation, "{text}");
    }
}

#[test]
fn of_other_text_the_sizes_are_listed() {
    let report = explain(b"FooNet ran out: wanted 3.5 GiB of 8GiB, step 12");
    assert_eq!(
        (report.messages.len(), report.sizes),
        (0, vec!["3.5 GiB".to_owned(), "8GiB".to_owned()])
    );
    assert_eq!(explain(b""), Report::default());
}

#[test]
fn far_too_many_processes_and_messages_are_bounded() {
    let many = "Process 1 has 1.00 MiB memory in use. ".repeat(5000);
    let report =
        explain(format!("CUDA out of memory. Tried to allocate 1.00 GiB. {many}").as_bytes());
    assert_eq!(report.messages[0].processes.len(), 1024);
    let log: String =
        (0..1200).fold(String::new(), |log, n| log + &format!("Tried to allocate {n}.00 MiB.\n"));
    let report = explain(log.as_bytes());
    assert_eq!((report.messages.len(), report.left_out), (1000, 200));
}

/// Pieces of which hostile texts are made.
const PIECES: [&str; 16] = [
    CAPACITY,
    OLD,
    "CUDA out of memory. ",
    "Tried to allocate ",
    "99999999999999999999999999999.99 GiB",
    "0 bytes",
    "Process 18446744073709551616 has 1 TiB memory in use. ",
    "GPU 0 has a total capacity of ",
    "Free memory on device cuda:0 (1/2 GiB) on startup ",
    "MPS backend out of memory (MPS allocated: 1 GB, other allocations: 2 GB, max allowed: 1 GB)",
    "Allocation on device 0 would exceed allowed memory. Requested: 1 GiB Device limit: 0 bytes",
    "RESOURCE_EXHAUSTED: ",
    "bad_alloc: ",
    "\n> ",
    "\\n",
    "\"",
];

proptest! {
    #[test]
    fn no_text_panics(
        picks in prop::collection::vec((0..PIECES.len(), 0usize..60, 0usize..400), 0..12),
        noise in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut text = Vec::new();
        for (piece, skip, length) in picks {
            let piece = PIECES[piece].as_bytes();
            let piece = &piece[skip.min(piece.len())..];
            text.extend_from_slice(&piece[..length.min(piece.len())]);
        }
        let at = noise.len() * 7 % (text.len() + 1);
        text.splice(at..at, noise);
        for message in explain(&text).messages {
            prop_assert!(message.byte_offset <= text.len() as u64);
            serde_json::to_string(&message).unwrap();
        }
    }
}
