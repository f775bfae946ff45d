//! A restricted reader of Python pickles, protocols 0 to 5: dicts, lists, tuples, strings and numbers. An opcode that
//! would import or call anything is an error, so reading a file from a stranger is safe. No length in the file is
//! trusted, values live in an arena (nesting cannot overflow the stack), and memory is bounded by [`Limits`].

mod error;
mod json;
mod machine;
pub(crate) mod opcode;
mod strings;
mod text;
mod tree;

pub use error::{PickleError, Problem};
pub use json::read_json;
pub use strings::Text;
pub use tree::{Node, Tree, Value};

/// How much a pickle may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Values in containers, and containers; each is 16 bytes.
    pub values: u64,
}

impl Default for Limits {
    /// Half a billion values: a trace of forty million events.
    fn default() -> Self {
        Self { values: 500_000_000 }
    }
}

/// Reads one pickled object from `bytes`; what follows it is ignored, as Python does.
///
/// # Errors
/// Anything that is not a plain, complete pickle within the limits, with the byte at which it went wrong.
pub fn read(bytes: &[u8], limits: Limits) -> Result<Tree, PickleError> {
    machine::run(bytes, limits)
}
