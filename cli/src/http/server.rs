//! One loop that answers several connections at once, each within a set time, and does the service's other work.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Service;
use super::connection::{Connection, Progress};

/// Connections at once. One more takes the place of the oldest that has sent nothing, else of the oldest.
const CONNECTIONS_MAX: usize = 64;

/// Without file descriptors no connection is accepted for this long.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens.
pub(crate) struct Listener(TcpListener);

impl Listener {
    /// Listens from now on. The flag that changes the address is in the error.
    pub(crate) fn bind(host: &str, port: u16, flag: &str) -> Result<Self> {
        let socket = TcpListener::bind((host, port)).map_err(|error| {
            anyhow!("cannot listen on {host}:{port}: {error}; {}", advice(&error, flag))
        })?;
        socket.set_nonblocking(true).context("cannot listen without waiting")?;
        Ok(Self(socket))
    }

    /// Its address, with the port that the system chose where none was given.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn advice(error: &io::Error, flag: &str) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => {
            format!("another process has the port: pass {flag} with another one")
        }
        ErrorKind::PermissionDenied => {
            format!("ports below 1024 are the system's: pass {flag} with another one")
        }
        _ => format!("pass {flag} with an address of this machine"),
    }
}

/// A service, and what ends it.
pub(crate) struct Server<S> {
    /// Without one, the service only does its other work.
    pub(crate) listener: Option<Listener>,
    pub(crate) service: S,
    /// Readable once the server is to end.
    pub(crate) stop: UnixStream,
}

impl<S: Service> Server<S> {
    /// Serves until it is to end.
    pub(crate) fn run(&mut self) {
        let mut connections: Vec<Connection> = Vec::new();
        let mut accepts_from = Instant::now();
        while !self.wait(&connections, accepts_from) {
            let now = Instant::now();
            let Self { listener, service, .. } = self;
            service.work(now);
            connections.retain_mut(|connection| {
                connection.until() > now && connection.advance(service) == Progress::Waits
            });
            if let Some(listener) = listener.as_ref().filter(|_| accepts_from <= now)
                && accept(listener, &mut connections, now, service).is_err()
            {
                // Out of file descriptors, most likely: not a reason to spin.
                accepts_from = now + PAUSE;
            }
        }
    }

    /// Waits until there is something to do; whether that is to end.
    fn wait(&self, connections: &[Connection], accepts_from: Instant) -> bool {
        let now = Instant::now();
        let is_accepting = accepts_from <= now;
        let mut entries = vec![PollFd::new(&self.stop, PollFlags::IN)];
        entries.extend(connections.iter().map(|one| PollFd::new(one.stream(), one.interest())));
        let listener = self.listener.as_ref().filter(|_| is_accepting);
        entries.extend(listener.map(|listener| PollFd::new(&listener.0, PollFlags::IN)));
        let times = connections.iter().map(Connection::until);
        let times = times.chain((!is_accepting).then_some(accepts_from));
        let until = times.chain(self.service.due()).min();
        // A millisecond more: a wait that ends early would be repeated.
        let left =
            until.map(|until| until.saturating_duration_since(now) + Duration::from_millis(1));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // A failure, such as an interruption, is one more look.
        poll(&mut entries, left.as_ref()).is_ok() && !entries[0].revents().is_empty()
    }
}

/// Accepts as many as there is room for, so that those that are there get their turn.
fn accept<S: Service>(
    listener: &Listener,
    connections: &mut Vec<Connection>,
    now: Instant,
    service: &mut S,
) -> io::Result<()> {
    for _ in 0..CONNECTIONS_MAX {
        match listener.0.accept() {
            // Its request is there already, as a rule. Errors of a connection are its client's concern.
            Ok((stream, _)) => {
                if let Ok(mut connection) = Connection::new(stream, now + S::TIME_MAX)
                    && connection.advance(service) == Progress::Waits
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
