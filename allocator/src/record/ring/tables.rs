//! Strings by number, for records that name them: in memory for this process's tape, in the text log for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trace_format::StringId;

use super::region::Region;
use super::text;

/// What records name by number. Ids are the ring's own; a tape gives its own.
#[derive(Debug, Default)]
pub(super) struct Tables {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number 1 first; number 0 is the empty string.
    strings: Vec<Arc<str>>,
    string_ids: HashMap<Arc<str>, StringId>,
}

impl Tables {
    pub(super) fn intern(&self, region: &Region, text: &str) -> StringId {
        if text.is_empty() {
            return StringId(0);
        }
        let mut inner = self.lock();
        if let Some(&id) = inner.string_ids.get(text) {
            return id;
        }
        let text: Arc<str> = text.into();
        inner.strings.push(Arc::clone(&text));
        let id = StringId(inner.strings.len() as u32);
        text::append(region, text::STRING, text.as_bytes());
        inner.string_ids.insert(text, id);
        id
    }

    pub(super) fn string(&self, id: StringId) -> Option<Arc<str>> {
        match id.0.checked_sub(1) {
            None => Some("".into()),
            Some(index) => self.lock().strings.get(index as usize).cloned(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
