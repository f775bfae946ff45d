//! Several runs at once, the ranks of a job, as a person meets them: what is said about all of them is what is said
//! about each.
//!
//! The expected texts are in `tests/golden`; `UPDATE_GOLDEN=1 cargo test -p cli` writes them anew.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use common::{command, golden, good, json, vramtape};

const CASES: [&str; 3] =
    ["fitting-block-after-flush", "max-split-size-expandable", "one-shot-side-stream"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

/// A folder as a job leaves it: the tapes of ranks, and what else is written there.
struct Job(tempfile::TempDir);

impl Job {
    /// The tapes of the known cases as ranks 0 to 2, a log of the job and a folder.
    fn new() -> Self {
        let job = Self(tempfile::tempdir().unwrap());
        for (rank, case) in CASES.into_iter().enumerate() {
            job.add(&format!("rank{rank}.vtape"), &format!("tapes/{case}.vtape"));
        }
        fs::write(job.path("train.log"), "step 1 loss 10.8\n").unwrap();
        fs::write(job.path("settings.json"), "{\"config\": \"expandable_segments:True\"}").unwrap();
        fs::write(job.path(".hidden"), "").unwrap();
        fs::create_dir(job.path("checkpoints")).unwrap();
        job
    }

    fn add(&self, name: &str, from: &str) {
        fs::copy(data(from), self.path(name)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn folder(&self) -> String {
        self.0.path().to_str().unwrap().to_owned()
    }

    /// Output without this folder's name.
    fn scrub(&self, text: &str) -> String {
        text.replace(&self.folder(), "JOB")
    }
}

/// A report without how long it took.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("elapsed_s");
            fields.values_mut().for_each(|field| *field = timeless(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = timeless(item.take())),
        _ => {}
    }
    value
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no size"))
}

#[test]
fn compare_of_a_folder_has_the_worst_rank_and_the_spread_of_all_ranks() {
    let job = Job::new();
    let folder = job.folder();
    golden("ranks-compare", &job.scrub(&good(&["compare", &folder])));
    let found = json(&["compare", &folder]);
    let alone: Vec<_> = (0..3)
        .map(|rank| timeless(json(&["compare", &job.name(&format!("rank{rank}.vtape"))])))
        .collect();
    for (rank, alone) in found["ranks"].as_array().unwrap().iter().zip(&alone) {
        assert_eq!(timeless(rank.clone()), *alone, "each rank's report is the one it has alone");
    }
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows[0]["is_recorded"], true);
    for row in rows {
        let is = |report: &&Value| {
            row["strategy"] == report["strategy"] && row["config"] == report["config"]
        };
        let of_rank = |alone: &Value| {
            let reports = alone["rows"].as_array().unwrap();
            let recorded = row["is_recorded"] == true;
            if recorded { reports[0].clone() } else { reports.iter().find(is).unwrap().clone() }
        };
        let reports: Vec<_> = alone.iter().map(of_rank).collect();
        let mut peaks: Vec<_> =
            reports.iter().map(|report| bytes(&report["peak_reserved_bytes"])).collect();
        let worst = &reports[row["worst"]["rank"].as_u64().unwrap() as usize];
        let is_full = |report: &Value| report["num_ooms"].as_i64() > Some(0);
        let ooms = reports.iter().filter(|report| is_full(report)).count();
        assert_eq!(row["ranks_out_of_memory"].as_u64(), Some(ooms as u64));
        assert_eq!(is_full(worst), ooms > 0, "a rank that is out of memory is the worst: {row}");
        let calls =
            worst["device_allocs"].as_i64().unwrap() + worst["device_frees"].as_i64().unwrap();
        assert_eq!(row["worst"]["device_calls"], calls);
        peaks.sort_unstable();
        let spread = &row["peak_reserved"];
        let of = |name: &str| bytes(&spread[name]);
        assert_eq!([of("min_bytes"), of("median_bytes"), of("max_bytes")], peaks[..], "{row}");
    }
    let skipped: Vec<_> =
        found["skipped"].as_array().unwrap().iter().map(|file| &file["file"]).collect();
    let expected = ["checkpoints", "settings.json", "train.log"].map(|name| job.name(name));
    assert_eq!(skipped, expected.iter().collect::<Vec<_>>());
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let job = Job::new();
    for copy in 3..11 {
        job.add(&format!("rank{copy}.vtape"), &format!("tapes/{}.vtape", CASES[copy % 3]));
    }
    for verb in ["compare", "waste", "fit"] {
        let with = |threads: &str| {
            let mut command = command(&[verb, "--json", &job.folder()]);
            let output = command.env("RAYON_NUM_THREADS", threads).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            timeless(serde_json::from_slice(&output.stdout).unwrap())
        };
        let one = with("1");
        assert_eq!(one["ranks"].as_array().unwrap().len(), 11);
        assert_eq!(one["ranks"][10]["name"], "rank10.vtape", "after rank9, and not after rank1");
        assert_eq!(one, with("5"), "{verb}");
        assert_eq!(one, with("64"), "{verb}");
    }
}

#[test]
fn waste_of_ranks_adds_up_for_each_and_shows_each_parts_spread() {
    let job = Job::new();
    let folder = job.folder();
    golden("ranks-waste", &job.scrub(&good(&["waste", &folder])));
    assert_waste_adds_up(&json(&["waste", &folder]));
}

#[test]
fn recorded_traces_are_ranks_too_those_beside_the_checkout_if_there_are_any() {
    let own = data("traces").to_str().unwrap().to_owned();
    let found = json(&["waste", &own]);
    assert_eq!(found["ranks"].as_array().unwrap().len(), 5);
    assert_eq!(found["skipped"].as_array().unwrap().len(), 5, "descriptions are no runs");
    assert_waste_adds_up(&found);

    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let larger = std::env::var_os("VRAMTAPE_TRACES").map_or(beside, PathBuf::from);
    if !larger.is_dir() {
        println!("no {}: only the traces in tests/data were read", larger.display());
        return;
    }
    let found = json(&["waste", larger.to_str().unwrap()]);
    assert!(found["ranks"].as_array().unwrap().len() > 10);
    assert_waste_adds_up(&found);
}

fn assert_waste_adds_up(found: &Value) {
    let ranks = found["ranks"].as_array().unwrap();
    let reserved = |rank: &Value| bytes(&rank["peak"]["reserved_bytes"]);
    let parts = found["parts"].as_array().unwrap();
    let field =
        |part: &Value| format!("{}_bytes", part["part"].as_str().unwrap().replace(' ', "_"));
    let of = |rank: &Value, part: &Value| {
        let name = field(part).replace("cached_and_reusable", "cached_reusable");
        bytes(&rank["peak"][&name])
    };
    for rank in ranks {
        assert_eq!(parts.iter().map(|part| of(rank, part)).sum::<u64>(), reserved(rank));
    }
    let worst = &ranks[found["worst_rank"].as_u64().unwrap() as usize];
    assert_eq!(parts.iter().map(|part| bytes(&part["worst_bytes"])).sum::<u64>(), reserved(worst));
    for part in parts {
        let all = ranks.iter().map(|rank| of(rank, part));
        assert_eq!(bytes(&part["min_bytes"]), all.clone().min().unwrap(), "{part}");
        assert_eq!(bytes(&part["max_bytes"]), all.max().unwrap(), "{part}");
        assert_eq!(bytes(&part["worst_bytes"]), of(worst, part), "{part}");
    }
    let is_full = |rank: &&Value| rank["ooms_total"].as_u64() > Some(0);
    let full = ranks.iter().filter(is_full).count();
    assert_eq!(found["ranks_out_of_memory"].as_u64(), Some(full as u64));
    assert_eq!(is_full(&worst), full > 0);
}

#[test]
fn fit_of_ranks_is_the_capacity_that_the_largest_needs() {
    let job = Job::new();
    let folder = job.folder();
    golden("ranks-fit", &job.scrub(&good(&["fit", &folder])));
    let found = json(&["fit", &folder]);
    let recorded = &found["rows"][0];
    let needs: Vec<_> = (0..3)
        .map(|rank| json(&["fit", &job.name(&format!("rank{rank}.vtape"))]))
        .map(|alone| bytes(&alone["rows"][0]["capacity_bytes"]))
        .collect();
    let largest = needs.iter().max().unwrap();
    assert_eq!(bytes(&recorded["capacity_bytes"]), *largest);
    assert_eq!(needs[recorded["largest_rank"].as_u64().unwrap() as usize], *largest);
    let (text, code) = vramtape(&["fit", &folder, "--capacity", "1GiB"]);
    assert!(code == Some(1) && text.contains("1 of 3 do not"), "{text}");
}

#[test]
fn tune_takes_folders_and_files_and_means_the_same_runs() {
    let job = Job::new();
    let names: Vec<_> = (0..3).map(|rank| job.name(&format!("rank{rank}.vtape"))).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let flags = ["--lines", "12"];
    let mut by_folder = json(&[&["tune", &job.folder()], &flags[..]].concat());
    let by_name = json(&[&["tune"], &names[..], &flags].concat());
    assert_eq!(by_folder["runs"], serde_json::json!(["rank0.vtape", "rank1.vtape", "rank2.vtape"]));
    assert_eq!(by_folder["skipped"].as_array().unwrap().len(), 3);
    by_folder["skipped"] = serde_json::json!([]);
    assert_eq!(by_folder, by_name);
}

#[test]
fn folders_and_files_mix_and_every_device_is_a_rank() {
    let job = Job::new();
    let two_devices = data("snapshots/2.7-two-devices.pickle").to_str().unwrap().to_owned();
    let found = json(&["compare", &two_devices, &job.folder()]);
    let name = |rank: &Value| rank["name"].as_str().unwrap().to_owned();
    let names: Vec<_> = found["ranks"].as_array().unwrap().iter().map(name).collect();
    let expected = [
        "2.7-two-devices.pickle device 0",
        "2.7-two-devices.pickle device 1",
        "rank0.vtape",
        "rank1.vtape",
        "rank2.vtape",
    ];
    assert_eq!(names, expected);
    let alone = json(&["compare", &two_devices]);
    assert_eq!(alone["ranks"].as_array().unwrap().len(), 2, "one file with two devices");
    let chosen = json(&["compare", &two_devices, "--device", "1"]);
    assert_eq!(chosen["device"], 1);
    assert_eq!(timeless(chosen["rows"].clone()), timeless(alone["ranks"][1]["rows"].clone()));

    let other = Job::new();
    let found = json(&["waste", &job.folder(), &other.folder()]);
    let names: Vec<_> = found["ranks"].as_array().unwrap().iter().map(name).collect();
    assert!(
        names[3].ends_with("rank0.vtape") && names[3] != names[0],
        "the names differ: {names:?}"
    );
}

#[test]
fn a_broken_rank_is_an_error_that_names_it_unless_it_may_be_left_out() {
    let job = Job::new();
    let folder = job.folder();
    fs::write(job.path("rank3.vtape"), "").unwrap();
    let (text, code) = vramtape(&["compare", &folder]);
    assert_eq!(code, Some(2), "{text}");
    golden("ranks-broken", &job.scrub(&text));

    let mut damaged = fs::read(data("tapes/one-shot-side-stream.vtape")).unwrap();
    damaged[80] ^= 0x55;
    fs::write(job.path("rank4.vtape"), damaged).unwrap();
    fs::write(job.path("snapshot.pickle"), b"\x80\x04\x95\x08\x00segments, and then no more")
        .unwrap();
    for verb in ["compare", "waste", "fit", "tune"] {
        let found = json(&[verb, &folder, "--keep-going", "--compat", "2.15"]);
        let skipped = found["skipped"].as_array().unwrap();
        let names: Vec<_> = skipped.iter().map(|file| file["file"].as_str().unwrap()).collect();
        let broken = ["rank3.vtape", "snapshot.pickle"].map(|name| job.name(name));
        for file in &broken {
            assert!(names.contains(&file.as_str()), "{verb}: {names:?}");
        }
        let has = |name: &str| found.to_string().contains(name);
        assert!(has("rank0.vtape") && has("rank2.vtape"), "{verb}");
    }
    let empty = job.name("rank3.vtape");
    let (text, code) = vramtape(&["compare", "--keep-going", &empty, &empty]);
    assert!(code == Some(2) && text.contains("no run could be read"), "{text}");
}

#[test]
fn a_wrong_option_is_not_reported_as_a_broken_rank() {
    let job = Job::new();
    let folder = job.folder();
    let flags: [&[&str]; 3] = [
        &["--config", "max_split_size_mb:3"],
        &["--strategy", "bfc:grow:1"],
        &["--capacity", "80"],
    ];
    for flags in flags {
        let (text, code) = vramtape(&[&["compare", &folder, "--keep-going"], flags].concat());
        assert_eq!(code, Some(2), "{text}");
        assert!(!text.contains("--keep-going leaves"), "{text}");
    }
    let (text, code) = vramtape(&["waste", &folder, "--strategy", "bfc"]);
    assert!(code == Some(2) && text.contains("choose native, expandable or stitch"), "{text}");
}

#[test]
fn a_folder_without_runs_is_an_error_that_lists_its_content() {
    let job = Job::new();
    let empty = job.name("checkpoints");
    let (text, code) = vramtape(&["compare", &empty]);
    assert_eq!(code, Some(2));
    assert!(text.contains("checkpoints holds no tape, snapshot or log: it is empty"), "{text}");
    fs::write(job.path("checkpoints/model.pt"), "PK\x03\x04").unwrap();
    let (text, code) = vramtape(&["waste", &empty]);
    assert_eq!(code, Some(2));
    assert!(text.contains("model.pt is no run"), "{text}");
    let (text, code) = vramtape(&["fit", &job.name("missing")]);
    assert!(code == Some(2) && text.contains("missing: No such file"), "{text}");
}

#[test]
fn the_page_of_several_ranks_has_the_strategies_of_each() {
    let job = Job::new();
    let page = job.name("page.html");
    let found = json(&["compare", &job.folder(), "--html", &page]);
    let html = fs::read_to_string(&page).unwrap();
    let devices = tests::page::header(&html)["devices"].as_array().unwrap().clone();
    let ranks = found["ranks"].as_array().unwrap();
    assert_eq!(devices.len(), ranks.len());
    let peaks = |rows: &Value| -> Vec<u64> {
        rows.as_array().unwrap().iter().map(|row| bytes(&row["peak_reserved_bytes"])).collect()
    };
    for (at, (device, rank)) in devices.iter().zip(ranks).enumerate() {
        assert_eq!(device["run"], rank["name"]);
        let plot = tests::page::json(&html, &format!("d{at}/plots/strategies"));
        assert_eq!(peaks(&plot["rows"]), peaks(&rank["rows"]));
    }
}
