//! C programs that use `libvramtape.so`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The AddressSanitizer that the library was built with, where it was (`xtask/src/test/asan.rs`).
pub(crate) fn runtime() -> Option<OsString> {
    env::var_os("VRAMTAPE_ASAN_RUNTIME")
}

/// Builds `tests/c/NAME.c` with the library, with sanitizers if any are named: those of the C compiler; or, for a
/// library that was built with AddressSanitizer, that one alone, as a process can have only one.
pub(crate) fn build(name: &str, scratch: &Path, sanitizers: &[&str]) -> PathBuf {
    let runtime = runtime();
    let sanitizers = if runtime.is_some() { &[] } else { sanitizers };
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
    let mut compile = Command::new(compiler);
    compile
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
        .arg(program);
    if let Some(runtime) = runtime() {
        // The program has all of it and shows it to the library, which has only calls of it.
        compile
            .arg("-Wl,--whole-archive")
            .arg(runtime)
            .args(["-Wl,--no-whole-archive", "-rdynamic"]);
        compile.args(["-lm", "-ldl", "-lrt"]);
    }
    run(&mut compile);
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
