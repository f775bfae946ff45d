//! Stacks as one line of text: short names of files, library frames folded.

use hashbrown::{HashMap, HashSet};

use super::frame::HolderFrame;

/// Components of a path that a name has at most.
const COMPONENTS_MAX: usize = 4;
/// Callers that a line shows, folded ones included.
const CALLERS_MAX: usize = 4;

/// For each file the shortest end of its path that no other file here has.
pub(super) struct ShortNames<'f>(HashMap<&'f str, &'f str>);

impl<'f> ShortNames<'f> {
    pub(super) fn of(files: impl Iterator<Item = &'f str>) -> Self {
        let mut unnamed: HashSet<&str> = files.collect();
        let mut names = HashMap::new();
        for components in 1..=COMPONENTS_MAX {
            let mut count: HashMap<&str, usize> = HashMap::new();
            for file in &unnamed {
                *count.entry(end_of(file, components)).or_default() += 1;
            }
            unnamed.retain(|file| {
                let name = end_of(file, components);
                let is_named = count[name] == 1 || components == COMPONENTS_MAX;
                if is_named {
                    names.insert(*file, name);
                }
                !is_named
            });
        }
        Self(names)
    }

    pub(super) fn show(&self, frame: &HolderFrame) -> String {
        frame.show(self.0.get(frame.file.as_str()).copied().unwrap_or(&frame.file))
    }
}

/// The last so many components of a path.
fn end_of(path: &str, components: usize) -> &str {
    match path.rmatch_indices('/').nth(components - 1) {
        Some((at, _)) => &path[at + 1..],
        None => path,
    }
}

/// The callers of frame number `at`, innermost first: the user's frames by name, library frames between them folded.
pub(super) fn callers(frames: &[HolderFrame], at: usize, names: &ShortNames<'_>) -> String {
    let outside = frames.get(at + 1..).unwrap_or_default();
    // Frames that started the program are left out.
    let end = outside.iter().rposition(HolderFrame::is_user).map_or(0, |last| last + 1);
    let mut shown = Vec::new();
    for run in outside[..end].chunk_by(|a, b| !a.is_user() && !b.is_user()) {
        match &run[0] {
            frame if frame.is_user() => shown.push((1, names.show(frame))),
            _ => shown.push((run.len(), folded(run))),
        }
    }
    if shown.len() > CALLERS_MAX {
        let hidden: usize = shown.drain(CALLERS_MAX - 1..).map(|(frames, _)| frames).sum();
        shown.push((hidden, format!("... {hidden} more frames")));
    }
    shown.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" < ")
}

/// `... 7 frames of torch`.
fn folded(frames: &[HolderFrame]) -> String {
    let mut libraries: Vec<&str> = Vec::new();
    for library in frames.iter().filter_map(|frame| frame.library.as_deref()) {
        if !libraries.contains(&library) {
            libraries.push(library);
        }
    }
    let more = if libraries.len() > 2 { ", ..." } else { "" };
    libraries.truncate(2);
    let plural = if frames.len() == 1 { "" } else { "s" };
    format!("... {} frame{plural} of {}{more}", frames.len(), libraries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(file: &str, line: u32, library: Option<&str>) -> HolderFrame {
        let (function, library) = ("f".to_owned(), library.map(str::to_owned));
        HolderFrame { function, file: file.to_owned(), line, library }
    }

    #[test]
    fn a_file_is_named_by_the_end_of_its_path_that_no_other_has() {
        let files = ["/a/b/train.py", "/a/x/model.py", "/a/y/model.py", "cell"];
        let names = ShortNames::of(files.into_iter());
        let shown: Vec<_> = files.iter().map(|file| names.show(&frame(file, 3, None))).collect();
        assert_eq!(shown, ["train.py:3 f", "x/model.py:3 f", "y/model.py:3 f", "cell:3 f"]);
    }

    #[test]
    fn library_frames_between_the_users_are_folded_and_those_outside_them_are_left_out() {
        let torch = || frame("/t/torch/nn/x.py", 1, Some("torch"));
        let frames = [
            torch(),
            frame("m.py", 1, None),
            torch(),
            torch(),
            frame("m.py", 2, None),
            torch(),
            frame("/l/a.py", 1, Some("python")),
            frame("train.py", 9, None),
            frame("<frozen runpy>", 1, Some("python")),
        ];
        let names = ShortNames::of(frames.iter().map(|frame| frame.file.as_str()));
        let expected =
            "... 2 frames of torch < m.py:2 f < ... 2 frames of torch, python < train.py:9 f";
        assert_eq!(callers(&frames, 1, &names), expected);
        assert_eq!(callers(&frames, 7, &names), "");
    }

    #[test]
    fn of_many_callers_the_innermost_are_shown() {
        let frames: Vec<_> = (1..20).map(|line| frame("m.py", line, None)).collect();
        let names = ShortNames::of(["m.py"].into_iter());
        let expected = "m.py:2 f < m.py:3 f < m.py:4 f < ... 15 more frames";
        assert_eq!(callers(&frames, 0, &names), expected);
    }
}
