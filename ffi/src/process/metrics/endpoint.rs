//! The endpoint: one thread that answers several callers at once, each within a set time.

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::caller::{Caller, Progress};
use super::collect::{self, Context};
use super::render::render;
use crate::process::helper;

/// Connections at once. One more takes the place of the oldest that has sent nothing, else of the oldest.
const CALLERS_MAX: usize = 64;

/// Without file descriptors no caller is accepted for this long.
const PAUSE: Duration = Duration::from_millis(100);

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
        listener.set_nonblocking(true).map_err(|error| format!("cannot listen: {error}"))?;
        let host = host.to_owned();
        let work = move || serve(listener, &host, || render(&context, &collect::devices(), &[]));
        helper::spawn("vramtape-http", "no metrics are exported from here on", work, || {
            refuse(listener);
        })
        .map_err(|error| format!("cannot start their thread: {error}"))?;
        Ok(Self { listener })
    }

    /// The child does not have the thread that answers, and an open listener would keep the port in use
    /// for as long as the child lives.
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

/// Has the system refuse callers: the port stays ours, so that its number means nothing else.
fn refuse(listener: &TcpListener) {
    // SAFETY: a socket of ours, which stays open.
    unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Serves for the rest of the process.
fn serve(listener: &TcpListener, host: &str, metrics: impl Fn() -> String) {
    let mut callers: Vec<Caller> = Vec::new();
    let mut accepts_from = Instant::now();
    loop {
        let now = Instant::now();
        wait(listener, &callers, accepts_from, now);
        let now = Instant::now();
        callers.retain_mut(|caller| {
            caller.until() > now && caller.advance(&metrics) == Progress::Waits
        });
        // As many as there is room for, so that those who are here get their turn.
        for _ in 0..CALLERS_MAX {
            match listener.accept() {
                // Its request is there already, as a rule. What goes wrong with a caller is the caller's business.
                Ok((stream, _)) => {
                    if let Ok(mut caller) = Caller::new(stream, host, now)
                        && caller.advance(&metrics) == Progress::Waits
                    {
                        make_room(&mut callers);
                        callers.push(caller);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    // Out of file descriptors, most likely: not a reason to spin.
                    tracing::debug!(%error, "a caller of the metrics was not accepted");
                    accepts_from = now + PAUSE;
                    break;
                }
            }
        }
    }
}

/// Drops one caller where there are too many.
fn make_room(callers: &mut Vec<Caller>) {
    if callers.len() >= CALLERS_MAX {
        let silent = callers.iter().position(Caller::is_silent);
        callers.remove(silent.unwrap_or(0));
    }
}

/// Waits until there is something to do.
fn wait(listener: &TcpListener, callers: &[Caller], accepts_from: Instant, now: Instant) {
    let entry = |(fd, events)| libc::pollfd { fd, events, revents: 0 };
    let mut entries: Vec<_> = callers.iter().map(Caller::interest).map(entry).collect();
    let mut until: Option<Instant> = callers.iter().map(Caller::until).min();
    if accepts_from <= now {
        entries.push(entry((listener.as_raw_fd(), libc::POLLIN)));
    } else {
        until = Some(until.map_or(accepts_from, |until| until.min(accepts_from)));
    }
    // A millisecond more: a wait that ends early would be repeated.
    let millis =
        until.map_or(-1, |until| until.saturating_duration_since(now).as_millis() as i32 + 1);
    // SAFETY: the entries are whole and outlive the call. Its failure, an interruption, is one more look.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, millis) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    static IS_LOST: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_panic_closes_the_endpoint_and_keeps_no_caller_waiting() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener: &'static TcpListener = Box::leak(Box::new(listener));
        let work = move || serve(listener, "127.0.0.1", || panic!("while it renders"));
        let lose = move || {
            refuse(listener);
            IS_LOST.store(true, Ordering::Release);
        };
        let thread = helper::spawn("test-http", "a test", work, lose).unwrap();
        let mut caller = TcpStream::connect(address).unwrap();
        caller.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        caller.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // Closed, with a reset or without.
        let _ = caller.read_to_end(&mut answer);
        assert!(answer.is_empty());
        thread.join().unwrap();
        assert!(IS_LOST.load(Ordering::Acquire));
        assert!(TcpStream::connect(address).is_err(), "the port still accepts");
    }
}
