//! A ring followed from outside its process: a state, then every record after it.

use std::path::Path;

use trace_format::{BaseState, Record};

use super::ring::{RingError, RingInfo, RingReader};

/// An item for a follower, in the ring's order.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed {
    /// The state that all later records start from, until there is another, and what the ring said about itself then.
    State(Box<BaseState>, RingInfo),
    /// A record.
    Record(Record),
    /// So many slots of the ring were overwritten before they could be read; a state follows.
    Lost(u64),
}

/// Follows a ring. Its process does not notice.
#[derive(Debug)]
pub struct RingFollower {
    reader: RingReader,
    is_known: bool,
    /// Read, but not handed out before it is sure that none is missing in front of them.
    records: Vec<Record>,
}

impl RingFollower {
    /// Opens the ring at `path`.
    ///
    /// # Errors
    /// As for [`RingReader::open`].
    pub fn open(path: &Path) -> Result<Self, RingError> {
        Ok(Self { reader: RingReader::open(path)?, is_known: false, records: Vec::new() })
    }

    /// The ring, for what is not in its order.
    pub fn reader(&mut self) -> &mut RingReader {
        &mut self.reader
    }

    /// Whether the recording process lives.
    pub fn is_live(&self) -> bool {
        self.reader.is_live()
    }

    /// Hands out what was recorded since the last call. The first call begins with the state of now.
    ///
    /// # Errors
    /// Where no state can be had, as for [`RingReader::base_state`]: call again, unless the
    /// [ring cannot be read](RingReader::check) any more. What `take` returns, at once.
    pub fn poll<E: From<RingError>>(
        &mut self,
        mut take: impl FnMut(Followed) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_known {
            let (base, next) = self.reader.base_state()?;
            self.reader.seek(next);
            self.is_known = true;
            take(Followed::State(Box::new(base), self.reader.info()))?;
        }
        let Self { reader, records, .. } = self;
        records.clear();
        let lost = reader.poll(|record| records.push(record));
        reader.check()?;
        if lost > 0 {
            self.is_known = false;
            // Those behind the gap are part of the state that comes next.
            return take(Followed::Lost(lost + records.len() as u64));
        }
        records.drain(..).try_for_each(|record| take(Followed::Record(record)))
    }
}
