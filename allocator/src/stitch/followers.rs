//! The placement memories of streams.

use alloc::vec::Vec;

use events::Stream;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::Follower;

/// The placement memories of the streams that made a large request. One stream often makes several in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers {
    all: Vec<(Stream, Follower)>,
    places: HashMap<Stream, usize, FxBuildHasher>,
    /// The place of the last that was looked up.
    last: usize,
}

impl Followers {
    /// The memory of a stream.
    #[inline]
    pub(super) fn of(&mut self, stream: Stream) -> &mut Follower {
        let is_last = self.all.get(self.last).is_some_and(|(last, _)| *last == stream);
        if is_last { &mut self.all[self.last].1 } else { self.find(stream) }
    }

    #[cold]
    fn find(&mut self, stream: Stream) -> &mut Follower {
        self.last = match self.places.get(&stream) {
            Some(place) => *place,
            None => self.insert(stream, Follower::default()),
        };
        &mut self.all[self.last].1
    }

    /// Enters the memory of a stream that has none.
    pub(super) fn insert(&mut self, stream: Stream, follower: Follower) -> usize {
        let place = self.all.len();
        self.all.push((stream, follower));
        self.places.insert(stream, place);
        place
    }

    /// Whether a stream has made a large request.
    pub(super) fn contains(&self, stream: Stream) -> bool {
        self.places.contains_key(&stream)
    }

    /// The streams.
    pub(super) fn streams(&self) -> impl Iterator<Item = Stream> {
        self.all.iter().map(|(stream, _)| *stream)
    }
}
