//! One connection: its request is read and answered as far as that goes without waiting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use rustix::event::PollFlags;

use super::Service;
use super::message::{Parsed, answer, parse};

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// The answer, once there is one, and how much of it was sent.
    answer: Option<(Vec<u8>, usize)>,
}

/// Whether a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    Over,
}

impl Connection {
    /// One that is dropped at a time.
    pub(super) fn new(stream: TcpStream, until: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, until, request: Vec::new(), answer: None })
    }

    /// When it is dropped.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Whether it has sent nothing so far.
    pub(super) fn is_silent(&self) -> bool {
        self.request.is_empty()
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The event that it waits for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads and writes as much as there is and as fits. A connection that fails is over.
    pub(super) fn advance(&mut self, service: &mut impl Service) -> Progress {
        match self.try_advance(service) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Progress::Waits,
            Ok(()) | Err(_) => Progress::Over,
        }
    }

    fn try_advance(&mut self, service: &mut impl Service) -> io::Result<()> {
        let (bytes, written) = match &mut self.answer {
            Some(answer) => answer,
            none => {
                let local = self.stream.local_addr()?.ip();
                read(&mut self.stream, &mut self.request, |bytes| {
                    parse(bytes, local) != Parsed::Incomplete
                })?;
                let parsed = parse(&self.request, local);
                none.insert((answer(&parsed, |request| service.answer(request)), 0))
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

/// Reads on until the request is whole or the other side has sent all; it never grows beyond what is looked at.
fn read(
    stream: &mut TcpStream,
    request: &mut Vec<u8>,
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let mut some = [0; 1024];
    loop {
        let count = match stream.read(&mut some) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        request.extend_from_slice(&some[..count]);
        if count == 0 || is_whole(request) {
            return Ok(());
        }
    }
}
