//! How many lines the project has without its tests, folder by folder: code, comments and blank lines apart.

use std::collections::BTreeMap;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Count this commit
    #[arg(value_name = "COMMIT", default_value = "HEAD")]
    commit: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    comments: usize,
    blank: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.code += other.code;
        self.comments += other.comments;
        self.blank += other.blank;
    }
}

/// How comments look in files with these endings.
const LANGUAGES: [(&[&str], &[&str]); 3] = [
    (&["rs", "cpp", "hpp", "h", "c", "js", "ts"], &["//", "/*", "*/", "* "]),
    (&["py", "sh"], &["#"]),
    (&["html", "css"], &["<!--", "/*", "*/"]),
];

pub(crate) fn run(options: &Options) -> Result<std::process::ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in a folder")?;
    let folder = tempfile::tempdir()?;
    let archive = folder.path().join("commit.tar");
    let output = |program: &mut Command| -> Result<Vec<u8>> {
        let output = program.current_dir(root).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(output.stdout)
    };
    output(Command::new("git").args(["archive", "-o"]).arg(&archive).arg(&options.commit))?;
    output(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder.path()))?;
    fs::remove_file(&archive)?;

    let mut folders: BTreeMap<String, Lines> = BTreeMap::new();
    for path in files(folder.path())? {
        let name = path.strip_prefix(folder.path())?;
        if let Some(lines) = count(name, &String::from_utf8_lossy(&fs::read(&path)?)) {
            let top = name.components().next().context("a file has a name")?;
            *folders.entry(top.as_os_str().to_string_lossy().into_owned()).or_default() += lines;
        }
    }
    let mut total = Lines::default();
    println!("{:<14} {:>7} {:>9} {:>7}", "folder", "code", "comments", "blank");
    for (folder, lines) in &folders {
        print(folder, *lines);
        total += *lines;
    }
    print("all", total);
    Ok(std::process::ExitCode::SUCCESS)
}

fn print(folder: &str, Lines { code, comments, blank }: Lines) {
    println!("{folder:<14} {code:>7} {comments:>9} {blank:>7}");
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(self::files(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// The lines of a file; `None` for tests, and where the file is no code.
fn count(name: &Path, text: &str) -> Option<Lines> {
    let is_test = |part: &str| part.starts_with("test") || part == "examples" || part == "fuzz";
    if name.iter().any(|part| part.to_str().is_none_or(is_test)) {
        return None;
    }
    let ending = name.extension()?.to_str()?;
    let (_, marks) = LANGUAGES.iter().find(|(endings, _)| endings.contains(&ending))?;
    let mut lines = Lines::default();
    let mut in_docstring = false;
    let mut before = "";
    for line in text.lines().map(str::trim) {
        // By the convention of the workspace, the module of unit tests ends its file.
        if before == "#[cfg(test)]" && line.starts_with("mod ") && line.ends_with('{') {
            lines.code -= 1;
            break;
        }
        let quotes = if ending == "py" { line.matches("\"\"\"").count() } else { 0 };
        if line.is_empty() {
            lines.blank += 1;
        } else if in_docstring || line.starts_with("\"\"\"") || starts_with_any(line, marks) {
            lines.comments += 1;
        } else {
            lines.code += 1;
        }
        in_docstring ^= quotes % 2 == 1;
        before = line;
    }
    Some(lines)
}

fn starts_with_any(line: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| line.starts_with(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_docstrings_blank_lines_and_unit_tests_are_no_code() {
        let rust = "//! Doc.\n\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let lines = Lines { code: 1, comments: 1, blank: 2 };
        assert_eq!(count(Path::new("heap/src/lib.rs"), rust), Some(lines));
        let python = "\"\"\"Doc,\nto here.\"\"\"\n# Why.\nx = 1\n";
        let lines = Lines { code: 1, comments: 3, blank: 0 };
        assert_eq!(count(Path::new("python/a.py"), python), Some(lines));
        assert_eq!(count(Path::new("heap/tests/a.rs"), rust), None);
        assert_eq!(count(Path::new("README.md"), rust), None);
    }
}
