//! The `vramtape` command: everything is in the library, for the Python package calls it too.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os()).into()
}
