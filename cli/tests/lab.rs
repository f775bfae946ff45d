//! The verbs that ask what another policy, another device or other settings would have done, as a person meets them.
//!
//! The expected texts are in `tests/golden`; `UPDATE_GOLDEN=1 cargo test -p cli` writes them anew.

mod common;

use std::path::Path;

use serde_json::Value;

use common::{golden, good, json, vramtape};

/// A snapshot kept in the repository, and what is known about its run.
fn trace(name: &str) -> (String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    let file = |end: &str| folder.join(format!("{name}{end}")).to_str().unwrap().to_owned();
    (file(".pickle.zst"), file(".json"))
}

#[test]
fn waste_takes_the_worst_moment_apart() {
    let (snapshot, meta) = trace("gpt2_train-default");
    golden("waste", &good(&["waste", &snapshot, "--meta", &meta]));
    let (snapshot, meta) = trace("resnet50_batchsweep-oom");
    let args = ["waste", &snapshot, "--meta", &meta];
    golden("waste-oom", &good(&args));

    let found = json(&[&args[..], &["--points", "17"]].concat());
    let part = |moment: &Value, name: &str| moment[format!("{name}_bytes")].as_u64();
    let names = [
        "requested",
        "rounding",
        "unsplit_remainder",
        "cached_reusable",
        "stranded_by_stream",
        "stranded_by_pool",
        "stranded_by_fragmentation",
        "pending_free",
        "driver_granularity",
    ];
    let series = found["series"].as_array().unwrap();
    assert!(series.len() > 10 && series.len() <= 17, "{}", series.len());
    for moment in series.iter().chain([&found["peak"], &found["filled"], &found["ooms"][0]]) {
        let sum: u64 = names.iter().map(|name| part(moment, name).unwrap()).sum();
        assert_eq!(part(moment, "reserved"), Some(sum), "{moment}");
    }
    assert_eq!(found["ooms_total"], 1);
    assert!(found["explanation"].as_str().unwrap().contains("no fragmentation"), "{found}");
    assert!(!found["inferred"].as_array().unwrap().is_empty(), "{found}");
    let other = good(&["waste", &snapshot, "--strategy", "expandable"]);
    assert!(other.starts_with("expandable, expandable_segments:True, capacity"), "{other}");
}

#[test]
fn fit_names_the_smallest_device_and_says_whether_a_gpu_is_enough() {
    let (snapshot, meta) = trace("gpt2_train-default");
    let args = ["fit", &snapshot, "--meta", &meta, "--config", "max_split_size_mb:64"];
    let (text, code) = vramtape(&[&args[..], &["--gpu", "V100-16GB"]].concat());
    assert_eq!(code, Some(0), "{text}");
    golden("fit", &text);
    let (text, code) = vramtape(&[&args[..], &["--gpu", "rtx3080"]].concat());
    assert!(code == Some(1) && text.contains("OOMs"), "{text}");

    let found = json(&[&args[..], &["--capacity", "15GiB"]].concat());
    let row = &found["rows"][found["recorded_row"].as_u64().unwrap() as usize];
    assert_eq!(row["on_device"]["device_bytes"], 15_u64 << 30);
    let capacity = row["capacity_bytes"].as_u64().unwrap();
    let ooms = |bytes: u64| {
        let capacity = format!("{bytes}B");
        let args = ["replay", &snapshot, "--config", "", "--capacity", &capacity];
        json(&args)["num_ooms"].as_i64().unwrap()
    };
    assert_eq!(ooms(capacity), 0, "what it names is enough");
    assert!(ooms(capacity - (2 << 20)) > 0, "and a page less is not");
}

#[test]
fn fit_lists_the_gpus_it_knows_without_a_run() {
    golden("fit-gpus", &good(&["fit", "--gpu", "list"]));
    assert_eq!(json(&["fit", "--gpu", "list"])[0]["name"], "gb200");
    let (snapshot, _) = trace("gpt2_train-default");
    for (name, args) in [
        ("error-gpu", &["fit", snapshot.as_str(), "--gpu", "h1000"][..]),
        ("error-fit-no-run", &["fit", "--gpu", "h100"]),
    ] {
        let (text, code) = vramtape(args);
        assert_eq!(code, Some(2), "{text}");
        golden(name, &text);
    }
}

/// A tape of a known case; `replay/tests/known_cases.rs` makes them.
fn case(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tapes");
    folder.join(format!("{name}.vtape")).to_str().unwrap().to_owned()
}

#[test]
fn tune_prints_the_line_to_export_and_the_replays_that_show_it() {
    let (snapshot, meta) = trace("gpt2_train-default");
    golden("tune", &good(&["tune", &snapshot, "--meta", &meta]));
    let case = case("one-shot-side-stream");
    golden("tune-nothing", &good(&["tune", &case]));

    let found = json(&["tune", &snapshot, &case]);
    let export = found["export"][0].as_str().unwrap();
    let settings = export.strip_prefix("export PYTORCH_CUDA_ALLOC_CONF=").expect("a line");
    for (at, run) in [&snapshot, &case].into_iter().enumerate() {
        let replayed = json(&["replay", run, "--config", settings]);
        let after = &found["best"]["runs"][at];
        assert_eq!(after["peak_reserved_bytes"], replayed["peak_reserved_bytes"]);
        assert_eq!(after["num_ooms"], replayed["num_ooms"]);
    }
    let (old, meta) = trace("resnet50_batchsweep-oom");
    let both = ["tune", &old, &case, "--meta", &meta];
    let (text, code) = vramtape(&both);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("as 2.11 and as 2.15): choose one with --compat"), "{text}");
    good(&[&both[..], &["--compat", "2.15"]].concat());
}

#[test]
fn known_cases_are_explained_with_the_next_thing_to_try() {
    for name in ["max-split-size-expandable", "one-shot-side-stream", "fitting-block-after-flush"] {
        golden(&format!("case-{name}"), &good(&["waste", &case(name)]));
    }
}

#[test]
fn edit_writes_a_tape_with_changed_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let case = case("one-shot-side-stream");
    let merged = file("merged.vtape");
    let args = ["edit", &case, "merge-stream:0x7", "-o", &merged];
    golden("edit", &good(&args).replace(folder.path().to_str().unwrap(), "FOLDER"));
    let reserved = |run: &str| json(&["replay", run])["peak_reserved_bytes"].as_u64();
    assert_eq!(reserved(&case), Some(4000 << 20));
    assert_eq!(reserved(&merged), Some(2000 << 20), "on one stream it is shared");
    good(&["info", &merged]);
    let (text, code) = vramtape(&args);
    assert!(code == Some(2) && text.contains("use -f"), "{text}");

    let (snapshot, _) = trace("gpt2_train-default");
    let smaller = file("smaller.vtape");
    let report = json(&["edit", &snapshot, "scale:0.5", "-o", &smaller]);
    assert!(report["scaled"].as_u64() > Some(1000), "{report}");
    assert!(reserved(&smaller) < reserved(&snapshot).map(|bytes| bytes * 6 / 10));
    for (name, flags) in [
        ("error-edit-nothing", &[][..]),
        ("error-edit-stream", &["merge-stream:7"]),
        ("error-edit-pattern", &["drop:no_such_function"]),
        ("error-edit-scale", &["scale:half"]),
        ("error-edit-kind", &["halve:0.5"]),
    ] {
        let (text, code) =
            vramtape(&[&["edit", snapshot.as_str(), "-o", &file("x")], flags].concat());
        assert_eq!(code, Some(2), "{text}");
        golden(name, &text);
    }
}

#[test]
fn an_edit_flag_gives_the_results_of_the_edited_tape() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("edited.vtape").to_str().unwrap().to_owned();
    let (snapshot, meta) = trace("gpt2_train-default");
    let run = [&snapshot, "--meta", &meta];
    let edits = ["scale:0.5:attention", "free-after:10:gpt2.py:305"];
    good(&[&["edit"], &run[..], &edits[..], &["-o", &tape]].concat());
    let flags = ["--edit", edits[0], "--edit", edits[1]];
    let ask = |verb: &str, more: &[&str]| {
        let on_the_way = json(&[&[verb], &run[..], &flags[..], more].concat());
        (on_the_way, json(&[&[verb, &tape], more].concat()))
    };
    let without_time = |rows: &Value| {
        let mut rows = rows.clone();
        let timed = rows.as_array_mut().into_iter().flatten();
        timed.for_each(|row| row["elapsed_s"] = Value::Null);
        rows
    };
    let (found, apart) = ask("compare", &[]);
    golden("compare-edited", &good(&[&["compare"], &run[..], &flags[..]].concat()));
    assert_eq!(without_time(&found["edited"]["rows"]), without_time(&apart["rows"]));
    let recorded = json(&[&["compare"], &run[..]].concat());
    assert_eq!(without_time(&found["rows"]), without_time(&recorded["rows"]), "as without edits");
    assert!(recorded.get("edited").is_none(), "{recorded}");
    let (scaled, freed) = (&found["edited"]["scaled"], &found["edited"]["freed_early"]);
    assert!(scaled.as_u64() > Some(100) && freed.as_u64() > Some(100), "{scaled} {freed}");
    assert_eq!(found["edited"]["edits"][1], edits[1]);

    let both = |(found, apart): (Value, Value), key: &str| {
        assert_eq!(found.pointer(key), apart.pointer(key));
        assert!(found.pointer(key).is_some_and(Value::is_u64), "{key}: {found}");
    };
    both(ask("replay", &["--config", ""]), "/peak_reserved_bytes");
    both(ask("waste", &["--config", ""]), "/peak/reserved_bytes");
    both(ask("fit", &["--checks", "1"]), "/rows/0/capacity_bytes");

    let several = [&["compare", &snapshot, &snapshot], &flags[..]].concat();
    let ranks = json(&several);
    let most = |rows: &Value| rows[0]["peak_reserved"]["max_bytes"].as_u64().unwrap();
    assert!(most(&ranks["edited"]) < most(&ranks["rows"]), "{ranks}");
    assert!(good(&several).contains("most, edited"));
}

#[test]
fn replay_and_compare_show_the_default_pool_of_captured_graphs_apart() {
    let (graphs, _) = trace("cudagraph_pools-default");
    let (no_graphs, _) = trace("gpt2_train-default");
    let report = json(&["replay", &graphs, "--strategy", "stitch"]);
    let [default, private] = ["default", "private"].map(|kind| &report["pools"][kind]);
    // The rest of the memory is that of the private pools, which are as in PyTorch.
    let efficiency = |of: &Value| of["efficiency"].as_f64().unwrap();
    assert!(efficiency(default) > 0.99 && efficiency(private) < 0.9, "{report}");
    assert!(good(&["replay", &graphs]).contains("\nprivate pools   355.68 MiB live, "));
    assert!(json(&["replay", &no_graphs])["pools"].is_null());
    for (run, is_shown) in [(graphs, true), (no_graphs, false)] {
        let table = good(&["compare", &run]);
        assert_eq!(table.contains("efficiency  default pool's  device calls"), is_shown, "{table}");
    }
}

#[test]
fn waste_and_tune_replay_other_pools_for_captured_graphs() {
    let (snapshot, _) = trace("cudagraph_pools-default");
    let found = json(&["waste", &snapshot])["advice"]["graph_pools"].clone();
    let bytes = |name: &str| found[format!("{name}peak_reserved_bytes")].as_u64().unwrap();
    assert_eq!(found["pools"], 5);
    assert!(bytes("shared_") < bytes("") && bytes("primed_") < bytes("shared_"), "{found}");
    assert_eq!(json(&["tune", &snapshot, "--lines", "3"])["advice"]["graph_pools"], found);
    for verb in ["waste", "tune"] {
        let text = good(&[verb, &snapshot]);
        assert!(text.contains("Graphs: pools that begin with one segment of their size"), "{text}");
    }
    let (snapshot, _) = trace("gpt2_train-default");
    assert!(json(&["waste", &snapshot])["advice"]["graph_pools"].is_null());
}
