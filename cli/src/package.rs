//! The verbs that only the Python package has: named here so that the help has them and nobody searches in vain.

/// Each with what it does. `python/vramtape/_command.py` has their modules.
const VERBS: [(&str, &str); 3] = [
    ("run", "Run a program under vramtape and write its tapes; --sim needs no GPU"),
    ("record", "Run a program with PyTorch's own allocator, and write its tapes"),
    ("doctor", "Say how vramtape would be in PyTorch here, and what is missing for more"),
];

/// What the help says of them.
pub(crate) fn help() -> String {
    let lines = VERBS.map(|(verb, about)| format!("  {verb:<8} {about}\n"));
    format!("In the Python package, also as `python -m vramtape VERB`:\n{}", lines.concat())
}

/// What to say to somebody who asks this program for one of them.
pub(crate) fn refusal(verb: &str) -> Option<String> {
    if verb == "profile" {
        let text = "`profile` is no command but a part of the Python package: `with vramtape.profile(\"step.html\"):` \
                    around the code; `python -m vramtape run` records a whole program";
        return Some(text.to_owned());
    }
    VERBS.iter().any(|(known, _)| *known == verb).then(|| {
        format!(
            "`vramtape {verb}` is in the Python package: install that beside PyTorch, then \
             `python -m vramtape {verb}`"
        )
    })
}
