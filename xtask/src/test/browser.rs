//! The pages that the command writes, in a browser: where the machine has one.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use crate::{cargo, npm};

use super::parallel::Parallel;
use super::rust::counted;

/// Under what names distributions install Chromium, and Google Chrome is there.
const PROGRAMS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The viewer of flame graphs that opens our exports, and its version.
const SPEEDSCOPE: (&str, &str) = ("speedscope", "1.25.0");

/// Adds them, in the browser that `VRAMTAPE_BROWSER` names, or the first that is found.
pub(super) fn add(parallel: &Parallel) {
    const NAME: &str = "pages in a browser";
    let Some(browser) = find() else {
        let why = "no Chromium found (apt install chromium, or name one in VRAMTAPE_BROWSER)";
        return parallel.tally.skip(NAME, why);
    };
    let (name, version) = SPEEDSCOPE;
    let speedscope = match npm::package(name, version) {
        Ok(package) => package,
        Err(error) => return parallel.tally.skip(NAME, &format!("{error:#}")),
    };
    parallel.add(NAME.to_owned(), move || {
        // Of the workspace, as everything was built for that: for one package alone features differ.
        let page = ["test", "--workspace", "--test", "page", "--", "--ignored"];
        let mut test = cargo::command(&page)?;
        test.env("VRAMTAPE_BROWSER", &browser).env("VRAMTAPE_SPEEDSCOPE", &speedscope);
        counted("page", test)
    });
}

fn find() -> Option<OsString> {
    let runs = |program: &OsString| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    match env::var_os("VRAMTAPE_BROWSER") {
        Some(named) => Some(named),
        None => PROGRAMS.map(OsString::from).into_iter().find(runs),
    }
}
