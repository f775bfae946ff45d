//! The rules of CONTRIBUTING.md that a program can check.

use std::fs;
use std::path::{Path, PathBuf};

use tests::{files, root};

/// Widest line of code and prose; rustfmt keeps code at 100, comments may go on to here.
const WIDTH_MAX: usize = 120;
/// Longest file.
const LINES_MAX: usize = 600;
/// Longer files, each with the length it must not exceed; shrinking one lowers its number here.
const LONG_FILES: [(&str, usize); 0] = [];
/// Text that must not stay in the code, and its replacement.
const BANNED: [(&str, &str); 7] = [
    (concat!("dbg", "!("), "a tracing event, or nothing"),
    (concat!("to", "do!("), "the thing itself"),
    (concat!("unimplemented", "!("), "the thing itself, or an error"),
    (concat!("FIX", "ME"), "the fix"),
    (concat!("TO", "DO"), "the thing itself, or an issue"),
    (concat!("X", "XX"), "a sentence that says what is wrong"),
    (concat!("HA", "CK"), "a sentence that says why"),
];
/// Words that make a person of a thing, or that a reader has to look up.
const DIALECT: [&str; 9] = [
    concat!("to", "ld"),
    concat!("te", "lls"),
    concat!("he", "ars"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("who", "ever"),
    concat!("con", "cludes"),
    concat!("con", "cluded"),
    concat!("a", "do"),
];
/// Text that would tie the project to one machine or one provider.
const FOREIGN: [&str; 6] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("pypi", ".org"),
    concat!("python", "hosted"),
];

struct Source {
    name: String,
    text: String,
}

fn sources(extensions: &[&str]) -> Vec<Source> {
    let root = root();
    let found = files(&root, extensions);
    assert!(!found.is_empty(), "no {extensions:?} under {}", root.display());
    let read = |path: PathBuf| Source {
        name: path.strip_prefix(&root).expect("a path below the root").display().to_string(),
        text: fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
    };
    found.into_iter().map(read).collect()
}

fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn lines_are_not_wide() {
    let mut faults = Vec::new();
    for Source { name, text } in sources(&[".rs", ".md", ".py", ".c", ".cpp", ".h"]) {
        let is_prose = Path::new(&name).extension().is_some_and(|end| end == "md");
        for (number, line) in text.lines().enumerate() {
            let cannot_break = is_prose && (line.starts_with('|') || line.contains("]("));
            let width = line.chars().count();
            if width > WIDTH_MAX && !cannot_break {
                faults.push(format!("{name}:{}: {width} columns, at most {WIDTH_MAX}", number + 1));
            }
        }
    }
    none(&faults);
}

#[test]
fn files_are_short() {
    let mut faults = Vec::new();
    for Source { name, text } in sources(&[".rs"]) {
        let lines = text.lines().count();
        let listed = LONG_FILES.iter().find(|(long, _)| *long == name);
        let most = listed.map_or(LINES_MAX, |(_, most)| *most);
        if lines > most {
            faults.push(format!("{name}: {lines} lines, at most {most}: split it by idea"));
        } else if listed.is_some() && lines <= LINES_MAX {
            faults.push(format!("{name}: short again; take it off LONG_FILES"));
        }
    }
    none(&faults);
}

#[test]
fn nothing_unfinished_is_left() {
    let mut faults = Vec::new();
    for Source { name, text } in sources(&[".rs", ".py", ".c", ".cpp", ".h", ".toml"]) {
        for (number, line) in text.lines().enumerate() {
            for (token, instead) in BANNED {
                if line.contains(token) {
                    faults.push(format!("{name}:{}: `{token}`: write {instead}", number + 1));
                }
            }
        }
    }
    none(&faults);
}

#[test]
fn sentences_are_plain() {
    let mut faults = Vec::new();
    for Source { name, text } in sources(&[".rs", ".md", ".py", ".c", ".cpp", ".h"]) {
        if name.starts_with("docs/results/") {
            continue; // Dated pages stay as they were written.
        }
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            let mut words = line.split(|character: char| !character.is_alphabetic());
            if let Some(word) = words.find(|word| DIALECT.contains(word)) {
                faults
                    .push(format!("{name}:{}: \"{word}\": name the actor or the fact", number + 1));
            }
        }
    }
    none(&faults);
}

#[test]
fn nothing_names_a_machine_or_a_registry() {
    let mut faults = Vec::new();
    for Source { name, text } in
        sources(&[".rs", ".py", ".c", ".cpp", ".h", ".toml", ".md", ".json"])
    {
        for (number, line) in text.lines().enumerate() {
            for foreign in FOREIGN {
                if line.contains(foreign) {
                    faults.push(format!("{name}:{}: `{foreign}`", number + 1));
                }
            }
        }
    }
    none(&faults);
}

#[test]
fn versions_are_pinned_in_one_place() {
    let mut faults = Vec::new();
    for Source { name, text } in sources(&["Cargo.toml"]) {
        if name == "Cargo.toml" || name.starts_with("fuzz") || name.contains("/fuzz/") {
            continue; // The root pins; fuzz crates stand outside the workspace, on nightly.
        }
        if !text.contains("[lints]\nworkspace = true") {
            faults.push(format!("{name}: no `[lints] workspace = true`"));
        }
        let tables = text.split("\n[").filter(|table| {
            table.split(']').next().is_some_and(|head| head.ends_with("dependencies"))
        });
        for line in tables.flat_map(|table| table.lines().skip(1)) {
            if line.contains('=') && !line.starts_with('#') && !line.contains("workspace") {
                faults.push(format!("{name}: `{line}`: pin it in the root and use .workspace"));
            }
        }
    }
    none(&faults);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut faults = Vec::new();
    for Source { name, text } in sources(&[".md"]) {
        let folder = root().join(&name).parent().expect("a folder").to_owned();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let pictures = ["src=\"", "srcset=\""]
            .into_iter()
            .flat_map(|key| text.split(key).skip(1).filter_map(|rest| rest.split('"').next()));
        for target in links.chain(pictures).filter(|target| !target.contains("://")) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let document = if path.is_empty() { root().join(&name) } else { folder.join(path) };
            if !document.exists() {
                faults.push(format!("{name}: {target} is not there"));
            } else if !anchor.is_empty() && !anchors(&document).contains(&anchor.to_owned()) {
                faults.push(format!("{name}: {target}: no such heading"));
            }
        }
    }
    none(&faults);
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(document).expect("a readable document");
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_promise_names_the_test_that_holds_it() {
    let text = fs::read_to_string(root().join("SECURITY.md")).expect("a readable file");
    let promised = text.split("\n## ").find(|part| part.starts_with("Promised")).expect("promises");
    let points: Vec<_> = promised.split("\n- ").skip(1).collect();
    let holds = |target: &str| {
        let found = fs::read_to_string(root().join(target)).unwrap_or_default();
        found.contains("#[test]") || target.starts_with("tests/python/") && !found.is_empty()
    };
    let names_one = |point: &&str| {
        point.split("](").skip(1).filter_map(|rest| rest.split(')').next()).any(holds)
    };
    assert!(points.len() > 5, "the promises are gone");
    let without: Vec<_> = points.iter().filter(|point| !names_one(point)).collect();
    assert!(without.is_empty(), "no test is named by: {without:#?}");
}

#[test]
fn the_readme_is_short_and_the_changelog_begins_with_what_is_unreleased() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a readable file");
    assert!(read("README.md").lines().count() <= 110);
    let first =
        read("CHANGELOG.md").lines().find(|line| line.starts_with("## ")).map(str::to_owned);
    assert_eq!(first.as_deref(), Some("## Unreleased"));
}

#[test]
fn the_commands_in_the_documents_exist() {
    let mut faults = Vec::new();
    let mut commands = 0;
    for Source { name, text } in sources(&[".md"]) {
        if name.starts_with("docs/results/") {
            continue; // They have the commands of their day.
        }
        for line in text.lines().filter_map(|line| line.split('#').next()) {
            let words: Vec<_> =
                line.split([' ', '`', ';', '(']).filter(|w| !w.is_empty()).collect();
            for pair in words.windows(3) {
                let there = match pair {
                    ["cargo", "xtask", verb] => {
                        let is_file = |name: &str| root().join("xtask/src").join(name).is_file();
                        is_file(&format!("{verb}.rs")) || is_file(&format!("{verb}/mod.rs"))
                    }
                    ["-p", package, _] | [_, "-p", package] => is_package(package),
                    _ => continue,
                };
                commands += 1;
                if !there {
                    faults.push(format!("{name}: `{}` is not there", pair.join(" ")));
                }
            }
        }
    }
    assert!(commands > 3, "the documents no longer show how to run anything");
    none(&faults);
}

fn is_package(name: &str) -> bool {
    let manifest = Path::new(name).join("Cargo.toml");
    fs::read_to_string(root().join(manifest))
        .is_ok_and(|text| text.contains(&format!("name = \"{name}\"")))
}
