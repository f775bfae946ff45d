//! The places of a plan. Unlike those that were remembered, they may have to be mapped first.

use super::windows::Window;
use crate::heap::Heap;
use crate::heap::hot_path::AllocParams;
use device::Device;
use events::Recorder;

impl<D: Device, R: Recorder> Heap<D, R> {
    /// Enters the plan of the request's stream, which has made no large request before. Without addresses for it the
    /// stream has no plan.
    #[cold]
    pub(super) fn begin_plan(&mut self, params: &AllocParams) {
        match self.open_run(params) {
            Ok(Some(run)) => self.stitch.begin_plan(params.stream, run),
            Ok(None) => tracing::warn!("no addresses for the plan of a stream"),
            Err(error) => tracing::warn!("no addresses for the plan of a stream: {error}"),
        }
    }

    /// The place that the plan has for the request, if no byte of it is in use.
    pub(super) fn planned_window(&mut self, params: &AllocParams) -> Option<Window> {
        if !self.stitch.is_planned() || params.pool.is_small() {
            return None;
        }
        let follower = self.stitch.follower(params.stream);
        if !follower.is_certain() {
            return None;
        }
        let (recent, older) = (follower.recent(), follower.older());
        recent.into_iter().chain(older).flatten().find_map(|place| self.free_window(params, place))
    }
}
