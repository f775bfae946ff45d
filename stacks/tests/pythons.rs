//! Every CPython on this machine: captured stacks are what Python says they are, without its lock and under it.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/walk.py");

/// Programs that may be Pythons: those on the path, and those of pyenv.
fn candidates() -> Vec<PathBuf> {
    let names: Vec<String> = std::iter::once("python3".to_owned())
        .chain((9..=16).map(|minor| format!("python3.{minor}")))
        .collect();
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv")));
    if let Some(versions) = pyenv.and_then(|root| root.join("versions").read_dir().ok()) {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let programs = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    programs.filter(|program| program.is_file()).collect()
}

/// One program for each version of CPython from 3.9 on that can load libraries.
fn pythons() -> BTreeMap<String, PathBuf> {
    const ASK: &str = "import ctypes, sys, sysconfig\n\
                       assert sys.implementation.name == 'cpython' and sys.version_info >= (3, 9)\n\
                       print(sys.version.split()[0], sysconfig.get_config_var('Py_GIL_DISABLED') or '')";
    let mut pythons = BTreeMap::new();
    for program in candidates() {
        let answer = Command::new(&program).args(["-I", "-c", ASK]).output();
        if let Ok(answer) = answer
            && answer.status.success()
        {
            let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            pythons.entry(version).or_insert(program);
        }
    }
    pythons
}

/// The example as a library, built here: `cargo test --all-targets` makes a test of it instead.
fn library() -> PathBuf {
    let own = env::current_exe().unwrap();
    // target/<profile>/deps/<test>
    let target = own.ancestors().nth(3).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "stacks", "--example", "capture"]);
    let built = build.arg("--target-dir").arg(target).status().unwrap();
    assert!(built.success(), "the example is not built: {built}");
    target.join("debug/examples/libcapture.so")
}

fn compare(how: &str) {
    let (pythons, library) = (pythons(), library());
    assert!(library.exists(), "{} is built with the tests", library.display());
    println!("{} versions of CPython to compare with", pythons.len());
    for (version, program) in pythons {
        let mut script = Command::new(&program);
        script.arg(SCRIPT).arg(&library).env("CAPTURE", how);
        let output = script.output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let name = program.display();
        assert!(output.status.success(), "{name} ({version}): {}\n{out}{err}", output.status);
        assert!(err.is_empty(), "{name} ({version}) complains:\n{err}");
        print!("{out}");
    }
}

#[test]
fn frames_that_are_walked_without_pythons_lock_are_those_that_python_sees() {
    compare("python");
}

#[test]
fn frames_that_are_read_under_pythons_lock_are_those_that_python_sees() {
    compare("under_lock");
}

#[test]
fn native_frames_come_before_those_that_python_sees() {
    compare("native");
}
