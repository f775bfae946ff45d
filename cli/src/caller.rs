//! Runs command lines for the Python package instead of a terminal.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser;
use rayon::ThreadPoolBuilder;
use recorder::block_signals;
use trace_format::visible;

use crate::{Cli, describe, dispatch};

/// The program that runs a command line. Called from any thread.
pub trait Caller: Send + Sync {
    /// Reports progress: `done` of `total` records. To stop the work, unwind from here: nothing outlives it.
    fn at(&self, done: u64, total: u64);

    /// Reports doubtful input; the answer may be wrong for the same reason.
    fn warn(&self, text: &str);
}

/// Replaces the terminal on the threads that work for a caller.
#[derive(Clone)]
struct Stand {
    caller: Arc<dyn Caller>,
    printed: Arc<Mutex<String>>,
}

thread_local! {
    /// Not an argument of the verbs: they behave the same with and without a caller.
    static STAND: RefCell<Option<Stand>> = const { RefCell::new(None) };
}

/// Runs one command line, without the program's name, on threads of its own (`threads`, 0 for one a core) that end with
/// it: what it prints, or the error's text.
///
/// # Errors
/// Where the command or its input cannot be used.
pub fn ask(
    caller: Arc<dyn Caller>,
    threads: usize,
    args: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<String, String> {
    let line = std::iter::once("vramtape".into()).chain(args.into_iter().map(Into::into));
    let cli = Cli::try_parse_from(line).map_err(|error| usage(&error))?;
    let stand = Stand { caller, printed: Arc::default() };
    let printed = Arc::clone(&stand.printed);
    let begin = move |_| {
        block_signals(); // The program's handlers run on its own threads.
        STAND.set(Some(stand.clone()));
    };
    let pool = ThreadPoolBuilder::new().num_threads(threads).start_handler(begin);
    let pool = pool.thread_name(|_| "vramtape lab".to_owned()).build();
    let pool = pool.map_err(|error| format!("no threads to work on: {error}"))?;
    pool.install(|| dispatch(&cli.verb)).map_err(|error| describe(&error))?;
    drop(pool);
    Ok(std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The mistake in a command line, without the usage hints for a terminal.
fn usage(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

/// The caller, where this thread works for one.
pub(crate) fn caller() -> Option<Arc<dyn Caller>> {
    STAND.with_borrow(|stand| Some(Arc::clone(&stand.as_ref()?.caller)))
}

/// Keeps a text for the caller; `false` where there is none.
pub(crate) fn keep(text: &str) -> bool {
    STAND.with_borrow(|stand| {
        let Some(stand) = stand else { return false };
        stand.printed.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        true
    })
}

/// Prints a warning on standard error, or passes it to the caller: once, however many runs it is true of.
pub(crate) fn warn(text: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if let Some(caller) = caller() {
        return caller.warn(text);
    }
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned()) {
        eprintln!("warning: {}", visible(text));
    }
}
