//! Log lines about the allocator's slow path, on standard error: warnings, one line each, and the levels that
//! `VRAMTAPE_LOG` adds.

use std::fmt::{self, Debug};
use std::io::Write;
use std::{env, io};

use trace_format::visible;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use crate::error::Error;

const VARIABLE: &str = "VRAMTAPE_LOG";

/// Starts to listen.
pub(crate) fn start() -> Result<(), Error> {
    let subscriber = tracing_subscriber::fmt().with_writer(|| Terminal).with_ansi(false);
    // Where this library is a part of a Rust program that listens already, that is enough.
    let _ = match env::var(VARIABLE) {
        Err(_) => subscriber.with_max_level(LevelFilter::WARN).event_format(Sentences).try_init(),
        Ok(text) => {
            let level: LevelFilter = text.parse().map_err(|_| {
                Error::value(format!(
                    "{VARIABLE} is {text:?}: write off, error, warn, info, debug or trace"
                ))
            })?;
            let subscriber = subscriber.with_max_level(level);
            // More levels are for debugging, which needs the module of each line.
            if level > LevelFilter::WARN {
                subscriber.without_time().try_init()
            } else {
                subscriber.event_format(Sentences).try_init()
            }
        }
    };
    Ok(())
}

/// Prints a warning at the end of the process, where the subscriber may not be used any more: its thread's variables
/// are gone. Nothing is printed where `VRAMTAPE_LOG` asks for less than warnings.
pub(crate) fn warn_at_end(text: &str) {
    let level = env::var(VARIABLE).ok().and_then(|text| text.parse::<LevelFilter>().ok());
    if level.is_none_or(|level| level >= LevelFilter::WARN) {
        say_at_end(text);
    }
}

/// Prints a line at the end of the process.
pub(crate) fn say_at_end(text: &str) {
    // Standard error may be closed by then.
    let _ = Terminal.write_all(format!("vramtape: {}\n", one_line(text)).as_bytes());
}

/// Standard error, where names of files, devices and ranks show their control characters.
struct Terminal;

impl Write for Terminal {
    /// Takes a whole line, as all who write here give one at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(visible(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// `vramtape: ` and the message.
struct Sentences;

impl<S, N> FormatEvent<S, N> for Sentences
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        writeln!(writer, "vramtape: {}", sentence.text())
    }
}

/// An event's message, and what it has besides.
#[derive(Default)]
struct Sentence {
    message: String,
    more: Vec<String>,
}

impl Sentence {
    /// One line.
    fn text(&self) -> String {
        let parts = std::iter::once(&self.message).chain(&self.more);
        parts.map(|part| one_line(part)).collect::<Vec<_>>().join(": ")
    }
}

impl Visit for Sentence {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.more.push(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_one_line_without_modules_and_names_of_fields() {
        let sentence = Sentence {
            message: "the metrics\ncannot be written".to_owned(),
            more: vec!["No space left on device".to_owned()],
        };
        assert_eq!(sentence.text(), "the metrics cannot be written: No space left on device");
    }
}
