//! Descriptors that this library keeps itself, by handle.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::abi::{Answer, Out, Status};
use crate::machine;

/// The descriptors of one kind.
pub(super) struct Registry<T>(LazyLock<Mutex<HashMap<u64, T>>>);

impl<T: Clone + Default> Registry<T> {
    pub(super) const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    fn with<R>(&self, work: impl FnOnce(&mut HashMap<u64, T>) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn create(&self, out: Out<u64>) -> Answer {
        out.wanted()?;
        let handle = machine::new_handle();
        self.with(|all| all.insert(handle, T::default()));
        out.set(handle)
    }

    pub(super) fn destroy(&self, handle: u64) -> Answer {
        self.with(|all| all.remove(&handle)).map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    pub(super) fn set(&self, handle: u64, value: T) -> Answer {
        self.with(|all| all.get_mut(&handle).map(|place| *place = value))
            .ok_or(Status::INVALID_VALUE)
    }

    pub(super) fn get(&self, handle: u64) -> Answer<T> {
        self.with(|all| all.get(&handle).cloned()).ok_or(Status::INVALID_VALUE)
    }
}
