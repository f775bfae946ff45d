//! `vramtape export -o FILE.speedscope.json`, opened by speedscope itself: the npm package that `VRAMTAPE_SPEEDSCOPE`
//! names.

use std::env;
use std::fs;
use std::path::Path;

use tests::browser::Browser;

use super::vramtape;

/// Waits for a text on the page; returns all of it.
const SHOWN: &str = "new Promise((done) => {
    const begun = performance.now();
    const look = () => {
        const text = document.body.innerText;
        if (text.includes('at the peak') || performance.now() - begun > 10000) done(text); else setTimeout(look, 20);
    };
    look();
})";

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn speedscope_opens_an_export() {
    let package = env::var_os("VRAMTAPE_SPEEDSCOPE").expect("the folder of npm's speedscope");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.speedscope.json");
    let run = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/data/traces/gpt2_train-default.pickle.zst");
    vramtape(&["export", run.to_str().unwrap(), "-o", file.to_str().unwrap()]);
    let script = folder.path().join("load.js");
    let text = serde_json::to_string(&fs::read_to_string(&file).unwrap()).unwrap();
    let load = format!("speedscope.loadFileFromBase64('run.speedscope.json', btoa({text}))");
    fs::write(&script, load).unwrap();
    let page = Path::new(&package).join("dist/release/index.html");
    let url = format!("file://{}#localProfilePath={}", page.display(), script.display());
    let mut browser = Browser::start();
    browser.open(&url, 1280, "light");
    let shown = browser.evaluate(SHOWN);
    assert!(shown.to_string().contains("device 0: at the peak (1/2)"), "{shown}");
    let title = browser.evaluate("document.title");
    assert_eq!(title, "gpt2_train-default.pickle.zst - speedscope");
}
