//! The owner of a frame's code: the user, a library, vramtape, or no Python at all.

use crate::{BACKWARD_FILE, THREAD_FILE};

/// The owner of a frame's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeOwner {
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

/// The owner of the code in a file, by the file's name and whether the frame has a line.
pub fn code_owner(file: &str, line: u32) -> CodeOwner {
    match file {
        THREAD_FILE => return CodeOwner::Thread,
        BACKWARD_FILE => return CodeOwner::Backward,
        "<string>" => return CodeOwner::Text,
        _ => {}
    }
    let parts: Vec<&str> = file.split('/').collect();
    let name = *parts.last().unwrap_or(&file);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_python = matches!(ending, "py" | "pyx") || file.starts_with('<');
    if is_ours(&parts, is_python) {
        return CodeOwner::Vramtape;
    }
    if file.starts_with("<frozen") {
        return CodeOwner::Library("python".to_owned());
    }
    if file.starts_with("<eval_with_key>") || file.contains("/torchinductor_") {
        return CodeOwner::Library("torch".to_owned());
    }
    if let Some(package) = installed_package(&parts) {
        return CodeOwner::Library(package);
    }
    if is_torch_source(file) {
        return CodeOwner::Library("torch".to_owned());
    }
    // A cell of a notebook has a line and any name; `@template.html` of a generator has none of these endings either.
    let is_native = line == 0 || file.contains(".so") || is_cpp(name, ending);
    if is_native && !is_python { CodeOwner::Native } else { CodeOwner::User }
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

    fn library(name: &str) -> CodeOwner {
        CodeOwner::Library(name.to_owned())
    }

    #[test]
    fn files_of_users_libraries_and_vramtape_are_distinguished() {
        let packages = "/opt/conda/lib/python3.12/site-packages";
        let cases = [
            ("/data/ann/train.py".to_owned(), 7, CodeOwner::User),
            ("train.py".to_owned(), 7, CodeOwner::User),
            ("/tmp/ipykernel_7/1234.py".to_owned(), 7, CodeOwner::User),
            ("<ipython-input-3-abc>".to_owned(), 7, CodeOwner::User),
            ("/data/ann/vramtape/examples/gpt.py".to_owned(), 7, CodeOwner::User),
            (format!("{packages}/torch/nn/modules/linear.py"), 7, library("torch")),
            (format!("{packages}/six.py"), 7, library("six")),
            ("/usr/lib/python3/dist-packages/numpy/a.py".to_owned(), 7, library("numpy")),
            ("/usr/lib/python3.11/threading.py".to_owned(), 7, library("python")),
            ("<frozen runpy>".to_owned(), 7, library("python")),
            ("<eval_with_key>.3".to_owned(), 7, library("torch")),
            ("/tmp/torchinductor_ann/ab/cabc.py".to_owned(), 7, library("torch")),
            ("/src/pytorch/torch/nn/functional.py".to_owned(), 7, library("torch")),
            ("<string>".to_owned(), 2, CodeOwner::Text),
            (format!("{packages}/vramtape/_profile.py"), 7, CodeOwner::Vramtape),
            ("/data/ann/vramtape/python/vramtape/marks.py".to_owned(), 7, CodeOwner::Vramtape),
            ("/x/vramtape/libvramtape.so+0x12".to_owned(), 0, CodeOwner::Vramtape),
            (
                "/r/.cache/vramtape/bridge/torch-2.11.0+cu130-70d9-abi5-cxx11abi1-6f.so+0x9"
                    .to_owned(),
                0,
                CodeOwner::Vramtape,
            ),
            (format!("{packages}/torch/lib/libtorch_cpu.so+0x12"), 0, library("torch")),
            ("/usr/lib/libc.so.6+0x12".to_owned(), 0, CodeOwner::Native),
            ("??".to_owned(), 0, CodeOwner::Native),
            ("/pytorch/aten/src/ATen/EmptyTensor.cpp".to_owned(), 30, CodeOwner::Native),
            (THREAD_FILE.to_owned(), 0, CodeOwner::Thread),
        ];
        for (file, line, owner) in cases {
            assert_eq!(code_owner(&file, line), owner, "{file}");
        }
    }
}
