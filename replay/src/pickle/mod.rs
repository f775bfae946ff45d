//! A restricted reader of Python pickles, protocols 0 to 5: dicts, lists, tuples, strings and numbers. An opcode that
//! would import or call anything is an error, so reading a file from a stranger is safe. No length in the file is
//! trusted, values live in an arena (nesting cannot overflow the stack), and memory is bounded by [`Limits`].

mod cell;
mod error;
mod json;
mod machine;
pub mod opcode;
mod shapes;
mod strings;
mod text;
mod tree;
mod value;

pub use error::{PickleError, Problem};
pub use json::read_json;
pub use strings::Text;
pub use tree::Tree;
pub use value::{Node, Value};

use trace_format::Bound;

/// How much a pickle or a JSON document may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Units of eight bytes that everything but strings may take. However large this is, there is no more than one
    /// for each byte of input, beside [`VALUES_ALWAYS`]: a file cannot take more than about ten times its size.
    pub values: u64,
    /// Events, segments and blocks that a snapshot may have.
    pub records: u64,
}

/// Units of eight bytes that every input may take, however short it is: 64 MiB.
const VALUES_ALWAYS: u64 = 8 << 20;

impl Limits {
    /// The limits of a file of this size, trusted `factor` times as much as any.
    pub fn of_file(stored_bytes: u64, factor: u64) -> Self {
        let values = Bound::VALUES.limit(stored_bytes, factor).min(Self::default().values);
        Self { values, records: Bound::ROWS.limit(stored_bytes, factor) }
    }

    /// The limit for an input of `len` bytes.
    fn of_input(self, len: usize) -> usize {
        let limit = self.values.min(VALUES_ALWAYS.saturating_add(len as u64));
        usize::try_from(limit).unwrap_or(usize::MAX)
    }
}

impl Default for Limits {
    /// Half a billion units: a trace of thirty million events.
    fn default() -> Self {
        Self { values: 500_000_000, records: u64::MAX }
    }
}

/// Reads one pickled object from `bytes`; what follows it is ignored, as Python does.
///
/// # Errors
/// Anything that is not a plain, complete pickle within the limits, with the byte at which it went wrong.
pub fn read(bytes: &[u8], limits: Limits) -> Result<Tree, PickleError> {
    machine::run(bytes, limits)
}
