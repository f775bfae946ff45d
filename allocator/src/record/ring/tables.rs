//! Strings and stacks by number, for records that name them: in memory for this process's tape, in the text log for
//! others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trace_format::{Frame, StackId, StringId};

use super::region::Region;
use super::text;

/// What records name by number. Ids are the ring's own; a tape gives its own.
#[derive(Debug, Default)]
pub(super) struct Tables {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    strings: Interner<str>,
    stacks: Interner<[Frame]>,
}

impl Tables {
    pub(super) fn intern(&self, region: &Region, text: &str) -> StringId {
        let append = || text::append(region, text::STRING, text.as_bytes());
        StringId(self.lock().strings.id(text, append))
    }

    pub(super) fn intern_stack(&self, region: &Region, frames: &[Frame]) -> StackId {
        let append = || text::append(region, text::STACK, &text::stack_bytes(frames));
        StackId(self.lock().stacks.id(frames, append))
    }

    /// Appends what a tape of the ring would say about itself, as JSON.
    pub(super) fn describe(&self, region: &Region, json: &str) {
        let _one_writer = self.lock();
        text::append(region, text::META, json.as_bytes());
    }

    pub(super) fn string(&self, id: StringId) -> Option<Arc<str>> {
        self.lock().strings.get(id.0)
    }

    pub(super) fn stack(&self, id: StackId) -> Option<Arc<[Frame]>> {
        self.lock().stacks.get(id.0)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers things from 1 in order of appearance.
#[derive(Debug)]
struct Interner<T: ?Sized> {
    known: Vec<Arc<T>>,
    ids: HashMap<Arc<T>, u32>,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self { known: Vec::new(), ids: HashMap::new() }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The number of `thing`; calls `announce` if it is new.
    fn id<'a>(&mut self, thing: &'a T, announce: impl FnOnce()) -> u32
    where
        Arc<T>: From<&'a T>,
    {
        if let Some(&id) = self.ids.get(thing) {
            return id;
        }
        announce();
        let thing = Arc::from(thing);
        self.known.push(Arc::clone(&thing));
        let id = self.known.len() as u32;
        self.ids.insert(thing, id);
        id
    }

    fn get(&self, id: u32) -> Option<Arc<T>> {
        self.known.get(id.checked_sub(1)? as usize).cloned()
    }
}
