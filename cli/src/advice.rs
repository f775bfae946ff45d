//! The advice that several verbs print, of a run that was read.

use anyhow::Result;
use replay::advice::{Measured, measure};
use replay::compare::StrategyRow;
use replay::tune::{Member, TuneError};

use crate::setting::Chosen;

/// Replays a run under the candidates, and under `settings`, whose recorded changes count where these are the recorded
/// settings. Of the `known` rows those that fit are taken instead. `progress` is called after each replay.
pub(crate) fn measured(
    chosen: &Chosen,
    settings: Option<&str>,
    known: &[StrategyRow],
    progress: &(dyn Fn() + Sync),
) -> Result<Measured> {
    let mut follow = chosen.follow;
    follow.is_as_recorded &= settings.is_none();
    let stitched = if settings.is_none() { chosen.recorded_stitch()? } else { None };
    let settings = settings.unwrap_or(&chosen.tape().meta.alloc_conf).to_owned();
    chosen.with_device(|tape| {
        let capacity_bytes = chosen.capacity_bytes;
        let member = Member { tape, settings, stitched, capacity_bytes, follow };
        measure(&member, chosen.compat(), known, progress).map_err(|error| match error {
            // Of several runs those that cannot be replayed may be left out, which this error type decides.
            TuneError::Drive(error) => error.into(),
            error => error.into(),
        })
    })
}
