//! The data of a page that `vramtape view` wrote.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

/// The page's header.
///
/// # Panics
/// Where the page has none.
pub fn header(html: &str) -> Value {
    serde_json::from_str(element(html, "header")).expect("a header")
}

/// A chunk that is JSON, such as `d0/plots/waste`.
///
/// # Panics
/// Where the page does not have it.
pub fn json(html: &str, id: &str) -> Value {
    let packed = STANDARD.decode(element(html, id)).expect("base64");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("a gzip stream of text");
    serde_json::from_str(&text).expect("JSON")
}

fn element<'h>(html: &'h str, id: &str) -> &'h str {
    let (_, behind) = html.split_once(&format!("id=\"{id}\">")).expect("an element of this id");
    behind.split_once("</script>").expect("its end").0
}
