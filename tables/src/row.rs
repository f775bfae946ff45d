//! Rows and their columns: one list of names and builders defines both a table's schema and its values.
//!
//! Sizes, times and record numbers are signed, so that their differences are what one expects in every query language.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{Field, Schema, SchemaRef};

/// A column: its name, and what makes it of rows.
pub(crate) type Column<R> = (&'static str, fn(&[R]) -> ArrayRef);

/// A row of a table.
pub(crate) trait Row: Sized {
    /// The columns, in order.
    fn columns() -> Vec<Column<Self>>;
}

/// The schema of rows: every column may be null.
pub(crate) fn schema<R: Row>() -> SchemaRef {
    let field = |(name, of): Column<R>| Field::new(name, of(&[]).data_type().clone(), true);
    Arc::new(Schema::new(R::columns().into_iter().map(field).collect::<Vec<_>>()))
}

/// Bytes, nanoseconds and counts.
pub(crate) fn amounts<R>(rows: &[R], value: impl Fn(&R) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(|row| value(row).map(u64::cast_signed)).collect::<Int64Array>())
}

/// Numbers of records, -1 for what was before the first.
pub(crate) fn numbers<R>(rows: &[R], value: impl Fn(&R) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<Int64Array>())
}

/// Addresses and handles.
pub(crate) fn handles<R>(rows: &[R], value: impl Fn(&R) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<UInt64Array>())
}

/// Numbers that name something.
pub(crate) fn ids<R>(rows: &[R], value: impl Fn(&R) -> Option<u32>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<UInt32Array>())
}

/// Devices.
pub(crate) fn devices<R>(rows: &[R], value: impl Fn(&R) -> u16) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(value(row))).collect::<UInt16Array>())
}

/// Yes, no or unknown.
pub(crate) fn flags<R>(rows: &[R], value: impl Fn(&R) -> Option<bool>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<BooleanArray>())
}

/// Shares.
pub(crate) fn shares<R>(rows: &[R], value: impl Fn(&R) -> Option<f64>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<Float64Array>())
}

/// Text that is there.
pub(crate) fn texts<R>(rows: &[R], value: impl Fn(&R) -> Option<&str>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<StringArray>())
}

/// Text that has to be made.
pub(crate) fn names<R>(rows: &[R], value: impl Fn(&R) -> Option<String>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<StringArray>())
}
