//! The markers of a profile: spans of a run, out-of-memory errors, and other moments.

use fxprof_processed_profile::{
    CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, Profile,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle,
};

/// Where all markers are shown.
const PANELS: MarkerLocations = MarkerLocations::MARKER_CHART
    .union(MarkerLocations::MARKER_TABLE)
    .union(MarkerLocations::TIMELINE_OVERVIEW);

const fn text(key: &'static str, label: &'static str) -> StaticSchemaMarkerField {
    let (format, flags) = (MarkerFieldFormat::String, MarkerFieldFlags::SEARCHABLE);
    StaticSchemaMarkerField { key, label, format, flags }
}

const fn bytes(key: &'static str, label: &'static str) -> StaticSchemaMarkerField {
    let (format, flags) = (MarkerFieldFormat::Bytes, MarkerFieldFlags::empty());
    StaticSchemaMarkerField { key, label, format, flags }
}

/// A step, phase, named range or module call.
pub(super) struct Span {
    /// The kind of span.
    pub(super) row: StringHandle,
    pub(super) title: StringHandle,
    /// Allocated bytes at its begin and end.
    pub(super) allocated_bytes: [u64; 2],
}

impl StaticSchemaMarker for Span {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "vramtape-span";
    const LOCATIONS: MarkerLocations = PANELS;
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.title}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.title}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.title}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        text("title", "Name"),
        bytes("begin", "Allocated at its begin"),
        bytes("end", "Allocated at its end"),
    ];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.row
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.title
    }

    fn number_field_value(&self, field: u32) -> f64 {
        self.allocated_bytes[usize::from(field == 2)] as f64
    }
}

/// An out-of-memory error.
pub(super) struct OutOfMemory {
    pub(super) category: CategoryHandle,
    pub(super) stream: StringHandle,
    pub(super) pool: StringHandle,
    /// Requested, rounded, free on the device, allocated and reserved.
    pub(super) bytes: [u64; 5],
}

impl StaticSchemaMarker for OutOfMemory {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "vramtape-oom";
    const LOCATIONS: MarkerLocations = PANELS.union(MarkerLocations::TIMELINE_MEMORY);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.requested}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.requested} requested");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        bytes("requested", "Requested"),
        bytes("size", "Requested, rounded"),
        bytes("free", "Free on the device"),
        bytes("allocated", "Allocated"),
        bytes("reserved", "Reserved"),
        text("stream", "Stream"),
        text("pool", "Pool"),
    ];

    fn name(&self, profile: &mut Profile) -> StringHandle {
        profile.intern_string("Out of memory")
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        if field == 5 { self.stream } else { self.pool }
    }

    fn number_field_value(&self, field: u32) -> f64 {
        self.bytes[field as usize] as f64
    }
}

/// A mark of the program, a snapshot, or lost records.
pub(super) struct Moment {
    pub(super) kind: StringHandle,
    pub(super) title: StringHandle,
}

impl StaticSchemaMarker for Moment {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "vramtape-moment";
    const LOCATIONS: MarkerLocations = PANELS;
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.title}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.title}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[text("title", "Text")];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.kind
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.title
    }

    fn number_field_value(&self, _: u32) -> f64 {
        unreachable!("its field is a text")
    }
}
