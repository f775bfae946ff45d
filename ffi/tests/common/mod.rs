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
    link(
        "cc",
        "gnu11",
        &tests.join(format!("{name}.c")),
        sanitizers,
        &[&filter],
        &scratch.join(name),
    )
}

/// Builds `tests/c/NAME.cpp` with the library and the bridge's headers.
#[allow(dead_code, reason = "not all tests have C++ programs")]
pub(crate) fn build_cpp(name: &str, scratch: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.cpp"));
    link("c++", "gnu++17", &source, &[], &[], &scratch.join(name))
}

fn link(
    compiler: &str,
    standard: &str,
    source: &Path,
    sanitizers: &[&str],
    objects: &[&Path],
    program: &Path,
) -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = library();
    let folder = library.parent().expect("a library lies in a folder");
    run(Command::new(compiler)
        .args([&format!("-std={standard}"), "-Wall", "-Wextra", "-Werror", "-g"])
        .args(sanitizers)
        .args(["-fno-sanitize-recover=undefined", "-pthread", "-I"])
        .arg(ours.join("include"))
        .arg("-I")
        .arg(ours.join("../python/vramtape/_bridge/cpp"))
        .arg(source)
        .args(objects)
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lstdc++", "-o"])
        .arg(program));
    program.to_owned()
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
