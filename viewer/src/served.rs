//! The page from a server: the document without the chunks that are fetched one by one.

use rustc_hash::FxHashMap;

use crate::chunk::Chunk;
use crate::page::{Page, TEMPLATE};

/// In front of a policy in the template, and what the document's script may do besides: fetch from its own server.
const POLICY: &str = "http-equiv=\"Content-Security-Policy\" content=\"";
const FETCHES: &str = "connect-src 'self'; ";

/// A browser that finds no icon requests one.
const NO_ICON: &str = "<link rel=\"icon\" href=\"data:,\">\n<title>";

/// Where chunks are, relative to the document (`viewer/page/app/source.ts`).
const MARK: &str = " data-chunks=\"chunk/\"";

/// A page in parts, for a server.
pub struct ServedPage {
    document: Vec<u8>,
    policy: String,
    chunks: FxHashMap<String, Vec<u8>>,
}

impl From<Page> for ServedPage {
    fn from(mut page: Page) -> Self {
        let rest = std::mem::take(&mut page.rest);
        let (before, behind) = TEMPLATE.split_once(POLICY).expect("the built page has a policy");
        let (policy, behind) = behind.split_once('"').expect("a closed attribute");
        let policy = format!("{FETCHES}{policy}");
        let template = format!("{before}{POLICY}{policy}\"{behind}");
        let template = template.replacen("<title>", NO_ICON, 1);
        let mut document = Vec::new();
        page.put(&mut document, &template, MARK, &[]).expect("memory takes every byte");
        let chunks = rest.into_iter().map(|Chunk { id, text }| (id, text)).collect();
        Self { document, policy, chunks }
    }
}

impl ServedPage {
    /// The HTML, with the chunks of the first picture. It fetches the others from `chunk/ID` beside it.
    pub fn document(&self) -> &[u8] {
        &self.document
    }

    /// The document's content security policy.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The text of a chunk that is not in the document; an ID without one is an empty chunk.
    pub fn chunk(&self, id: &str) -> Option<&[u8]> {
        self.chunks.get(id).map(Vec::as_slice)
    }
}
