//! Faults of a pickle, and their places.

use thiserror::Error;

use super::opcode;

/// A pickle that cannot be read: the byte and the opcode at which it went wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("byte {offset}, {}: {problem}", describe(*.opcode))]
pub struct PickleError {
    /// Offset of the opcode in the (decompressed) pickle.
    pub offset: u64,
    /// The opcode; `None` when the pickle ended where one was due.
    pub opcode: Option<u8>,
    /// The fault.
    pub problem: Problem,
}

fn describe(opcode: Option<u8>) -> String {
    match opcode {
        None => "where an opcode is due".to_owned(),
        Some(byte) => match opcode::name(byte) {
            Some(name) => format!("opcode {name}"),
            None => format!("opcode 0x{byte:02x}"),
        },
    }
}

/// A fault of a pickle.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The data ends inside an opcode or before `STOP`.
    #[error("the pickle ends here; the file is incomplete, copy it again")]
    Truncated,
    /// Not an opcode of any protocol.
    #[error("this is not a pickle opcode; the file is damaged or not a PyTorch memory snapshot")]
    UnknownOpcode,
    /// A protocol newer than Python writes.
    #[error("pickle protocol {0} is not known (0 to 5 are); save the snapshot with protocol=4")]
    UnknownProtocol(u8),
    /// An opcode that would import or call something.
    #[error(
        "it asks for the Python object {0}; a snapshot holds only dicts, lists, tuples, strings \
         and numbers, and nothing is ever executed here; write the file again with \
         torch.cuda.memory._dump_snapshot"
    )]
    Code(String),
    /// A plain type that snapshots do not hold.
    #[error(
        "{0} do not occur in PyTorch snapshots; write the file again with \
         torch.cuda.memory._dump_snapshot"
    )]
    Unsupported(&'static str),
    /// An opcode took more than the stack has.
    #[error("it takes more values than are on the stack; the file is damaged")]
    StackUnderflow,
    /// An opcode met a value of another type.
    #[error("it needs {needs} and found {found}; the file is damaged")]
    WrongType {
        /// The operand that the opcode requires.
        needs: &'static str,
        /// The operand found.
        found: &'static str,
    },
    /// Keys and values do not pair up.
    #[error("it has a key without a value; the file is damaged")]
    OddItems,
    /// A memo entry that was never stored.
    #[error("it refers to memo entry {0}, which was never stored; the file is damaged")]
    NoSuchMemo(u64),
    /// An integer outside what addresses and sizes can be.
    #[error("the integer does not fit in 64 bits; the file is damaged")]
    IntegerRange,
    /// Text that does not parse.
    #[error("{0:?} is not a {1}; the file is damaged")]
    BadText(String, &'static str),
    /// The pickle requires more memory than allowed.
    #[error(
        "the pickle takes more than {0} times eight bytes, far more than a snapshot of its size; \
         the file is damaged, or made to exhaust memory: if you trust it, raise the limit \
         (--trust-factor 10)"
    )]
    TooManyValues(u64),
}

impl Problem {
    /// Text that does not parse; the beginning of it is enough.
    pub(super) fn bad_text(text: &[u8], what: &'static str) -> Self {
        let shown = &text[..text.len().min(40)];
        Self::BadText(String::from_utf8_lossy(shown).into_owned(), what)
    }
}
