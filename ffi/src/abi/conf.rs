//! `VRAMTAPE_CONF` for the Python package, which reads it before PyTorch is there.

use std::env;
use std::ffi::c_char;

use serde_json::json;
use settings::{Settings, merge};

use super::text::{copy_out, read};
use crate::error::Error;
use crate::{guard, process};

/// The settings in `VRAMTAPE_CONF` that readers outside the allocator need, as JSON: `route`, `strategy`,
/// `record`, `tape`, `tape_replace`, `oom_dir` (whether it is set) and `stacks`, defaults included; `all`
/// is a text of every setting, for comparison, and `is_read` says whether the allocator has read them.
/// Reading it starts nothing.
///
/// Buffer and answer are those of `vramtape_stats`; settings that cannot be read are an error.
///
/// # Safety
///
/// `buffer` is NULL or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_conf(buffer: *mut c_char, capacity: usize) -> i64 {
    guard::answer(-1, || {
        let (settings, _) = Settings::parse(&variable()?)?;
        let text = json!({
            "route": settings.route.name(),
            "strategy": settings.strategy.name(),
            "record": settings.record.name(),
            "tape": settings.tape.as_str(),
            "tape_replace": settings.tape_replace,
            "oom_dir": settings.oom_dir.is_some(),
            "stacks": settings.stacks.mode.name(),
            "all": format!("{settings:?}"),
            "is_read": process::has_begun(),
        });
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&text.to_string(), buffer, capacity) })
    })
}

/// `VRAMTAPE_CONF` with the keys of `changes` in place of its own: the text for a program that is
/// started with them. Buffer and answer are those of `vramtape_stats`.
///
/// # Safety
///
/// `changes` is NULL, which is an error, or a terminated string; `buffer` is NULL or points to
/// `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_conf_with(
    changes: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    guard::answer(-1, || {
        // SAFETY: the caller vouches that `changes` is NULL or a terminated string.
        let changes = unsafe { read(changes, "changes") }?;
        let text = merge(&variable()?, changes)?;
        // SAFETY: the caller vouches for the buffer.
        Ok(unsafe { copy_out(&text, buffer, capacity) })
    })
}

fn variable() -> Result<String, Error> {
    let Some(text) = env::var_os("VRAMTAPE_CONF") else { return Ok(String::new()) };
    text.into_string().map_err(|text| {
        Error::value(format!("VRAMTAPE_CONF is not UTF-8: {}", text.to_string_lossy()))
    })
}
