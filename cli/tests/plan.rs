//! Plans for `stitch`, and packings of buffers, as a person meets them.

mod common;

use std::fs;
use std::path::Path;

use common::{golden, good, json, vramtape};

fn trace(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    folder.join(format!("{name}.pickle.zst")).to_str().unwrap().to_owned()
}

/// Three buffers: two live beside the long one, one after the other.
const PROBLEM: &str = "id,lower,upper,size\nlong,0,9,4\nfirst,0,3,2\n\"a, b\",3,9,2\n";

fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_plan_is_written_and_a_replay_with_it_reserves_less() {
    let folder = tempfile::tempdir().unwrap();
    let run = trace("gpt2_train-default");
    let plan = folder.path().join("gpt2.vplan").to_str().unwrap().to_owned();
    let found = json(&["plan", &run, "--cold", "-o", &plan]);
    let replays = &found["runs"][0];
    let reserved = |name: &str| replays[name]["peak_reserved_bytes"].as_u64().unwrap();
    assert!(reserved("planned") < reserved("stitch") && reserved("stitch") < reserved("native"));
    assert!(replays["planned"]["efficiency"].as_f64().unwrap() >= 0.99, "{replays}");
    assert_eq!(replays["streams"][0]["left_out"], 0);

    let strategy = format!("stitch:plan:{plan}");
    let replayed = json(&["replay", &run, "--cold", "--strategy", &strategy]);
    assert_eq!(replayed["peak_reserved_bytes"], reserved("planned"));
    assert_eq!(replayed["config"], format!("plan:{plan}"));
    let (text, code) = vramtape(&["plan", &run, "-o", &plan]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("exists: use -f to replace it"), "{text}");
    let (text, code) = vramtape(&["plan", &run, "-o", "-", "--json"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("give -o a file"), "{text}");
    let text = good(&["plan", &run, "--cold", "-f", "-o", &plan]);
    let text = text.replace(folder.path().to_str().unwrap(), "FOLDER").replace(&run, "RUN");
    golden("plan", &text);
}

#[test]
fn a_file_that_is_no_plan_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let run = trace("gpt2_train-default");
    let cut = write(folder.path(), "cut.vplan", "vramtape plan 1\nsequence 0 2\n1024 0 -\n");
    for (plan, problem) in
        [(cut.as_str(), "line 3: the file is cut off"), ("none.vplan", "No such")]
    {
        let (text, code) =
            vramtape(&["replay", &run, "--strategy", &format!("stitch:plan:{plan}")]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(plan) && text.contains(problem), "{text}");
    }
}

#[test]
fn a_problem_is_packed_into_its_capacity_with_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let problem = write(folder.path(), "p.csv", PROBLEM);
    let packed = folder.path().join("packed.csv").to_str().unwrap().to_owned();
    let found = json(&["pack", &problem, "--capacity", "6", "-o", &packed]);
    assert_eq!((&found["fits"], &found["height_bytes"]), (&true.into(), &6.into()));
    let text = fs::read_to_string(&packed).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "id,lower,upper,size,offset");
    assert!(lines[3].starts_with("\"a, b\",3,9,2,"), "{text}");
    let (text, code) = vramtape(&["pack", &problem, "--capacity", "5"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot fit into 5 bytes: more live at once"), "{text}");
    let offsets = good(&["pack", &problem, "-o", "-"]);
    assert_eq!(offsets.lines().count(), 4, "{offsets}");
}

#[test]
fn the_blocks_of_a_run_are_packed() {
    let found = json(&["pack", &trace("gpt2_train-default"), "--time", "5"]);
    let bytes = |name: &str| found[name].as_u64().unwrap() as f64;
    assert!(bytes("height_bytes") <= 1.01 * bytes("bound_bytes"), "{found}");
}

#[test]
fn a_problem_that_cannot_be_packed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let half = 1_u64 << 59;
    let many = format!("a,0,1,{half}\n").repeat(20);
    for (name, content, problem) in [
        ("large.csv", format!("id,lower,upper,size\n{many}"), "add up to 8 EiB or more"),
        ("ends.csv", "id,lower,upper,size\na,5,5,1\n".to_owned(), "line 2"),
        (
            "align.csv",
            "id,lower,upper,size,alignment\na,0,5,1,0\n".to_owned(),
            "an alignment from 1",
        ),
        ("words.txt", "no run".to_owned(), "as no run does"),
    ] {
        let path = write(folder.path(), name, &content);
        let (text, code) = vramtape(&["pack", &path]);
        assert_eq!(code, Some(2), "{name}: {text}");
        assert!(text.contains(problem), "{name}: {text}");
    }
    let (text, code) = vramtape(&["pack", "x.csv", "--time=-1"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("a number of seconds"), "{text}");
}
