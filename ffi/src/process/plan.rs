//! The plan that `VRAMTAPE_CONF` names.

use std::env;
use std::fs;
use std::sync::Arc;

use settings::{Plan, Settings};

use super::tape;
use crate::error::Error;
use events::DeviceId;

/// Reads the plan, where the settings name one.
pub(super) fn read(settings: &Settings) -> Result<Option<Arc<Plan>>, Error> {
    let Some(path) = &settings.plan else { return Ok(None) };
    let path = tape::expand(path, DeviceId(0)).map_err(Error::value)?;
    let cannot = |problem: &dyn std::fmt::Display| {
        let folder = env::current_dir().unwrap_or_default();
        Error::value(format!(
            "VRAMTAPE_CONF: the plan {path:?} cannot be used: {problem}; the folder is {}. Make one with `vramtape \
             plan RUN -o FILE`, or leave plan out",
            folder.display()
        ))
    };
    let text = fs::read_to_string(&path).map_err(|error| cannot(&error))?;
    let plan = Plan::parse(&text).map_err(|error| cannot(&error))?;
    Ok(Some(Arc::new(plan)))
}
