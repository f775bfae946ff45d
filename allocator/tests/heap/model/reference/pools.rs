//! Private pools and scopes.

use std::sync::Arc;

use allocator::heap::HeapError;
use trace_format::{PoolId, ScopeFilter, Stream};

use super::{Pool, Reference, Scope};
use crate::support::SharedSource;

impl Reference {
    pub(super) fn source_of(&self, id: PoolId) -> Option<Arc<SharedSource>> {
        self.pools.iter().find(|pool| pool.id == id)?.source.clone()
    }

    /// `get_pool`: which pool serves a request.
    pub(super) fn pool_for(&self, stream: Stream, asked: Option<PoolId>) -> PoolId {
        let scoped = self.scopes.iter().rev().find(|scope| scope.streams.contains(&stream));
        let id = asked.or(scoped.map(|scope| scope.pool)).unwrap_or(PoolId::DEFAULT);
        if self.pools.iter().any(|pool| pool.id == id) { id } else { PoolId::DEFAULT }
    }

    pub(crate) fn create_pool(
        &mut self,
        id: PoolId,
        source: Option<Arc<SharedSource>>,
    ) -> Result<(), HeapError> {
        let holds_memory = self.blocks.iter().any(|block| block.pool == id && block.mapped);
        match self.pools.iter_mut().find(|pool| pool.id == id) {
            None => self.pools.push(Pool { id, users: 1, source }),
            Some(pool) if pool.users == 0 => return Err(HeapError::Released { pool: id }),
            Some(pool) if source.is_some() && (pool.source.is_some() || holds_memory) => {
                return Err(HeapError::SourceTooLate { pool: id });
            }
            Some(pool) => {
                pool.users += 1;
                pool.source = source.or_else(|| pool.source.take());
            }
        }
        Ok(())
    }

    pub(crate) fn begin_pool(
        &mut self,
        id: PoolId,
        kind: ScopeFilter,
        streams: Vec<Stream>,
    ) -> Result<(), HeapError> {
        if self.scopes.iter().any(|scope| scope.pool == id) {
            return Err(HeapError::AlreadyOpen { pool: id });
        }
        self.create_pool(id, None)?;
        self.scopes.push(Scope { pool: id, kind, streams });
        Ok(())
    }

    pub(crate) fn end_pool(&mut self, id: PoolId) -> Result<(), HeapError> {
        let at = self.scopes.iter().position(|scope| scope.pool == id);
        self.scopes.remove(at.ok_or(HeapError::NotOpen { pool: id })?);
        if self.config.graph_capture_record_stream_reuse && !self.is_2_11() {
            self.complete_deferred(|reference, addr, _| {
                reference.blocks[reference.at(addr)].pool == id
                    && reference.only_captured_uses(addr)
            });
        }
        Ok(())
    }

    pub(crate) fn set_capture(&mut self, id: PoolId, on: bool) -> Result<(), HeapError> {
        let scope = self.scopes.iter_mut().find(|scope| scope.pool == id);
        scope.ok_or(HeapError::NotOpen { pool: id })?.kind =
            if on { ScopeFilter::Capture } else { ScopeFilter::Thread };
        Ok(())
    }

    pub(crate) fn release_pool(&mut self, id: PoolId) -> Result<(), HeapError> {
        let pool = self.pools.iter_mut().find(|pool| pool.id == id);
        let pool = pool.ok_or(HeapError::UnknownPool { pool: id })?;
        pool.users = pool.users.checked_sub(1).ok_or(HeapError::Released { pool: id })?;
        Ok(())
    }

    pub(crate) fn users(&self, id: PoolId) -> Option<u32> {
        self.pools.iter().find(|pool| pool.id == id).map(|pool| pool.users)
    }

    pub(crate) fn set_use_on_oom(&mut self, id: PoolId, on: bool) {
        self.use_on_oom.retain(|other| *other != id);
        if on {
            self.use_on_oom.push(id);
        }
    }

    pub(crate) fn set_no_split(&mut self, id: PoolId) {
        self.no_split.push(id);
    }
}
