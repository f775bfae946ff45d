//! The program as `cargo xtask` starts it. With this file cargo builds it beside the tests, and they compare allocators
//! with that build.

use std::process::Command;

#[test]
fn a_folder_without_pytorch_is_an_error_that_names_it() {
    let mut peers = Command::new(env!("CARGO_BIN_EXE_peers"));
    peers.args(["no/site-packages", "--library", "libvramtape.so", "--simcuda", "simcuda"]);
    let output = peers.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("no PyTorch: cannot read no/site-packages/torch/version.py"), "{text}");
}
