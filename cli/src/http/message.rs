//! The part of HTTP that the servers here need: one request and its answer, in bytes.

use std::fmt::Write;
use std::net::IpAddr;

/// Bytes of a request that are looked at: Prometheus sends a few hundred, a browser up to two thousand.
pub(super) const REQUEST_MAX_BYTES: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// A GET or HEAD request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request<'b> {
    /// Without its query.
    pub(crate) path: &'b str,
    /// All `Host` headers.
    pub(crate) hosts: Vec<&'b [u8]>,
    /// The address of this machine that it came to.
    pub(crate) local: IpAddr,
    /// Only the headers of the answer are wanted.
    is_head: bool,
}

/// The bytes of a connection so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'b> {
    /// More of the request is to come.
    Incomplete,
    Request(Request<'b>),
    /// A method that changes things.
    Method,
    /// No HTTP request, or one that is too long.
    Malformed,
}

/// Reads the request that `bytes` begin.
pub(super) fn parse(bytes: &[u8], local: IpAddr) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_MAX_BYTES => {
            return Parsed::Incomplete;
        }
        Ok(httparse::Status::Partial) | Err(_) => return Parsed::Malformed,
    }
    let hosts = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("host"));
    let hosts = hosts.map(|one| one.value).collect();
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Parsed::Method,
    };
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    Parsed::Request(Request { path, hosts, local, is_head })
}

/// An answer before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    status: &'static str,
    /// Header lines, each with its end.
    headers: String,
    body: Vec<u8>,
}

impl Answer {
    /// 200, with a body of this content type.
    pub(crate) fn ok(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: "200 OK", headers: String::new(), body: body.into() }
            .with("Content-Type", content_type)
    }

    /// 404; the text is one line.
    pub(crate) fn not_found(text: &str) -> Self {
        Self::refusal("404 Not Found", text)
    }

    /// 403: the request names another host.
    pub(crate) fn foreign(text: &str) -> Self {
        Self::refusal("403 Forbidden", text)
    }

    fn refusal(status: &'static str, text: &str) -> Self {
        Self { status, ..Self::ok("text/plain; charset=utf-8", format!("{text}\n")) }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        write!(self.headers, "{name}: {value}\r\n").expect("memory takes every byte");
        self
    }

    fn into_bytes(self, is_head: bool) -> Vec<u8> {
        let Self { status, headers, body } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if !is_head {
            bytes.extend(body);
        }
        bytes
    }
}

/// The whole answer; `service` is called only for a request that it can answer.
pub(super) fn answer(parsed: &Parsed<'_>, service: impl FnOnce(&Request<'_>) -> Answer) -> Vec<u8> {
    match parsed {
        Parsed::Request(request) => service(request).into_bytes(request.is_head),
        Parsed::Method => Answer::refusal("405 Method Not Allowed", "GET it")
            .with("Allow", "GET, HEAD")
            .into_bytes(false),
        Parsed::Malformed | Parsed::Incomplete => {
            Answer::refusal("400 Bad Request", "no HTTP request of a usual size").into_bytes(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn parsed(bytes: &[u8]) -> Parsed<'_> {
        parse(bytes, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    fn answered(bytes: &[u8]) -> String {
        let service = |request: &Request<'_>| Answer::ok("text/plain", request.path);
        String::from_utf8(answer(&parsed(bytes), service)).unwrap()
    }

    #[test]
    fn a_request_has_all_of_its_hosts() {
        for (headers, expected) in [
            ("Host: localhost\r\n", &["localhost"][..]),
            ("", &[]),
            ("hOST: evil.example\r\n", &["evil.example"]),
            ("Host: localhost\r\nHost: evil.example\r\n", &["localhost", "evil.example"]),
            ("Host:\r\n", &[""]),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\n{headers}\r\n");
            let Parsed::Request(request) = parsed(request.as_bytes()) else {
                panic!("{headers:?}")
            };
            let hosts: Vec<_> = request.hosts.iter().map(|host| str::from_utf8(host)).collect();
            let hosts: Vec<_> = hosts.into_iter().map(Result::unwrap).collect();
            assert_eq!(hosts, expected, "{headers:?}");
        }
    }

    #[test]
    fn a_whole_request_is_answered() {
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n";
        for part in 0..request.len() {
            assert_eq!(parsed(&request[..part]), Parsed::Incomplete, "{part} bytes");
        }
        let answered = answered(request);
        assert!(answered.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"));
        assert!(answered.contains("\r\nContent-Length: 8\r\n"), "{answered}");
        assert!(answered.ends_with("\r\n\r\n/metrics"), "{answered}");
    }

    #[test]
    fn other_requests_are_refused() {
        for (request, status) in [
            (&b"POST /metrics HTTP/1.1\r\n\r\n"[..], "405"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
            (&[b'a'; REQUEST_MAX_BYTES], "400"),
        ] {
            let answered = answer(&parsed(request), |_| panic!("no request"));
            let line = answered.split(|byte| *byte == b'\r').next().unwrap();
            assert!(String::from_utf8_lossy(line).contains(status), "{request:?}");
        }
    }

    #[test]
    fn head_is_answered_with_headers_alone() {
        let answered = answered(b"HEAD /metrics?x=1 HTTP/1.1\r\n\r\n");
        assert!(answered.contains("\r\nContent-Length: 8\r\n"), "{answered}");
        assert!(answered.ends_with("\r\n\r\n"), "{answered}");
    }
}
