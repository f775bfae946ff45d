//! The open scopes of pools. An event of a pool costs the same however many scopes are open, of that pool or others.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::base::ScopeState;
use crate::event::ScopeFilter;
use crate::ids::PoolId;

/// Open scopes by age. Two are equal if the same scopes are open in the same order.
#[derive(Clone, Debug, Default)]
pub struct Scopes {
    by_age: BTreeMap<u64, ScopeState>,
    of_pool: BTreeMap<PoolId, PoolScopes>,
}

/// The scopes of one pool.
#[derive(Clone, Debug)]
struct PoolScopes {
    /// Oldest first.
    ages: Vec<u64>,
    /// So many of the oldest have another filter than at first.
    changed: usize,
    filter: ScopeFilter,
}

impl Scopes {
    /// How many are open.
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// The open scopes, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = ScopeState> {
        self.by_age.iter().map(|(age, scope)| {
            let PoolScopes { ages, changed, filter } = &self.of_pool[&scope.pool];
            let is_changed = ages[..*changed].binary_search(age).is_ok();
            ScopeState { filter: if is_changed { *filter } else { scope.filter }, ..*scope }
        })
    }

    /// The pool of the newest scope.
    pub fn newest(&self) -> Option<PoolId> {
        self.by_age.last_key_value().map(|(_, scope)| scope.pool)
    }

    /// Whether a scope of the pool is open.
    pub(super) fn any_of(&self, pool: PoolId) -> bool {
        self.of_pool.contains_key(&pool)
    }

    /// Opens a scope.
    pub(super) fn open(&mut self, scope: ScopeState) {
        let age = self.by_age.last_key_value().map_or(0, |(newest, _)| newest + 1);
        self.by_age.insert(age, scope);
        let new = || PoolScopes { ages: Vec::new(), changed: 0, filter: scope.filter };
        self.of_pool.entry(scope.pool).or_insert_with(new).ages.push(age);
    }

    /// Closes the newest scope of a pool, if one is open.
    pub(super) fn close_newest(&mut self, pool: PoolId) {
        let Some(scopes) = self.of_pool.get_mut(&pool) else { return };
        if let Some(age) = scopes.ages.pop() {
            self.by_age.remove(&age);
        }
        scopes.changed = scopes.changed.min(scopes.ages.len());
        if scopes.ages.is_empty() {
            self.of_pool.remove(&pool);
        }
    }

    /// Closes all scopes of a pool.
    pub(super) fn close_all(&mut self, pool: PoolId) {
        for age in self.of_pool.remove(&pool).into_iter().flat_map(|scopes| scopes.ages) {
            self.by_age.remove(&age);
        }
    }

    /// Changes the filter of all scopes of a pool.
    pub(super) fn set_filter(&mut self, pool: PoolId, filter: ScopeFilter) {
        if let Some(scopes) = self.of_pool.get_mut(&pool) {
            (scopes.changed, scopes.filter) = (scopes.ages.len(), filter);
        }
    }
}

impl FromIterator<ScopeState> for Scopes {
    fn from_iter<I: IntoIterator<Item = ScopeState>>(scopes: I) -> Self {
        let mut all = Self::default();
        scopes.into_iter().for_each(|scope| all.open(scope));
        all
    }
}

impl PartialEq for Scopes {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOLS: [PoolId; 2] = [PoolId(0, 1), PoolId(0, 2)];

    fn scope(pool: PoolId, filter: ScopeFilter) -> ScopeState {
        ScopeState { pool, filter }
    }

    #[test]
    fn a_filter_is_changed_for_the_scopes_that_are_open_and_for_no_later_one() {
        use ScopeFilter::{Capture, Thread, Unknown};
        let [one, other] = POOLS;
        let all = [scope(one, Thread), scope(other, Thread), scope(one, Unknown)];
        let mut scopes: Scopes = all.into_iter().collect();
        scopes.set_filter(one, Capture);
        scopes.open(scope(one, Thread));
        let expected =
            [scope(one, Capture), scope(other, Thread), scope(one, Capture), scope(one, Thread)];
        assert!(scopes.iter().eq(expected));
        scopes.close_newest(one);
        scopes.close_newest(one);
        scopes.open(scope(one, Unknown));
        let expected = [scope(one, Capture), scope(other, Thread), scope(one, Unknown)];
        assert!(scopes.iter().eq(expected));
        assert_eq!(scopes, expected.into_iter().collect());
        assert_eq!((scopes.len(), scopes.newest()), (3, Some(one)));
        scopes.close_all(one);
        assert!(scopes.iter().eq([scope(other, Thread)]) && !scopes.any_of(one));
        scopes.close_all(other);
        assert!(scopes.is_empty() && scopes.newest().is_none());
    }
}
