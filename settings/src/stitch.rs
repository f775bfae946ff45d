//! The settings of `stitch`.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// Whether free pages of one stream may serve another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamSharing {
    /// Never, except through `empty_cache`.
    Never,
    /// Once the device has passed the work before the free, by a query of an event.
    Idle,
    /// The same; a request for which memory is short waits for the other streams.
    #[default]
    Wait,
}

/// The settings of `stitch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StitchConfig {
    /// Mapped addresses for each byte of physical memory, at most.
    pub address_budget: u32,
    /// Whether requests are first offered the addresses of earlier steps.
    pub has_placement_memory: bool,
    /// Whether free pages of one stream may serve another.
    pub sharing: StreamSharing,
}

impl Default for StitchConfig {
    fn default() -> Self {
        Self { address_budget: 4, has_placement_memory: true, sharing: StreamSharing::default() }
    }
}

/// The keys of the settings, with their values.
pub const STITCH_KEYS: [(&str, &str); 3] = [
    ("address_budget", "a number from 2 to 64"),
    ("placement_memory", "True|False"),
    ("stream_sharing", "never|idle|wait"),
];

impl StitchConfig {
    /// Whether a key is one of [`STITCH_KEYS`].
    pub fn has_key(key: &str) -> bool {
        STITCH_KEYS.iter().any(|(known, _)| *known == key)
    }

    /// Changes the setting of a key.
    ///
    /// # Errors
    /// The values that the key has, where this is none of them.
    pub fn set(&mut self, key: &str, value: &str) -> core::result::Result<(), &'static str> {
        let known = STITCH_KEYS.iter().find(|(known, _)| *known == key);
        let values = known.map_or("no key of stitch", |(_, values)| *values);
        match (key, value) {
            ("address_budget", number) => {
                let number = number.parse().ok().filter(|number| (2..=64).contains(number));
                self.address_budget = number.ok_or(values)?;
            }
            ("placement_memory", "True") => self.has_placement_memory = true,
            ("placement_memory", "False") => self.has_placement_memory = false,
            ("stream_sharing", "never") => self.sharing = StreamSharing::Never,
            ("stream_sharing", "idle") => self.sharing = StreamSharing::Idle,
            ("stream_sharing", "wait") => self.sharing = StreamSharing::Wait,
            _ => return Err(values),
        }
        Ok(())
    }

    /// Takes the entries of [`STITCH_KEYS`] out of settings; returns the others, which are PyTorch's.
    ///
    /// # Errors
    /// The first of these entries whose value is not understood, and the values that it may have.
    pub fn take_from(
        &mut self,
        text: &str,
    ) -> core::result::Result<String, (String, &'static str)> {
        let mut rest: Vec<&str> = Vec::new();
        for entry in text.split(',') {
            let (key, value) = entry.split_once(':').unwrap_or((entry, ""));
            if Self::has_key(key.trim()) {
                self.set(key.trim(), value.trim()).map_err(|values| (entry.to_owned(), values))?;
            } else {
                rest.push(entry);
            }
        }
        Ok(rest.join(","))
    }
}
