//! Events: a handle that may be recorded again and again, each time anew in the simulated device.

use device::{Device, EventId};
use rustc_hash::FxHashMap;

use crate::abi::{Answer, Out, Status};
use crate::machine::{self, Machine};

/// `cudaEventDisableTiming`.
pub(crate) const DISABLE_TIMING: u32 = 2;
/// `cudaEventInterprocess`.
const INTERPROCESS: u32 = 4;

/// Milliseconds that pass on the device between two records of events with time. Kernels take no time here, and the
/// host's would differ from run to run: so would the choice of a program that measures several kernels. Where all take
/// the same time, such a program chooses the first one.
const STEP_MS: f32 = 1.0;

/// The events that were made and not destroyed.
#[derive(Debug, Default)]
pub(crate) struct Events {
    live: FxHashMap<u64, Event>,
    /// Records of events with time.
    timed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    timing: bool,
    is_for_processes: bool,
    recorded: Option<Recorded>,
}

#[derive(Clone, Copy, Debug)]
struct Recorded {
    device: u16,
    id: EventId,
    at: u64,
}

impl Events {
    /// Whether the event was made to be shared with other processes.
    pub(crate) fn is_for_processes(&self, handle: u64) -> bool {
        self.live.get(&handle).is_some_and(|event| event.is_for_processes)
    }
}

impl Machine {
    fn recorded(&self, handle: u64) -> Answer<Option<Recorded>> {
        let event = self.events.live.get(&handle).ok_or(Status::INVALID_HANDLE)?;
        Ok(event.recorded)
    }

    fn forget_recorded(&mut self, recorded: Option<Recorded>) {
        if let Some(recorded) = recorded
            && let Ok(device) = self.device(recorded.device)
        {
            device.event_release(recorded.id);
        }
    }
}

/// Makes an event; one for other processes has no time.
pub(crate) fn create(out: Out<u64>, flags: u32) -> Answer {
    out.wanted()?;
    let (timing, is_for_processes) = (flags & DISABLE_TIMING == 0, flags & INTERPROCESS != 0);
    if timing && is_for_processes {
        return Err(Status::INVALID_VALUE);
    }
    machine::bind()?;
    let handle = machine::new_handle();
    machine::with(|machine| {
        let event = Event { timing, is_for_processes, recorded: None };
        machine.events.live.insert(handle, event);
        Ok(())
    })?;
    out.set(handle)
}

pub(crate) fn destroy(handle: u64) -> Answer {
    machine::with(|machine| {
        let event = machine.events.live.remove(&handle).ok_or(Status::INVALID_HANDLE)?;
        machine.forget_recorded(event.recorded);
        machine.unshare_event(handle);
        Ok(())
    })
}

pub(crate) fn record(handle: u64, stream: u64) -> Answer {
    machine::with(|machine| {
        let before = machine.recorded(handle)?;
        let (device, stream) = machine.stream(stream)?;
        let id = machine.device(device)?.event_record(stream)?;
        machine.forget_recorded(before);
        let events = &mut machine.events;
        if let Some(event) = events.live.get_mut(&handle) {
            events.timed += u64::from(event.timing);
            event.recorded = Some(Recorded { device, id, at: events.timed });
        }
        Ok(())
    })
}

/// An event that was never recorded is done.
pub(crate) fn query(handle: u64) -> Answer {
    machine::with(|machine| {
        let Some(recorded) = machine.recorded(handle)? else { return Ok(()) };
        let done = machine.device(recorded.device)?.event_query(recorded.id)?;
        if done { Ok(()) } else { Err(Status::NOT_READY) }
    })
}

pub(crate) fn synchronize(handle: u64) -> Answer {
    machine::with(|machine| {
        let Some(recorded) = machine.recorded(handle)? else { return Ok(()) };
        Ok(machine.device(recorded.device)?.event_synchronize(recorded.id)?)
    })
}

/// Makes a stream wait. Across devices only captures are affected: neither side may capture.
pub(crate) fn wait(stream: u64, handle: u64) -> Answer {
    machine::with(|machine| {
        let Some(recorded) = machine.recorded(handle)? else { return Ok(()) };
        let (device, stream) = machine.stream(stream)?;
        if device == recorded.device {
            return Ok(machine.device(device)?.wait_event(stream, recorded.id)?);
        }
        if machine.device(recorded.device)?.is_captured(recorded.id)? {
            crate::not_simulated("a stream capture over several devices");
            return Err(Status::NOT_SUPPORTED);
        }
        let capturing = machine.device(device)?.capture(stream)?.is_some();
        if capturing { Err(Status::CAPTURE_ISOLATION) } else { Ok(()) }
    })
}

/// The time between the two records, in milliseconds.
pub(crate) fn elapsed(out: Out<f32>, start: u64, end: u64) -> Answer {
    let steps = machine::with(|machine| {
        let time = |handle| {
            let event = machine.events.live.get(&handle).ok_or(Status::INVALID_HANDLE)?;
            let recorded = event.recorded.filter(|_| event.timing);
            recorded.map(|recorded| recorded.at).ok_or(Status::INVALID_HANDLE)
        };
        Ok(time(end)?.saturating_sub(time(start)?))
    })?;
    out.set(steps as f32 * STEP_MS)
}
