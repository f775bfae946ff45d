//! `vramtape view --serve`: the page from a server of this machine, part by part.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;
use viewer::{Page, ServedPage};

use crate::http::{Answer, Listener, Request, Server, Service, on_signals};
use crate::output;

/// No other machine reaches it.
const HOST: &str = "127.0.0.1";

/// Bytes of the secret part of the URL, which other users of the machine cannot guess.
const TOKEN_BYTES: usize = 16;

#[derive(Serialize)]
struct Serving<'a> {
    url: &'a str,
}

/// Prints the URL and serves the page until Ctrl-C or SIGTERM.
pub(super) fn serve(page: Page, listener: Listener, is_json: bool) -> Result<()> {
    let port = listener.address()?.port();
    let token = token().context("cannot make a random URL")?;
    let service = PageService {
        path: format!("/{token}/"),
        hosts: [format!("{HOST}:{port}"), format!("localhost:{port}")],
        page: ServedPage::from(page),
    };
    let stop = on_signals().context("cannot listen to Ctrl-C")?;
    let url = format!("http://{HOST}:{port}/{token}/");
    let line = if is_json { serde_json::to_string(&Serving { url: &url })? } else { url };
    output::print(&format!("{line}\n"))?;
    io::stdout().flush()?;
    eprintln!("Ctrl-C to stop");
    Server { listener: Some(listener), service, stop }.run();
    Ok(())
}

/// Listens on a port of this machine; 0 is any that is free.
pub(super) fn listen(port: u16) -> Result<Listener> {
    Listener::bind(HOST, port, "--port")
}

fn token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    // The system fills so few bytes at once or not at all.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut token = String::new();
    for byte in bytes {
        write!(token, "{byte:02x}").expect("memory takes every byte");
    }
    Ok(token)
}

struct PageService {
    /// Of the document: the token between slashes.
    path: String,
    /// A page of another site that resolves its name to this machine still names itself as the host.
    hosts: [String; 2],
    page: ServedPage,
}

impl Service for PageService {
    /// A document takes seconds over a tunnel to another machine.
    const TIME_MAX: Duration = Duration::from_secs(60);

    fn answer(&mut self, request: &Request<'_>) -> Answer {
        let Self { path, hosts, page } = self;
        let is_ours = matches!(&request.hosts[..], [host]
            if hosts.iter().any(|ours| host.eq_ignore_ascii_case(ours.as_bytes())));
        if !is_ours {
            return Answer::foreign(&format!(
                "the request names another host: open http://{}",
                hosts[0]
            ));
        }
        let answer = match request.path.strip_prefix(path.as_str()) {
            Some("") => Answer::ok("text/html; charset=utf-8", page.document()).with(
                "Content-Security-Policy",
                &format!("{}; frame-ancestors 'none'", page.policy()),
            ),
            Some(rest) => match rest.strip_prefix("chunk/").filter(|id| is_id(id)) {
                Some(id) => {
                    Answer::ok("text/plain; charset=utf-8", page.chunk(id).unwrap_or_default())
                }
                None => Answer::not_found("there are only the page and its chunks"),
            },
            None => Answer::not_found("open the URL that `vramtape view --serve` printed"),
        };
        answer
            .with("Cache-Control", "no-store")
            .with("X-Content-Type-Options", "nosniff")
            .with("Referrer-Policy", "no-referrer")
            .with("Cross-Origin-Resource-Policy", "same-origin")
    }
}

/// Whether a page can have a chunk of this ID: an empty chunk has no text, anything else does not exist.
fn is_id(id: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    id.starts_with('d') && id.contains('/') && id.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_page_format() {
        for id in ["d0/series/0/12", "d13/names", "d0/bands/1/2/3"] {
            assert!(is_id(id), "{id}");
        }
        for id in [
            "",
            "d0",
            "d0/",
            "d0/../names",
            "d0//names",
            "/d0/names",
            "x/y",
            "d0/%2e%2e",
            "D0/names",
        ] {
            assert!(!is_id(id), "{id}");
        }
    }

    #[test]
    fn two_tokens_differ() {
        let [one, other] = [(); 2].map(|()| token().unwrap());
        assert!(one != other && one.len() == 2 * TOKEN_BYTES, "{one} {other}");
    }
}
