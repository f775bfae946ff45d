//! One value of a snapshot at a time, with an error that names the place.

use std::fmt;

use thiserror::Error;
use trace_format::{BlockStatus, PoolId, Stream};

use crate::pickle::{Tree, Value};

/// What is read from a snapshot.
pub(super) type Result<T, E = SnapshotError> = std::result::Result<T, E>;

/// A readable pickle that is not a memory snapshot, and where it departs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{place}: {needs} is needed, found {found}; is this a file of \
     torch.cuda.memory._dump_snapshot?"
)]
pub struct SnapshotError {
    /// Path in the object, such as `device_traces[0][17].addr`.
    pub place: String,
    /// The expected value.
    pub needs: &'static str,
    /// The value found.
    pub found: String,
}

/// More devices than any machine has.
const DEVICES_MAX: i64 = 1024;

pub(super) fn status_of(state: &str) -> Option<BlockStatus> {
    match state {
        "active_allocated" => Some(BlockStatus::Allocated),
        // The second is what PyTorch's documentation calls it.
        "active_pending_free" | "active_awaiting_free" => Some(BlockStatus::PendingFree),
        "inactive" => Some(BlockStatus::Inactive),
        _ => None,
    }
}

/// A raw handle; negative where it came as a signed pointer.
pub(super) fn stream_of(value: Value) -> Stream {
    match value {
        Value::Int(handle) => Stream(handle as u64),
        Value::Big(handle) => Stream(handle),
        _ => Stream(0),
    }
}

pub(super) fn time_of(value: Value) -> u64 {
    match value {
        Value::Float(time) => time as u64,
        value => value.as_u64().unwrap_or(0),
    }
}

pub(super) fn pool_of(tree: &Tree, value: Value) -> Option<PoolId> {
    let (Value::List(node) | Value::Tuple(node)) = value else { return None };
    if tree.len(node) != 2 {
        return None;
    }
    let part = |at| tree.value(node, at)?.as_u64();
    Some(PoolId(part(0)?, part(1)?))
}

/// Whether metadata differs from its default.
pub(super) fn is_metadata(tree: &Tree, value: Value, default: &str) -> bool {
    match value {
        Value::None => false,
        Value::Text(text) => tree.text(text) != default,
        _ => true,
    }
}

/// The size of something: below 1 EiB, which no allocator reaches, so that sums of a few cannot overflow.
pub(super) fn size_of(tree: &Tree, place: impl fmt::Display, value: Value) -> Result<u64> {
    match value.as_u64() {
        Some(size) if size < allocator::size::MAX_REQUEST_BYTES => Ok(size),
        _ => Err(mismatch(place, "a size below 1 EiB", tree, value)),
    }
}

/// The size of a request: not nothing either.
pub(super) fn request_of(tree: &Tree, place: impl fmt::Display, value: Value) -> Result<u64> {
    match size_of(tree, &place, value)? {
        0 => Err(mismatch(place, "a size of at least one byte", tree, value)),
        size => Ok(size),
    }
}

/// A device's number; a missing one is 0.
pub(super) fn device_of(tree: &Tree, place: impl fmt::Display, value: Value) -> Result<u32> {
    match value {
        Value::None => Ok(0),
        Value::Int(device @ 0..DEVICES_MAX) => Ok(device as u32),
        other => Err(mismatch(place, "a device number below 1024", tree, other)),
    }
}

pub(super) fn integer(tree: &Tree, place: impl fmt::Display, value: Value) -> Result<u64> {
    value.as_u64().ok_or_else(|| mismatch(place, "an integer of at least 0", tree, value))
}

pub(super) fn mismatch(
    place: impl fmt::Display,
    needs: &'static str,
    tree: &Tree,
    found: Value,
) -> SnapshotError {
    let found = match found {
        Value::None => "nothing".to_owned(),
        Value::Text(text) => format!("{:?}", tree.text(text)),
        Value::Int(value) => value.to_string(),
        other => other.type_name().to_owned(),
    };
    SnapshotError { place: place.to_string(), needs, found }
}

/// A place in the snapshot; formatted only for an error.
#[derive(Clone, Copy)]
pub(super) struct NodePath {
    list: &'static str,
    at: usize,
    inner: Option<usize>,
    key: Option<&'static str>,
}

impl NodePath {
    pub(super) fn of(list: &'static str, at: usize) -> Self {
        Self { list, at, inner: None, key: None }
    }

    pub(super) fn at(self, inner: usize) -> Self {
        Self { inner: Some(inner), ..self }
    }

    pub(super) fn key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }
}

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.at)?;
        if let Some(inner) = self.inner {
            write!(f, "[{inner}]")?;
        }
        self.key.map_or(Ok(()), |key| write!(f, ".{key}"))
    }
}
