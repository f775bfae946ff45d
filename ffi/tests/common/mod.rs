//! C programs that use `libvramtape.so`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `tests/c/NAME.c` with the library, with sanitizers if any are named.
pub(crate) fn build(name: &str, scratch: &Path, sanitizers: &[&str]) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let filter = scratch.join("filter.o");
    run(Command::new("c++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-g", "-c"])
        .args(sanitizers)
        .arg(tests.join("filter.cpp"))
        .arg("-o")
        .arg(&filter));
    let program = scratch.join(name);
    let library = library();
    let folder = library.parent().expect("a library lies in a folder");
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"])
        .args(sanitizers)
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
