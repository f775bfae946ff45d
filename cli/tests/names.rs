//! Names and sizes as people write them, and errors that name the true cause.

mod common;

use std::fs;

use common::{good, json, vramtape};

fn trace(name: &str) -> String {
    format!("{}/../tests/data/snapshots/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A tape in a folder of its own.
fn tape(folder: &tempfile::TempDir) -> String {
    let tape = folder.path().join("run.vtape").display().to_string();
    good(&["import", &trace("2.9-expandable.pickle"), "-o", &tape]);
    tape
}

fn error(args: &[&str]) -> String {
    let (text, code) = vramtape(args);
    assert_eq!(code, Some(2), "{args:?}: {text}");
    text
}

#[test]
fn a_capacity_is_read_in_every_usual_spelling_and_refused_without_a_unit() {
    let run = trace("2.9-expandable.pickle");
    let capacity =
        |size: &str| json(&["replay", &run, "--capacity", size])["capacity_bytes"].as_u64();
    for size in ["24GiB", "24GB", "24G", "24 gib", "24g"] {
        assert_eq!(capacity(size), Some(24 << 30), "{size}");
    }
    let text = error(&["replay", &run, "--capacity", "24"]);
    assert!(text.contains("24 has no unit: write 24GiB"), "{text}");
}

#[test]
fn a_gpu_is_known_by_its_short_name_and_its_product_name() {
    let run = trace("2.9-expandable.pickle");
    let name = |gpu: &str| {
        let found = json(&["fit", &run, "--gpu", gpu, "--checks", "0"]);
        found["on"]["name"].as_str().map(str::to_owned)
    };
    assert_eq!(name("4090").as_deref(), Some("rtx4090"));
    assert_eq!(name("NVIDIA H100 80GB HBM3").as_deref(), Some("h100"));
    let (text, _) = vramtape(&["fit", &run, "--gpu", "a100", "--checks", "0"]);
    assert!(text.contains("--gpu a100 is read as a100-80gb; the other is a100-40gb"), "{text}");
    let text = error(&["fit", &run, "--gpu", "a200"]);
    assert!(text.contains("did you mean b200, h200, a100-80gb?"), "{text}");
    let text = error(&["fit", &run, "--gpu", "raspberry"]);
    assert!(text.contains("--gpu list") && !text.contains("did you mean"), "{text}");
}

#[test]
fn a_tape_of_ours_can_be_verified() {
    let tapes = format!("{}/../tests/data/tapes", env!("CARGO_MANIFEST_DIR"));
    let tape = format!("{tapes}/one-shot-side-stream.vtape");
    assert!(good(&["verify", &tape]).contains("the same as recorded"));
    assert_eq!(json(&["verify", &tape])["same"], true);
}

#[test]
fn info_lists_the_runs_of_a_folder_and_other_verbs_refer_to_it() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder);
    fs::write(folder.path().join("train.log"), "epoch 1\n").unwrap();
    let name = folder.path().display().to_string();
    let text = good(&["info", &name]);
    assert!(text.contains("run.vtape") && text.contains("train.log"), "{text}");
    let found = json(&["info", &name]);
    assert_eq!(
        (&found["runs"][0]["name"], &found["runs"][0]["devices"]),
        (&"run.vtape".into(), &1.into())
    );
    for args in [&["replay", &name][..], &["verify", &name]] {
        let text = error(args);
        assert!(
            text.contains("is a folder") && text.contains("`vramtape info"),
            "{args:?}: {text}"
        );
    }
}

#[test]
fn other_files_are_refused_by_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let (empty, archive) = (file("empty.pickle", b""), file("model.pt", b"PK\x03\x04\x14\0\0\0"));
    let missing = folder.path().join("missing.vtape").display().to_string();
    for verb in ["info", "replay", "verify", "waste"] {
        assert!(error(&[verb, &empty]).contains("is empty: record the run again"), "{verb}");
        assert!(error(&[verb, &archive]).contains("a checkpoint of torch.save"), "{verb}");
        let text = error(&[verb, &missing]);
        assert!(text.starts_with("error: cannot read") && text.contains("No such file"), "{text}");
    }
    assert!(error(&["profile"]).contains("with vramtape.profile("));
}
