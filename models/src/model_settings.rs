//! The settings of a model as text: `key:value,key:value`.

use std::fmt::Debug;

/// A setting that a model does not have, or a value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{model}: `{part}`: {reason}")]
pub struct SettingError {
    /// The model.
    pub model: &'static str,
    /// The part of the text.
    pub part: String,
    /// What is wrong with it, and what is right.
    pub reason: String,
}

/// One setting that a model knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What stands behind the colon, and the default.
    pub values: &'static str,
    /// What it does, and the name it has where it comes from.
    pub what: &'static str,
}

/// A model's settings.
pub trait Settings: Clone + Debug + Default + PartialEq + Send + Sync {
    /// The settings there are.
    const KEYS: &'static [Key];

    /// Sets the one of this name, which is one of [`KEYS`](Self::KEYS).
    ///
    /// # Errors
    /// What is wrong with the value, and what is right.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String>;
}

/// Reads the settings of `model`; empty text is the defaults.
///
/// # Errors
/// A part that is not `key:value`, a key that is unknown or given twice, a value that makes no sense.
pub fn read<S: Settings>(model: &'static str, text: &str) -> Result<S, SettingError> {
    let mut settings = S::default();
    let mut seen: Vec<&str> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let failed = |reason: String| SettingError { model, part: part.to_owned(), reason };
        let Some((key, value)) = part.split_once(':') else {
            return Err(failed(format!("write KEY:VALUE; {}", known(S::KEYS))));
        };
        let (key, value) = (key.trim(), value.trim());
        if !S::KEYS.iter().any(|known| known.name == key) {
            return Err(failed(format!("there is no `{key}`; {}", known(S::KEYS))));
        }
        if seen.contains(&key) {
            return Err(failed(format!("`{key}` is given twice; leave one out")));
        }
        seen.push(key);
        settings.set(key, value).map_err(failed)?;
    }
    Ok(settings)
}

fn known(keys: &[Key]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("{}:{}", key.name, key.values)).collect();
    if keys.is_empty() {
        "it has no settings".to_owned()
    } else {
        format!("known: {}", keys.join(", "))
    }
}

/// `True` or `False`, as PyTorch's settings have them, in any case.
///
/// # Errors
/// Anything else.
pub fn flag(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{value}` is neither True nor False")),
    }
}

/// A size as people write them: `512MiB`.
///
/// # Errors
/// What is no size.
pub fn size(value: &str) -> Result<u64, String> {
    settings::parse_bytes(value)
}

/// A time as people write it, in nanoseconds: `500us`.
///
/// # Errors
/// What is no time.
pub fn duration(value: &str) -> Result<u64, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let found = units.iter().find_map(|(unit, ns)| Some((value.strip_suffix(unit)?.trim(), ns)));
    let number = found.and_then(|(number, ns)| number.parse::<u64>().ok()?.checked_mul(*ns));
    number.ok_or_else(|| format!("`{value}` is not a time; write for example 500us, 10ms or 1s"))
}

/// A number within `[0, 1]`.
///
/// # Errors
/// Anything else.
pub fn fraction(value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("`{value}` is not a number from 0 to 1"))
}
