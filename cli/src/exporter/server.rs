//! One loop that answers several connections at once, each within a set time, and keeps the text file up to date.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::{Connection, Progress};
use super::listen::Listen;
use super::text_file::TextFile;

/// Connections at once. One more takes the place of the oldest that has sent nothing, else of the oldest.
const CONNECTIONS_MAX: usize = 64;

/// Without file descriptors no connection is accepted for this long.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
pub(super) struct Listener {
    socket: TcpListener,
    /// The host of `--listen`.
    host: String,
}

impl Listener {
    /// Listens from now on.
    pub(super) fn bind(listen: &Listen) -> Result<Self> {
        let Listen { host, port } = listen;
        let socket = TcpListener::bind((host.as_str(), *port)).map_err(|error| {
            anyhow!("cannot listen on {host}:{port}: {error}{}", advice(&error))
        })?;
        socket.set_nonblocking(true).context("cannot listen without waiting")?;
        Ok(Self { socket, host: host.clone() })
    }

    /// Its address, with the port that the system chose where none was given.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => "; another process has the port: pass --listen with another one",
        ErrorKind::PermissionDenied => {
            "; ports below 1024 are the system's: pass --listen with another one"
        }
        _ => "; pass --listen with an address of this machine",
    }
}

/// What the command does until it ends.
pub(super) struct Server {
    pub(super) listener: Option<Listener>,
    pub(super) text_file: Option<TextFile>,
    /// Readable once the command is to end.
    pub(super) stop: UnixStream,
}

impl Server {
    /// Serves `metrics` until it is to end.
    pub(super) fn run(mut self, mut metrics: impl FnMut() -> String) {
        let mut connections: Vec<Connection> = Vec::new();
        let mut accepts_from = Instant::now();
        loop {
            if self.wait(&connections, accepts_from) {
                break;
            }
            let now = Instant::now();
            if let Some(file) = &mut self.text_file {
                file.write_if_due(now, &mut metrics);
            }
            connections.retain_mut(|connection| {
                connection.until() > now && connection.advance(&mut metrics) == Progress::Waits
            });
            if let Some(listener) = self.listener.as_ref().filter(|_| accepts_from <= now)
                && accept(listener, &mut connections, now, &mut metrics).is_err()
            {
                // Out of file descriptors, most likely: not a reason to spin.
                accepts_from = now + PAUSE;
            }
        }
        if let Some(file) = self.text_file {
            file.remove();
        }
    }

    /// Waits until there is something to do; whether that is to end.
    fn wait(&self, connections: &[Connection], accepts_from: Instant) -> bool {
        let now = Instant::now();
        let is_accepting = accepts_from <= now;
        let mut entries = vec![PollFd::new(&self.stop, PollFlags::IN)];
        entries.extend(connections.iter().map(|one| PollFd::new(one.stream(), one.interest())));
        let listener = self.listener.as_ref().filter(|_| is_accepting);
        entries.extend(listener.map(|listener| PollFd::new(&listener.socket, PollFlags::IN)));
        let times = connections.iter().map(Connection::until);
        let times = times.chain((!is_accepting).then_some(accepts_from));
        let until = times.chain(self.text_file.as_ref().map(TextFile::due)).min();
        // A millisecond more: a wait that ends early would be repeated.
        let left =
            until.map(|until| until.saturating_duration_since(now) + Duration::from_millis(1));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // A failure, such as an interruption, is one more look.
        poll(&mut entries, left.as_ref()).is_ok() && !entries[0].revents().is_empty()
    }
}

/// Accepts as many as there is room for, so that those that are there get their turn.
fn accept(
    listener: &Listener,
    connections: &mut Vec<Connection>,
    now: Instant,
    metrics: &mut impl FnMut() -> String,
) -> io::Result<()> {
    for _ in 0..CONNECTIONS_MAX {
        match listener.socket.accept() {
            // Its request is there already, as a rule. Errors of a connection are its client's concern.
            Ok((stream, _)) => {
                if let Ok(mut connection) = Connection::new(stream, &listener.host, now)
                    && connection.advance(&mut *metrics) == Progress::Waits
                {
                    make_room(connections);
                    connections.push(connection);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Drops one connection where there are too many.
fn make_room(connections: &mut Vec<Connection>) {
    if connections.len() >= CONNECTIONS_MAX {
        let silent = connections.iter().position(Connection::is_silent);
        connections.remove(silent.unwrap_or(0));
    }
}
