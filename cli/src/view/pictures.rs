//! `--png` and `--svg`: the run as a static picture.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use trace_format::Commit;
use viewer::{Picture, PictureOptions, Size, Source};

use crate::output;
use crate::progress::Progress;

/// The flags of pictures.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("picture").multiple(true))]
pub(super) struct PictureFlags {
    /// Write a picture of memory over time; - is standard output. The page is written as well with -o
    #[arg(long, value_name = "FILE", group = "picture")]
    png: Option<PathBuf>,
    /// The same as an SVG
    #[arg(long, value_name = "FILE", group = "picture")]
    svg: Option<PathBuf>,
    /// Background of the picture
    #[arg(long, value_enum, default_value_t, requires = "picture")]
    theme: Theme,
    /// Pixels of the picture
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value_t, requires = "picture")]
    size: Size,
    /// Grouping of the picture, as in the page [default: the page's first one]
    #[arg(long, value_name = "NAME", requires = "picture")]
    group_by: Option<String>,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Theme {
    #[default]
    Light,
    Dark,
}

/// A picture that was written.
#[derive(Serialize)]
pub(super) struct WrittenPicture {
    output: PathBuf,
    format: &'static str,
    bytes: usize,
    width: u32,
    height: u32,
    run: String,
    device: Option<u16>,
}

impl PictureFlags {
    /// The files and their formats.
    fn files(&self) -> impl Iterator<Item = (&Path, &'static str)> {
        let files = [(&self.png, "png"), (&self.svg, "svg")];
        files.into_iter().filter_map(|(path, format)| Some((path.as_deref()?, format)))
    }

    pub(super) fn is_given(&self) -> bool {
        self.files().next().is_some()
    }

    /// Fails before any work is done if a file cannot be written beside the page and the report.
    pub(super) fn check(&self, page: Option<&Path>, force: bool, json: bool) -> Result<()> {
        if let Some(page) = page {
            let end = page.extension().unwrap_or_default().to_ascii_lowercase();
            if let Some(format) = ["png", "svg"].into_iter().find(|format| end == *format) {
                bail!("-o writes the page: use --{format} {}", page.display());
            }
        }
        let mut others: Vec<&Path> = page.into_iter().collect();
        if json {
            others.push(Path::new("-"));
        }
        for (path, format) in self.files() {
            if others.contains(&path) {
                let place = if path == Path::new("-") { "standard output" } else { "this file" };
                bail!(
                    "--{format} {}: {place} has other content: name another file",
                    path.display()
                );
            }
            output::check(path, force)?;
            others.push(path);
        }
        Ok(())
    }

    /// Draws the worst device and writes its files, each whole or not at all.
    pub(super) fn write(
        &self,
        run: &str,
        devices: &[Source<'_>],
        records: u64,
    ) -> Result<Vec<WrittenPicture>> {
        let theme = match self.theme {
            Theme::Light => viewer::Theme::Light,
            Theme::Dark => viewer::Theme::Dark,
        };
        let options = PictureOptions { theme, size: self.size, group_by: self.group_by.clone() };
        let progress = Progress::start("drawing the picture", records);
        let picture = viewer::draw(run, devices, &options, &mut |done| progress.at(done))?;
        drop(progress);
        // All are drawn before the first is written.
        let drawn = self.files().map(|(path, format)| {
            let content =
                if format == "png" { picture.png()? } else { picture.svg.clone().into_bytes() };
            Ok((path, format, content))
        });
        let drawn: Vec<_> = drawn.collect::<Result<_>>()?;
        let written = drawn.into_iter().map(|(path, format, content)| {
            put(path, &content).with_context(|| format!("cannot write {}", path.display()))?;
            let Picture { size: Size { width, height }, ref run, device, .. } = picture;
            let (output, bytes, run) = (path.to_owned(), content.len(), run.clone());
            Ok(WrittenPicture { output, format, bytes, width, height, run, device })
        });
        written.collect()
    }
}

fn put(path: &Path, content: &[u8]) -> Result<()> {
    if path == Path::new("-") {
        return Ok(io::stdout().lock().write_all(content)?);
    }
    let (mut file, commit) = Commit::begin(path)?;
    file.write_all(content)?;
    drop(file);
    Ok(commit.finish()?)
}

impl WrittenPicture {
    /// `run.png: 1280 x 720 pixels in 93 KiB`.
    pub(super) fn line(&self) -> String {
        let Self { width, height, .. } = self;
        let (output, size) = (self.output.display(), crate::bytes::show(self.bytes as u64));
        format!("{output}: {width} x {height} pixels in {size}\n")
    }

    pub(super) fn is_on_standard_output(&self) -> bool {
        self.output == Path::new("-")
    }
}
