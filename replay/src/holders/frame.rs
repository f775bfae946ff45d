//! The owner of a frame's code: the user, a library, vramtape, or no Python at all.

use serde::Serialize;
use trace_format::{BACKWARD_FILE, Frame, THREAD_FILE};

use crate::snapshot::Stacks;

/// The owner of a frame's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The user's.
    User,
    /// A Python library's, by its name.
    Library(String),
    /// C++, C or Rust.
    Native,
    /// Text that Python compiled without a file: the user's if it is the whole program, else a library's.
    Text,
    /// A thread without Python.
    Thread,
    /// The backward pass of what is outside it.
    Backward,
    /// Ours: of no interest.
    Vramtape,
}

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
            owner(stacks, frame) == Owner::Text && stacks.text(frame.name) == "<module>"
        });
        let of_frame = |frame: &Frame| {
            let library = match owner(stacks, frame) {
                Owner::Vramtape => return None,
                Owner::User => None,
                Owner::Text if is_text_program => None,
                Owner::Text => Some("generated code".to_owned()),
                Owner::Library(name) => Some(name),
                Owner::Native => Some("native".to_owned()),
                Owner::Thread => Some("thread".to_owned()),
                Owner::Backward => Some("backward".to_owned()),
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

fn owner(stacks: &Stacks, frame: &Frame) -> Owner {
    owner_of(stacks.text(frame.filename), frame.line)
}

/// By the file's name, and whether it has lines.
fn owner_of(file: &str, line: u32) -> Owner {
    match file {
        THREAD_FILE => return Owner::Thread,
        BACKWARD_FILE => return Owner::Backward,
        "<string>" => return Owner::Text,
        _ => {}
    }
    let parts: Vec<&str> = file.split('/').collect();
    let name = *parts.last().unwrap_or(&file);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_python = matches!(ending, "py" | "pyx") || file.starts_with('<');
    if is_ours(&parts, is_python) {
        return Owner::Vramtape;
    }
    if file.starts_with("<frozen") {
        return Owner::Library("python".to_owned());
    }
    if file.starts_with("<eval_with_key>") || file.contains("/torchinductor_") {
        return Owner::Library("torch".to_owned());
    }
    if let Some(package) = installed_package(&parts) {
        return Owner::Library(package);
    }
    if is_torch_source(file) {
        return Owner::Library("torch".to_owned());
    }
    // A cell of a notebook has a line and any name; `@template.html` of a generator has none of these endings either.
    let is_native = line == 0 || file.contains(".so") || is_cpp(name, ending);
    if is_native && !is_python { Owner::Native } else { Owner::User }
}

/// Frames of the Python package, of libvramtape.so and of the bridge.
fn is_ours(parts: &[&str], is_python: bool) -> bool {
    let name = parts.last().copied().unwrap_or_default();
    if !is_python {
        let is_bridge = name.starts_with("torch-") && name.contains("cxx11abi");
        return name.starts_with("libvramtape") || is_bridge;
    }
    let Some(at) = parts.iter().rposition(|part| *part == "vramtape") else { return false };
    // A checkout of ours may have the same name, and a user's script may lie in it.
    let before = at.checked_sub(1).map(|before| parts[before]);
    let is_package = matches!(before, Some("site-packages" | "dist-packages" | "python"));
    is_package && at + 1 < parts.len()
}

/// The package that a file was installed with; `python` is the standard library.
fn installed_package(parts: &[&str]) -> Option<String> {
    let is_installed = |part: &str| matches!(part, "site-packages" | "dist-packages");
    if let Some(at) = parts.iter().rposition(|part| is_installed(part)) {
        let package = parts.get(at + 1)?;
        return Some(package.strip_suffix(".py").unwrap_or(package).to_owned());
    }
    let is_version = |part: &str| {
        part.strip_prefix("python3.")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_library = |pair: &[&str]| matches!(pair[0], "lib" | "lib64") && is_version(pair[1]);
    let is_standard = parts.windows(2).any(is_library);
    is_standard.then(|| "python".to_owned())
}

/// PyTorch's own files where it was not installed but built in place.
fn is_torch_source(file: &str) -> bool {
    const FOLDERS: [&str; 10] = [
        "/torch/nn/",
        "/torch/_",
        "/torch/autograd/",
        "/torch/optim/",
        "/torch/utils/",
        "/torch/cuda/",
        "/torch/distributed/",
        "/torch/fx/",
        "/torch/amp/",
        "/torch/functional.py",
    ];
    FOLDERS.iter().any(|folder| file.contains(folder))
}

fn is_cpp(name: &str, ending: &str) -> bool {
    let endings = ["cpp", "cc", "cxx", "c", "h", "hpp", "cu", "cuh", "rs"];
    name == "??" || endings.contains(&ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str) -> Owner {
        Owner::Library(name.to_owned())
    }

    #[test]
    fn files_of_users_libraries_and_vramtape_are_distinguished() {
        let packages = "/opt/conda/lib/python3.12/site-packages";
        let cases = [
            ("/data/ann/train.py".to_owned(), 7, Owner::User),
            ("train.py".to_owned(), 7, Owner::User),
            ("/tmp/ipykernel_7/1234.py".to_owned(), 7, Owner::User),
            ("<ipython-input-3-abc>".to_owned(), 7, Owner::User),
            ("/data/ann/vramtape/examples/gpt.py".to_owned(), 7, Owner::User),
            (format!("{packages}/torch/nn/modules/linear.py"), 7, library("torch")),
            (format!("{packages}/six.py"), 7, library("six")),
            ("/usr/lib/python3/dist-packages/numpy/a.py".to_owned(), 7, library("numpy")),
            ("/usr/lib/python3.11/threading.py".to_owned(), 7, library("python")),
            ("<frozen runpy>".to_owned(), 7, library("python")),
            ("<eval_with_key>.3".to_owned(), 7, library("torch")),
            ("/tmp/torchinductor_ann/ab/cabc.py".to_owned(), 7, library("torch")),
            ("/src/pytorch/torch/nn/functional.py".to_owned(), 7, library("torch")),
            ("<string>".to_owned(), 2, Owner::Text),
            (format!("{packages}/vramtape/_profile.py"), 7, Owner::Vramtape),
            ("/data/ann/vramtape/python/vramtape/marks.py".to_owned(), 7, Owner::Vramtape),
            ("/x/vramtape/libvramtape.so+0x12".to_owned(), 0, Owner::Vramtape),
            (
                "/r/.cache/vramtape/bridge/torch-2.11.0+cu130-70d9-abi5-cxx11abi1-6f.so+0x9"
                    .to_owned(),
                0,
                Owner::Vramtape,
            ),
            (format!("{packages}/torch/lib/libtorch_cpu.so+0x12"), 0, library("torch")),
            ("/usr/lib/libc.so.6+0x12".to_owned(), 0, Owner::Native),
            ("??".to_owned(), 0, Owner::Native),
            ("/pytorch/aten/src/ATen/EmptyTensor.cpp".to_owned(), 30, Owner::Native),
            (THREAD_FILE.to_owned(), 0, Owner::Thread),
        ];
        for (file, line, owner) in cases {
            assert_eq!(owner_of(&file, line), owner, "{file}");
        }
    }
}
