//! Where a tape is written: a path with `{rank}`, `{pid}` and `{device}` in it.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;

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
    /// The fault and its remedy, if it cannot be parsed.
    pub fn parse(path: &str) -> Result<Self, (String, String)> {
        if path.is_empty() {
            return Err(("tape has no path".to_owned(), "write tape:run-{rank}.vtape".to_owned()));
        }
        check_placeholders(path, &PLACEHOLDERS, "a tape's path")?;
        Ok(Self(path.to_owned()))
    }

    /// The path of the first out of memory's tape in a folder, which may have placeholders too.
    ///
    /// # Errors
    /// The fault and its remedy, if it cannot be parsed.
    pub fn of_oom(folder: &str) -> Result<Self, (String, String)> {
        if folder.is_empty() {
            return Err(("oom_dir has no path".to_owned(), "write oom_dir:ooms".to_owned()));
        }
        check_placeholders(folder, &PLACEHOLDERS, "a folder's path")?;
        Ok(Self(format!("{folder}/oom-rank{{rank}}-pid{{pid}}-device{{device}}.vtape")))
    }

    /// The path of a plan.
    ///
    /// # Errors
    /// The fault and its remedy, if it cannot be parsed.
    pub fn of_plan(path: &str) -> Result<Self, (String, String)> {
        if path.is_empty() {
            return Err(("plan has no path".to_owned(), "write plan:run.vplan".to_owned()));
        }
        check_placeholders(path, &PLACEHOLDERS[..1], "a plan's path")?;
        Ok(Self(path.to_owned()))
    }

    /// The path of one process, whose `RANK` is `rank`, and device.
    ///
    /// # Errors
    /// Where the path has a `{rank}` that is no number.
    pub fn expand(&self, rank: Option<&str>, pid: u32, device: u16) -> Result<String, String> {
        let path = expand_rank(&self.0, rank)?;
        Ok(path.replace("{pid}", &pid.to_string()).replace("{device}", &device.to_string()))
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Puts the value of `RANK` into a path: 0 where there is none. Anything but a number could lead anywhere.
fn expand_rank(path: &str, rank: Option<&str>) -> Result<String, String> {
    let rank = match rank {
        _ if !path.contains("{rank}") => return Ok(path.to_owned()),
        None | Some("") => 0,
        Some(text) => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u32>().ok().filter(|_| is_number);
            number.ok_or_else(|| {
                format!(
                    "{{rank}} in {path:?} stands for the value of RANK, which is {text:?} and not a number: set RANK \
                     to the process's number in its job, or write {{pid}}"
                )
            })?
        }
    };
    Ok(path.replace("{rank}", &rank.to_string()))
}

/// That every brace of `path` belongs to one of the placeholders of `what`.
fn check_placeholders(
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
                let advice = match names.split_last() {
                    Some((last, others)) if !others.is_empty() => {
                        format!("write {} or {last}", others.join(", "))
                    }
                    _ => format!("write {}", names.concat()),
                };
                return Err((message, advice));
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
        assert_eq!(path.expand(Some("3"), 77, 1).unwrap(), "/t/3-77-1/3.vtape");
        assert_eq!(path.expand(None, 77, 1).unwrap(), "/t/0-77-1/0.vtape");
    }

    #[test]
    fn the_tape_of_an_out_of_memory_has_a_name_in_its_folder() {
        let path = TapePath::of_oom("/t/{rank}").unwrap();
        assert_eq!(path.expand(Some("3"), 77, 1).unwrap(), "/t/3/oom-rank3-pid77-device1.vtape");
        assert!(TapePath::of_oom("").is_err());
        assert!(TapePath::of_oom("{host}").unwrap_err().0.contains("a folder's path"));
    }

    #[test]
    fn a_rank_that_is_no_number_leads_nowhere() {
        let path = TapePath::parse("/t/run-{rank}.vtape").unwrap();
        for rank in ["/../x", "..", "-1", "+1", " 1", "1/2", "4294967296", "\u{0663}", "\n"] {
            let error = path.expand(Some(rank), 77, 1).expect_err(rank);
            assert!(error.contains("RANK") && error.contains(&format!("{rank:?}")), "{error}");
        }
        assert_eq!(path.expand(Some("007"), 77, 1).unwrap(), "/t/run-7.vtape");
        let other = TapePath::parse("/t/{pid}.vtape").unwrap();
        assert_eq!(
            other.expand(Some("/../x"), 77, 1).unwrap(),
            "/t/77.vtape",
            "nothing asks for it"
        );
    }

    #[test]
    fn other_braces_are_refused() {
        for path in ["{host}.vtape", "{rank", "rank}", "{}", "{{rank}}", ""] {
            assert!(TapePath::parse(path).is_err(), "{path:?}");
        }
    }
}
