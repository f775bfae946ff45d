//! The exporter's answers and its text file.

use std::time::{Duration, Instant};

use super::host::Hosts;
use super::render;
use super::rings::RingTable;
use super::text_file::TextFile;
use crate::http::{Answer, Request, Service};

/// The metrics of all processes of this machine.
pub(super) struct Metrics {
    pub(super) rings: RingTable,
    /// The host of `--listen`.
    pub(super) host: String,
    pub(super) text_file: Option<TextFile>,
}

impl Metrics {
    /// Removes the text file.
    pub(super) fn end(self) {
        if let Some(file) = self.text_file {
            file.remove();
        }
    }
}

impl Service for Metrics {
    const TIME_MAX: Duration = Duration::from_secs(1);

    fn answer(&mut self, request: &Request<'_>) -> Answer {
        let hosts = Hosts::new(&self.host, request.local);
        if !request.hosts.iter().all(|host| hosts.is_ours(host)) {
            return Answer::foreign(
                "the request names another host: use localhost, 127.0.0.1, [::1] or the host of --listen",
            );
        }
        match request.path {
            "/metrics" => {
                let text = render::text(&render::families(&self.rings.devices()));
                Answer::ok("text/plain; version=0.0.4; charset=utf-8", text)
            }
            "/" => {
                Answer::ok("text/plain; charset=utf-8", "vramtape: the metrics are at /metrics\n")
            }
            _ => Answer::not_found("there is only /metrics"),
        }
    }

    fn due(&self) -> Option<Instant> {
        self.text_file.as_ref().map(TextFile::due)
    }

    fn work(&mut self, now: Instant) {
        let Self { rings, text_file, .. } = self;
        if let Some(file) = text_file {
            file.write_if_due(now, || render::text(&render::families(&rings.devices())));
        }
    }
}
