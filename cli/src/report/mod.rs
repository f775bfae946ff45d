//! `vramtape report RUN`: a run on less than a screen, to paste in an issue or a chat.

mod content;
mod render;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use crate::setting::RunFlags;
use crate::{Verdict, output};
use content::Content;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    run: RunFlags,
    /// The form of the report [default: that of FILE's ending, else markdown]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Where to write, such as report.md, report.txt or report.html [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(short, long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For issues and pull requests
    Markdown,
    /// For a terminal or a mail
    Text,
    /// A page of its own
    Html,
}

impl Format {
    /// That of a file's ending.
    fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("md" | "markdown") => Ok(Self::Markdown),
            Some("txt") => Ok(Self::Text),
            Some("html" | "htm") => Ok(Self::Html),
            _ => bail!(
                "{}: the ending names no format: end it with .md, .txt or .html, or pass --format",
                path.display()
            ),
        }
    }

    fn render(self, content: &Content) -> String {
        match self {
            Self::Markdown => render::markdown(content),
            Self::Text => render::text(content),
            Self::Html => render::html(content),
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    content: &'a Content,
    /// The report in its format.
    report: &'a str,
    /// The file that it was written to.
    output: Option<&'a Path>,
}

/// Replays, writes and prints.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let file = options.output.as_deref().filter(|path| *path != Path::new("-"));
    let format = match (options.format, file) {
        (Some(format), _) => format,
        (None, Some(path)) => Format::of(path)?,
        (None, None) => Format::Markdown,
    };
    if let Some(path) = file {
        output::check(path, options.force)?;
    }
    let content = Content::of(&options.run)?;
    let report = format.render(&content);
    if let Some(path) = file {
        output::write_file(path, report.as_bytes())?;
    }
    if options.json {
        let answer = Answer { content: &content, report: &report, output: file };
        output::print_json(&answer)?;
    } else if let Some(path) = file {
        output::print(&format!("{}\n", path.display()))?;
    } else {
        output::print(&report)?;
    }
    Ok(Verdict::Good)
}
