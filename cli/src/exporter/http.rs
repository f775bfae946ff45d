//! The part of HTTP that the exporter needs: one request and its answer, in bytes.

/// Bytes of a request that are looked at: Prometheus sends a few hundred.
pub(super) const REQUEST_MAX_BYTES: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParseState {
    /// More of the request is to come.
    Incomplete,
    /// The metrics.
    Metrics {
        /// Only the headers of the answer are wanted.
        is_head: bool,
    },
    /// Where the metrics are.
    Root,
    /// Something that is not here.
    Elsewhere,
    /// A method that changes things.
    Method,
    /// A host that is another machine's or site's.
    Foreign,
    /// No HTTP request.
    Malformed,
}

/// Reads the request that `bytes` begin. Its hosts, if it names any, have to be ours.
pub(super) fn parse(bytes: &[u8], is_ours: impl Fn(&[u8]) -> bool) -> ParseState {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < REQUEST_MAX_BYTES => {
            return ParseState::Incomplete;
        }
        Ok(httparse::Status::Partial) | Err(_) => return ParseState::Malformed,
    }
    let mut hosts = request.headers.iter().filter(|one| one.name.eq_ignore_ascii_case("host"));
    if !hosts.all(|host| is_ours(host.value)) {
        return ParseState::Foreign;
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return ParseState::Method,
    };
    let path = request.path.unwrap_or_default().split('?').next();
    match path {
        Some("/metrics") => ParseState::Metrics { is_head },
        Some("/") => ParseState::Root,
        _ => ParseState::Elsewhere,
    }
}

/// The whole answer; `metrics` is called only where they are asked for.
pub(super) fn answer(asked: ParseState, metrics: impl FnOnce() -> String) -> Vec<u8> {
    let (status, body) = match asked {
        ParseState::Metrics { .. } => ("200 OK", metrics()),
        ParseState::Root => ("200 OK", "vramtape: the metrics are at /metrics\n".to_owned()),
        ParseState::Elsewhere => ("404 Not Found", "there is only /metrics\n".to_owned()),
        ParseState::Method => ("405 Method Not Allowed", "GET it\n".to_owned()),
        ParseState::Foreign => (
            "403 Forbidden",
            "the request names another host: use localhost, 127.0.0.1, [::1] or the host of --listen\n"
                .to_owned(),
        ),
        ParseState::Malformed | ParseState::Incomplete => {
            ("400 Bad Request", "no HTTP request of a usual size\n".to_owned())
        }
    };
    let kind = match asked {
        ParseState::Metrics { .. } => "text/plain; version=0.0.4; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let allow = if asked == ParseState::Method { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}\
         Connection: close\r\n\r\n"
    )
    .into_bytes();
    if asked != (ParseState::Metrics { is_head: true }) {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(_: &[u8]) -> bool {
        true
    }

    #[test]
    fn a_request_with_a_foreign_host_among_its_hosts_is_refused() {
        let ours = |host: &[u8]| host == b"localhost";
        for (headers, is_refused) in [
            ("Host: localhost\r\n", false),
            ("", false),
            ("Host: evil.example\r\n", true),
            ("hOST: evil.example\r\n", true),
            ("Host: localhost\r\nHost: evil.example\r\n", true),
            ("Host:\r\n", true),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\n{headers}\r\n");
            let asked = parse(request.as_bytes(), ours);
            assert_eq!(asked == ParseState::Foreign, is_refused, "{headers:?}");
        }
        let answered =
            String::from_utf8(answer(ParseState::Foreign, || panic!("no metrics"))).unwrap();
        assert!(answered.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answered}");
    }

    #[test]
    fn a_scrape_is_answered_with_the_metrics() {
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n";
        assert_eq!(parse(request, any), ParseState::Metrics { is_head: false });
        for part in 0..request.len() {
            assert_eq!(parse(&request[..part], any), ParseState::Incomplete, "{part} bytes");
        }
        let answered =
            String::from_utf8(answer(parse(request, any), || "a 1\n".to_owned())).unwrap();
        assert!(answered.starts_with("HTTP/1.1 200 OK\r\n"), "{answered}");
        assert!(answered.contains("\r\nContent-Length: 4\r\n"), "{answered}");
        assert!(answered.ends_with("\r\n\r\na 1\n"), "{answered}");
    }

    #[test]
    fn other_requests_are_answered_without_metrics() {
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "200"),
            (b"GET /metrics/../etc HTTP/1.0\r\n\r\n", "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
            (&[b'a'; REQUEST_MAX_BYTES], "400"),
        ] {
            let answered = answer(parse(request, any), || panic!("no metrics are rendered"));
            let line = answered.split(|byte| *byte == b'\r').next().unwrap();
            assert!(String::from_utf8_lossy(line).contains(status), "{request:?}");
        }
    }

    #[test]
    fn only_the_headers_are_sent_to_one_who_asks_for_them_only() {
        let request = b"HEAD /metrics?x=1 HTTP/1.1\r\n\r\n";
        let answered = answer(parse(request, any), || "a 1\n".to_owned());
        assert!(answered.ends_with(b"\r\n\r\n"));
    }
}
