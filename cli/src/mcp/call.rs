//! One call of a tool: the verb's work on threads of its own, so that the server goes on to read messages.

use std::any::Any;
use std::ffi::OsString;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use replay::message;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData};
use serde_json::Value;
use tokio::task::{JoinError, spawn_blocking};

use crate::caller::{Caller, ask};

/// The work of a call.
pub(super) enum Question {
    /// A command line without the program's name.
    Line(Vec<OsString>),
    /// A text with out-of-memory messages.
    Text(String),
}

/// The panic payload of a cancelled call.
struct Cancelled;

/// The client that waits for the result.
struct Client<F> {
    is_cancelled: F,
    warnings: Mutex<Vec<String>>,
}

impl<F: Fn() -> bool + Send + Sync> Caller for Client<F> {
    fn at(&self, _: u64, _: u64) {
        if (self.is_cancelled)() {
            resume_unwind(Box::new(Cancelled)); // Prints no panic message.
        }
    }

    fn warn(&self, text: &str) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.iter().any(|known| known == text) {
            warnings.push(text.to_owned());
        }
    }
}

/// The verb's JSON, with its warnings as texts; or the text of its error.
pub(super) async fn answer(
    question: Question,
    is_cancelled: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<CallToolResult, ErrorData> {
    let client = Arc::new(Client { is_cancelled, warnings: Mutex::default() });
    let worker = Arc::clone(&client);
    let answer = match spawn_blocking(move || work(question, worker)).await {
        Ok(answer) => answer,
        Err(_) if (client.is_cancelled)() => {
            return Err(ErrorData::internal_error("the call was cancelled", None));
        }
        Err(error) => Err(internal(error)),
    };
    let mut result = match answer {
        Ok(value) => CallToolResult::structured(value),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
    };
    let warnings = client.warnings.lock().unwrap_or_else(PoisonError::into_inner);
    let warnings = warnings.iter().map(|text| ContentBlock::text(format!("warning: {text}")));
    result.content.extend(warnings);
    Ok(result)
}

fn work(question: Question, caller: Arc<dyn Caller>) -> Result<Value, String> {
    let value = match question {
        Question::Line(line) => {
            let printed = ask(caller, 0, line)?;
            serde_json::from_str(&printed)
        }
        Question::Text(text) => serde_json::to_value(message::explain(text.as_bytes())),
    };
    let value = value.map_err(|error| format!("the output is not JSON: {error}"))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err("a list is available in the command only".to_owned())
    }
}

fn internal(error: JoinError) -> String {
    let what = match error.try_into_panic() {
        Ok(panic) => text(panic.as_ref()).to_owned(),
        Err(error) => error.to_string(),
    };
    format!("internal error in vramtape, please report it: {what}")
}

fn text(panic: &(dyn Any + Send)) -> &str {
    match panic.downcast_ref::<String>() {
        Some(text) => text,
        None => panic.downcast_ref::<&str>().copied().unwrap_or("a panic without a message"),
    }
}
