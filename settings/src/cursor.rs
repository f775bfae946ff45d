//! Reads values out of a settings string's tokens, with PyTorch's words where it refuses one and a
//! warning where it accepts a mistake.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Compat;
use super::error::{ConfigError, PyException, Result, TextPosition, Warning};
use super::number::{self, NoNumber, Prefix};
use super::tokenizer::{Token, tokens};

/// A string of mistakes is not worth more.
const MAX_WARNINGS: usize = 16;
const LAST_WARNING: usize = MAX_WARNINGS - 1;

/// When a string is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParsePhase {
    /// From the environment, before anything else. C++'s own exceptions become Python's later and elsewhere than while
    /// the program runs, and not the same way in each PyTorch.
    Start(Compat),
    /// While the program runs: the backend is chosen.
    Running,
}

/// A settings string, its tokens and what looked wrong so far.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    variable: &'static str,
    text: &'a str,
    /// When it is read.
    pub phase: ParsePhase,
    tokens: Vec<Token>,
    /// The warnings, in the order found.
    pub warnings: Vec<Warning>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(variable: &'static str, text: &'a str, phase: ParsePhase) -> Self {
        Self { variable, text, phase, tokens: tokens(text), warnings: Vec::new() }
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The token at `i`; PyTorch's assertion where the string ended before.
    pub(super) fn token(&self, i: usize) -> Result<&str> {
        let message = "Index out of bounds in ConfigTokenizer";
        self.tokens.get(i).map(|token| token.text.as_str()).ok_or_else(|| {
            let advice = match self.tokens.last() {
                Some(last) => {
                    format!("the string ends too early, a value is missing after {:?}", last.text)
                }
                None => "the string is empty".to_owned(),
            };
            self.error(i, PyException::RuntimeError, message, advice)
        })
    }

    /// Steps over a separator. PyTorch takes any token for it; another than `expected` is warned
    /// of.
    pub(super) fn separator(&mut self, i: usize, expected: &str) -> Result<()> {
        let found = self.token(i)?;
        if found != expected {
            let message = format!("{found:?} stands where {expected:?} belongs and is read as it");
            self.warn(i, message);
        }
        Ok(())
    }

    /// A whole number.
    pub(super) fn whole(&mut self, i: usize) -> Result<u64> {
        let found = number::unsigned(self.token(i)?);
        let value = self.number(i, "stoull", "a whole number", found)?;
        if self.token(i)?.starts_with('-') {
            self.warn(i, format!("a negative number is read as {value}"));
        }
        Ok(value)
    }

    /// A real number.
    pub(super) fn real(&mut self, i: usize) -> Result<f64> {
        let found = number::real(self.token(i)?);
        self.number(i, "stod", "a number", found)
    }

    /// `True` or `False`.
    pub(super) fn boolean(&mut self, i: usize) -> Result<bool> {
        match self.token(i)? {
            "True" => Ok(true),
            "False" => Ok(false),
            other => {
                let message = format!(
                    "Expected 'True' or 'False' at index {i} in ConfigTokenizer but got '{other}'"
                );
                Err(self.invalid(i, message, "write True or False, with a capital".to_owned()))
            }
        }
    }

    /// From a key to the last token of its value.
    pub(super) fn skip_value(&self, key: usize) -> Result<usize> {
        self.token(key + 1)?;
        if self.token(key + 2)? != "[" {
            return Ok(key + 2);
        }
        (key + 3..self.len())
            .find(|i| self.tokens[*i].text == "]")
            .ok_or_else(|| self.unclosed(key + 2))
    }

    /// A list that does not end.
    pub(super) fn unclosed(&self, opening: usize) -> ConfigError {
        let message = "Expected closing bracket ']' in ConfigTokenizer but reached end of config";
        self.error(opening, PyException::RuntimeError, message, "close the list with ]".to_owned())
    }

    /// A value out of its range: PyTorch's `ValueError`.
    pub(super) fn invalid(
        &self,
        i: usize,
        message: impl Into<String>,
        advice: String,
    ) -> ConfigError {
        self.error(i, PyException::ValueError, message, advice)
    }

    /// A refusal at token `i`, or at the end of the string.
    pub(super) fn error(
        &self,
        i: usize,
        exception: PyException,
        message: impl Into<String>,
        advice: String,
    ) -> ConfigError {
        ConfigError { exception, message: message.into(), place: self.place(i), advice }
    }

    /// Says once that something at token `i` looks wrong. A string of mistakes without end gets a
    /// last word.
    pub(super) fn warn(&mut self, i: usize, message: String) {
        let message = match self.warnings.len() {
            MAX_WARNINGS => return,
            LAST_WARNING => "more looks wrong from here on".to_owned(),
            _ => message,
        };
        let warning = Warning { message, place: self.place(i) };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Warns of tokens that white space fell out of.
    pub(super) fn warn_of_closed_up_tokens(&mut self) {
        for i in 0..self.len() {
            if self.tokens[i].closed_up {
                self.warn(
                    i,
                    format!("white space is ignored, this reads {:?}", self.tokens[i].text),
                );
            }
        }
    }

    fn number<T>(
        &mut self,
        i: usize,
        function: &str,
        kind: &str,
        found: Result<Prefix<T>, NoNumber>,
    ) -> Result<T> {
        let text = self.token(i)?.to_owned();
        match found {
            Ok(Prefix { value, len }) => {
                if len < text.len() {
                    let message = format!("{:?} is read as {:?}", text, &text[..len]);
                    self.warn(i, message);
                }
                Ok(value)
            }
            Err(NoNumber::NotANumber) => {
                let message = format!("{function}: {text:?} is not {kind}");
                let exception = match self.phase {
                    ParsePhase::Start(_) => PyException::RuntimeError,
                    ParsePhase::Running => PyException::ValueError,
                };
                Err(self.error(i, exception, message, format!("write {kind} here")))
            }
            Err(NoNumber::OutOfRange) => {
                let message = format!("{function}: {text:?} does not fit");
                let exception = match self.phase {
                    ParsePhase::Start(Compat::V2_11) => PyException::RuntimeError,
                    ParsePhase::Start(Compat::V2_15) | ParsePhase::Running => {
                        PyException::IndexError
                    }
                };
                Err(self.error(i, exception, message, format!("write {kind} of a usual size")))
            }
        }
    }

    fn place(&self, i: usize) -> TextPosition {
        let at = self.tokens.get(i).map_or_else(|| self.text.chars().count(), |token| token.at);
        TextPosition { variable: self.variable, text: self.text.to_owned(), at }
    }
}
