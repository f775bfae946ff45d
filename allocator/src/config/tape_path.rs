//! Where a tape is written: a path with `{rank}`, `{pid}` and `{device}` in it.

/// A path with placeholders, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapePath(String);

const PLACEHOLDERS: [&str; 3] = ["rank", "pid", "device"];

impl Default for TapePath {
    /// In the working folder, one file per process.
    fn default() -> Self {
        Self("vramtape-{rank}-{pid}.vtape".to_owned())
    }
}

impl TapePath {
    /// Checks a path.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn parse(path: &str) -> Result<Self, (String, String)> {
        if path.is_empty() {
            return Err(("tape has no path".to_owned(), "write tape:run-{rank}.vtape".to_owned()));
        }
        check_placeholders(path, &PLACEHOLDERS, "a tape's path")?;
        Ok(Self(path.to_owned()))
    }

    /// The path of one process and device.
    pub fn expand(&self, rank: &str, pid: u32, device: u16) -> String {
        self.0
            .replace("{rank}", rank)
            .replace("{pid}", &pid.to_string())
            .replace("{device}", &device.to_string())
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// That every brace of `path` belongs to one of the placeholders of `what`.
pub(super) fn check_placeholders(
    path: &str,
    placeholders: &[&str],
    what: &str,
) -> Result<(), (String, String)> {
    let mut rest = path;
    while let Some(open) = rest.find(['{', '}']) {
        let name = rest[open..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
        match name {
            Some((name, after)) if placeholders.contains(&name) => rest = after,
            _ => {
                let message = format!("{:?} is no placeholder of {what}", &rest[open..]);
                let names: Vec<_> = placeholders.iter().map(|name| format!("{{{name}}}")).collect();
                let (last, others) = names.split_last().map_or(("", &[][..]), |(l, o)| (l, o));
                return Err((message, format!("write {} or {last}", others.join(", "))));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_the_process_and_the_device() {
        let path = TapePath::parse("/t/{rank}-{pid}-{device}/{rank}.vtape").unwrap();
        assert_eq!(path.expand("3", 77, 1), "/t/3-77-1/3.vtape");
    }

    #[test]
    fn other_braces_are_refused() {
        for path in ["{host}.vtape", "{rank", "rank}", "{}", "{{rank}}", ""] {
            assert!(TapePath::parse(path).is_err(), "{path:?}");
        }
    }
}
