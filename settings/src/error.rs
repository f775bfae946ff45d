//! Errors and warnings of a settings string.

use alloc::string::String;

use core::fmt;

/// The Python exception that PyTorch raises for the same string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PyException {
    /// `ValueError`: an unknown key, a value out of its range.
    ValueError,
    /// `RuntimeError`: PyTorch's internal assertions, for strings that end too early.
    RuntimeError,
    /// `IndexError`: a number that does not fit its type.
    IndexError,
}

impl PyException {
    /// The exception's name in Python.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ValueError => "ValueError",
            Self::RuntimeError => "RuntimeError",
            Self::IndexError => "IndexError",
        }
    }
}

/// Where in which string something was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPosition {
    /// The environment variable, or what else the string is.
    pub variable: &'static str,
    /// The whole string.
    pub text: String,
    /// Characters before the place.
    pub at: usize,
}

/// What is read from a settings string; something else where the error is named.
pub(crate) type Result<T, E = ConfigError> = core::result::Result<T, E>;

/// A settings string that is refused. Nothing of it is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The exception that PyTorch raises.
    pub exception: PyException,
    /// The fault; contains PyTorch's own wording where PyTorch refuses the same.
    pub message: String,
    /// Where.
    pub place: TextPosition,
    /// The remedy.
    pub advice: String,
}

/// A settings string that is accepted as PyTorch accepts it, with something in it that is surely a
/// mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The likely mistake and how it was read.
    pub message: String,
    /// Where.
    pub place: TextPosition,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} character {} of {:?}", self.variable, self.at + 1, self.text)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {}): {}", self.message, self.place, self.advice)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {})", self.message, self.place)
    }
}

impl core::error::Error for ConfigError {}
