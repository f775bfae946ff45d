//! What the allocator says about its slow path, on standard error: warnings, and as much more as
//! `VRAMTAPE_LOG` asks for.

use std::{env, io};

use tracing_subscriber::filter::LevelFilter;

use crate::error::Error;

const VARIABLE: &str = "VRAMTAPE_LOG";

/// Starts to listen.
pub(crate) fn start() -> Result<(), Error> {
    let level = match env::var(VARIABLE) {
        Err(_) => LevelFilter::WARN,
        Ok(text) => text.parse().map_err(|_| {
            Error::value(format!(
                "{VARIABLE} is {text:?}: write off, error, warn, info, debug or trace"
            ))
        })?,
    };
    let subscriber = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr);
    // Where this library is a part of a Rust program that listens already, that is enough.
    let _ = subscriber.with_ansi(false).without_time().try_init();
    Ok(())
}
