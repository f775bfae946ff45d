//! The C ABI from C: programs built with AddressSanitizer and UndefinedBehaviorSanitizer that use
//! `libvramtape.so` on the simulated device.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[test]
fn every_call_does_what_the_header_says() {
    passes("calls", &[]);
}

#[test]
fn misuse_is_a_recorded_error_and_changes_nothing() {
    passes("misuse", &[]);
}

#[test]
fn threads_and_forks_neither_hang_nor_lose_memory() {
    passes("threads", &[]);
}

#[test]
fn they_do_so_without_a_recorder_too() {
    passes("threads", &[("VRAMTAPE_CONF", "device:sim,record:off")]);
}

/// Builds `tests/c/NAME.c` and runs it; the test fails with what it printed.
fn passes(name: &str, environment: &[(&str, &str)]) {
    let scratch = tempfile::tempdir().expect("a folder for the program");
    let program = build(name, scratch.path());
    let output = Command::new(&program)
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
        .env("VRAMTAPE_CONF", "device:sim")
        .envs(environment.iter().copied())
        .output()
        .expect("the program can be started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    assert!(text.is_empty(), "{name} printed:\n{text}");
}

fn build(name: &str, scratch: &Path) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let sanitizers = "-fsanitize=address,undefined";
    let filter = scratch.join("filter.o");
    run(Command::new("c++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-g", sanitizers, "-c"])
        .arg(tests.join("filter.cpp"))
        .arg("-o")
        .arg(&filter));
    let program = scratch.join(name);
    let library = library();
    let folder = library.parent().expect("a library lies in a folder");
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", sanitizers])
        .args(["-fno-sanitize-recover=undefined", "-pthread", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(tests.join(format!("{name}.c")))
        .args([&filter, &library])
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lstdc++", "-o"])
        .arg(&program));
    program
}

fn run(command: &mut Command) {
    let output = command.output().expect("a C compiler is installed (cc and c++)");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{text}");
}

/// The shared library that cargo built beside this test.
fn library() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let library = test.with_file_name("libvramtape.so");
    assert!(fs::exists(&library).is_ok_and(|is| is), "cargo built no {}", library.display());
    library
}
