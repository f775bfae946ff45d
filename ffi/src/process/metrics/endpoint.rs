//! The endpoint: one thread that answers one caller after the other, each within a set time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use allocator::record::block_signals;

use super::collect::{self, Context};
use super::http::{self, Asked};
use super::render::render;

/// A caller who takes longer is left, so that the next one is heard.
const PATIENCE: Duration = Duration::from_secs(1);

/// An endpoint that is being served.
pub(in crate::process) struct Endpoint {
    /// Never closed but in a forked child.
    listener: &'static TcpListener,
}

impl Endpoint {
    /// Listens, and serves until the process is gone.
    pub(super) fn start(host: &str, port: u16, context: Context) -> Result<Self, String> {
        let listener =
            TcpListener::bind((host, port)).map_err(|error| refused(host, port, &error))?;
        let listener: &'static TcpListener = Box::leak(Box::new(listener));
        let builder = thread::Builder::new().name("vramtape-http".to_owned());
        let started = builder.spawn(move || {
            block_signals();
            serve(listener, &context);
        });
        started.map_err(|error| format!("cannot start their thread: {error}"))?;
        Ok(Self { listener })
    }

    /// The child has no such thread: nobody there would answer, and the port would stay taken for as
    /// long as the child lives.
    pub(super) fn after_fork_child(self) {
        // SAFETY: the listener is used by the thread above alone, which this process does not have.
        unsafe { libc::close(self.listener.as_raw_fd()) };
    }
}

fn refused(host: &str, port: u16, error: &io::Error) -> String {
    let advice = match error.kind() {
        ErrorKind::AddrInUse => {
            "; another process has the port. For the processes of one job write \
             metrics:PORT+{local_rank} in VRAMTAPE_CONF"
        }
        ErrorKind::PermissionDenied => "; ports below 1024 are the system's",
        _ => "; write an address of this machine",
    };
    format!("cannot listen on {host}:{port}: {error}{advice}")
}

fn serve(listener: &TcpListener, context: &Context) {
    loop {
        match listener.accept() {
            // What goes wrong with a caller is the caller's business.
            Ok((stream, _)) => drop(converse(&stream, context)),
            // Out of file descriptors, most likely: not a reason to spin.
            Err(error) => {
                tracing::debug!(%error, "a caller of the metrics could not be heard");
                thread::sleep(PATIENCE);
            }
        }
    }
}

/// Hears one request and answers it.
fn converse(stream: &TcpStream, context: &Context) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let asked = loop {
        let mut some = [0; 1024];
        stream.set_read_timeout(Some(left(until)?))?;
        let mut stream = stream;
        let count = stream.read(&mut some)?;
        request.extend_from_slice(&some[..count]);
        match http::asked(&request) {
            Asked::Incomplete if count > 0 => {}
            asked => break asked,
        }
    };
    let answer = http::answer(asked, || render(context, &collect::devices(), &[]));
    let mut rest = answer.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let mut stream = stream;
        match stream.write(rest)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => rest = &rest[count..],
        }
    }
    // Also where a forked child has a copy of this connection, which it does not know of.
    stream.shutdown(Shutdown::Both)
}

/// Time left, which is never the zero that stands for no limit.
fn left(until: Instant) -> io::Result<Duration> {
    match until.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(ErrorKind::TimedOut.into()),
    }
}
