//! A small HTTP server: one thread, a bounded number of connections, one short request for each.

mod connection;
mod message;
mod server;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

pub(crate) use message::{Answer, Request};
pub(crate) use server::{Listener, Server};

/// The answers of a server, and its work beside them.
pub(crate) trait Service {
    /// A connection that takes longer is dropped.
    const TIME_MAX: Duration;

    /// The answer to GET or HEAD.
    fn answer(&mut self, request: &Request<'_>) -> Answer;

    /// When there is other work to do.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does that work if its time has come.
    fn work(&mut self, _now: Instant) {}
}

/// Becomes readable with the first Ctrl-C or SIGTERM.
pub(crate) fn on_signals() -> std::io::Result<UnixStream> {
    let (stop, end) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, end.try_clone()?)?;
    }
    Ok(stop)
}
