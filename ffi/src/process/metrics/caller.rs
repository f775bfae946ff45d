//! One caller of the endpoint: its request is read and answered as far as that goes without waiting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::host::Hosts;
use super::http;

/// A caller that takes longer is dropped.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// A connection.
pub(super) struct Caller {
    stream: TcpStream,
    hosts: Hosts,
    until: Instant,
    request: Vec<u8>,
    /// The answer, once there is one, and how much of it was sent.
    answer: Option<(Vec<u8>, usize)>,
}

/// Whether a caller is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    Done,
}

impl Caller {
    pub(super) fn new(stream: TcpStream, host: &str, now: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let hosts = Hosts::new(host, stream.local_addr()?.ip());
        Ok(Self { stream, hosts, until: now + PATIENCE, request: Vec::new(), answer: None })
    }

    /// When it is dropped.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether it has sent nothing so far.
    pub(super) fn is_silent(&self) -> bool {
        self.request.is_empty()
    }

    /// The socket and the event that it waits for.
    pub(super) fn interest(&self) -> (RawFd, i16) {
        let events = if self.answer.is_some() { libc::POLLOUT } else { libc::POLLIN };
        (self.stream.as_raw_fd(), events)
    }

    /// Reads and writes as much as there is and as fits. A connection that fails is done with.
    pub(super) fn advance(&mut self, metrics: impl FnOnce() -> String) -> Progress {
        match self.try_advance(metrics) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Progress::Waits,
            Ok(()) | Err(_) => Progress::Done,
        }
    }

    fn try_advance(&mut self, metrics: impl FnOnce() -> String) -> io::Result<()> {
        let (bytes, written) = match &mut self.answer {
            Some(answer) => answer,
            none => {
                let asked = read(&mut self.stream, &mut self.request, &self.hosts)?;
                none.insert((http::answer(asked, metrics), 0))
            }
        };
        while *written < bytes.len() {
            match self.stream.write(&bytes[*written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => *written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Caller {
    /// Ends the connection also where a forked child has a copy of it, which it does not know of.
    fn drop(&mut self) {
        // The caller may have ended it before.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Reads on until the request is whole; it never grows beyond what is looked at.
fn read(stream: &mut TcpStream, request: &mut Vec<u8>, hosts: &Hosts) -> io::Result<http::Asked> {
    let mut some = [0; 1024];
    loop {
        let count = match stream.read(&mut some) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        request.extend_from_slice(&some[..count]);
        match http::asked(request, |host| hosts.is_ours(host)) {
            http::Asked::Incomplete if count > 0 => {}
            asked => return Ok(asked),
        }
    }
}
