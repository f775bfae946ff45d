//! A run as one HTML page that needs no network: the levels of detail are computed here, the page only draws them.
//!
//! `docs/page-format.md` defines the data. One pass over the records gives the *lives* of blocks and the counters of
//! each column ([`follow`]); everything else is computed from those: groups of lives ([`grouping`]), stacks of groups
//! at each level of detail ([`bands`]), and a tree in which a window finds its exact lives ([`tree`]).
//!
//! [`draw`] makes a static picture of the same data.
#![forbid(unsafe_code)]

mod bands;
mod chunk;
mod columns;
mod device;
mod envelopes;
mod explained;
mod follow;
mod grouping;
mod header;
mod kinds;
mod marks;
mod names;
mod page;
mod patterns;
mod picture;
mod plots;
mod ranges;
mod series;
mod served;
mod times;
mod tree;

pub use device::{PageDevice, Source};
pub use explained::ExplainPlot;
pub use follow::Contradiction;
pub use page::{Page, ViewError};
pub use patterns::Pattern;
pub use picture::{Picture, PictureError, PictureOptions, Size, SizeError, Theme, draw};
pub use plots::{StrategiesPlot, WastePlot};
pub use served::ServedPage;
