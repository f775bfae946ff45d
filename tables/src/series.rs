//! Memory over time, one row a point.

use std::path::Path;

use replay::series::Point;
use trace_format::DeviceId;

use crate::row::{Column, Row, amounts, devices, flags, texts};
use crate::sink::Sink;
use crate::{Format, Result, Source, Written};

/// One line over time: a device under one setting.
#[derive(Clone, Debug)]
pub struct Line {
    /// The device.
    pub device: DeviceId,
    /// The strategy's name.
    pub strategy: String,
    /// Its settings.
    pub config: String,
    /// Whether that is as it was recorded.
    pub is_recorded: bool,
    /// Its points.
    pub points: Vec<Point>,
}

struct SeriesRow<'t> {
    line: &'t Line,
    point: Point,
}

impl Row for SeriesRow<'_> {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("device", |rows| devices(rows, |row| row.line.device.0)),
            ("strategy", |rows| texts(rows, |row| Some(&row.line.strategy))),
            ("config", |rows| texts(rows, |row| Some(&row.line.config))),
            ("is_recorded", |rows| flags(rows, |row| Some(row.line.is_recorded))),
            ("after_records", |rows| amounts(rows, |row| Some(row.point.after_records))),
            ("time_ns", |rows| amounts(rows, |row| Some(row.point.time_ns).filter(|ns| *ns > 0))),
            ("reserved_bytes", |rows| amounts(rows, |row| Some(row.point.reserved_bytes))),
            ("live_bytes", |rows| amounts(rows, |row| Some(row.point.live_bytes))),
        ]
    }
}

pub(crate) fn write(source: &Source<'_>, path: &Path, format: Format) -> Result<Written> {
    let mut sink = Sink::create(path, format)?;
    for line in &source.lines {
        for &point in &line.points {
            sink.push(SeriesRow { line, point })?;
        }
    }
    sink.end()
}
