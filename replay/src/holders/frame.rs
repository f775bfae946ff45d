//! A frame of a stack as people read it.

use serde::Serialize;
use trace_format::{CodeOwner, Frame, code_owner};

use crate::snapshot::Stacks;

/// A frame as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HolderFrame {
    /// The function.
    pub function: String,
    /// The file's path; for a native frame the library and the address in it.
    pub file: String,
    /// The line; 0 where it has none.
    pub line: u32,
    /// The library it is of (`torch`, `python`, `native`, ...); `None` is the user's own code.
    pub library: Option<String>,
}

impl HolderFrame {
    /// A stack's frames, innermost first, without ours.
    pub(crate) fn of(stacks: &Stacks, frames: impl Iterator<Item = Frame>) -> Vec<Self> {
        let frames: Vec<Frame> = frames.collect();
        let is_text_program = frames.last().is_some_and(|frame| {
            owner(stacks, frame) == CodeOwner::Text
                && stacks.text(frame.name) == "<module>"
                && !is_worker(stacks, &frames)
        });
        let of_frame = |frame: &Frame| {
            let library = match owner(stacks, frame) {
                CodeOwner::Vramtape => return None,
                CodeOwner::User => None,
                CodeOwner::Text if is_text_program => None,
                CodeOwner::Text => Some("generated code".to_owned()),
                CodeOwner::Library(name) => Some(name),
                CodeOwner::Native => Some("native".to_owned()),
                CodeOwner::Thread => Some("thread".to_owned()),
                CodeOwner::Backward => Some("backward".to_owned()),
            };
            let [function, file] =
                [frame.name, frame.filename].map(|id| stacks.text(id).to_owned());
            Some(Self { function, file, line: frame.line, library })
        };
        frames.iter().filter_map(of_frame).collect()
    }

    /// Whether it is the user's own code.
    pub fn is_user(&self) -> bool {
        self.library.is_none()
    }

    /// `model.py:41 attention`, under this name of the file.
    pub(super) fn show(&self, file: &str) -> String {
        let at = if self.line > 0 { format!("{file}:{}", self.line) } else { file.to_owned() };
        match self.function.as_str() {
            "" | "<module>" => at,
            function => format!("{at} {function}"),
        }
    }
}

/// Whether the process is a worker of multiprocessing, which starts one with a text of its own (`python -c`).
fn is_worker(stacks: &Stacks, frames: &[Frame]) -> bool {
    matches!(frames, [.., called, _] if stacks.text(called.name) == "spawn_main")
}

fn owner(stacks: &Stacks, frame: &Frame) -> CodeOwner {
    code_owner(stacks.text(frame.filename), frame.line)
}
