//! The verbs that only the Python package has, listed so that the help and the error messages can name them.

/// Names and descriptions. `python/vramtape/_command.py` has their modules.
const VERBS: [(&str, &str); 4] = [
    ("run", "Run a program under vramtape and write its tapes; --sim needs no GPU"),
    ("record", "Run a program with PyTorch's own allocator, and write its tapes"),
    (
        "dry-run",
        "Run a program on a simulated GPU and report the memory that it takes on a real one",
    ),
    ("doctor", "Check which integration route works in this environment"),
];

/// Their part of the help.
pub(crate) fn help() -> String {
    let lines = VERBS.map(|(verb, about)| format!("  {verb:<8} {about}\n"));
    format!("In the Python package, also as `python -m vramtape VERB`:\n{}", lines.concat())
}

/// The error message for a verb that only the Python package has.
pub(crate) fn refusal(verb: &str) -> Option<String> {
    if verb == "profile" {
        let text = "`profile` is not a command but a part of the Python package: \
                    `with vramtape.profile(\"step.html\"):` around the code; `python -m vramtape run` records a \
                    whole program";
        return Some(text.to_owned());
    }
    VERBS.iter().any(|(known, _)| *known == verb).then(|| {
        format!(
            "`vramtape {verb}` is in the Python package: install that beside PyTorch, then \
             `python -m vramtape {verb}`"
        )
    })
}
