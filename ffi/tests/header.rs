//! `include/vramtape.h` is what the exports say.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_committed_header_is_the_generated_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("include/vramtape.h");
    let generated = generate(root);
    if env::var_os("UPDATE_HEADER").is_some() {
        fs::write(&path, &generated).expect("the header can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "ffi/include/vramtape.h is out of date: run `UPDATE_HEADER=1 cargo test -p ffi --test \
         header` and commit it"
    );
}

/// Every symbol that starts with `vramtape_` and is exported to C callers is declared.
#[test]
fn every_export_is_declared() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = generate(root);
    let mut exports = 0;
    for entry in fs::read_dir(root.join("src/abi")).expect("the exports are there") {
        let path = entry.expect("the exports can be listed").path();
        let source = fs::read_to_string(&path).expect("a source file");
        let names = source
            .split("#[unsafe(no_mangle)]")
            .skip(1)
            .filter_map(|after| after.split_once("fn ")?.1.split_once('('))
            .map(|(name, _)| name);
        for name in names {
            exports += 1;
            let declared = header.matches(&format!("{name}(")).count();
            assert_eq!(declared, 1, "declarations of {name} of {}", path.display());
        }
    }
    assert!(exports > 20, "only {exports} exports were found: does this test still read them?");
}

fn generate(root: &Path) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    // The modules that it names are read with it.
    let exports = root.join("src/abi/mod.rs");
    let builder = cbindgen::Builder::new().with_config(config).with_src(exports);
    let mut header = Vec::new();
    builder.generate().expect("the exports can be read").write(&mut header);
    String::from_utf8(header).expect("the header is UTF-8")
}
