//! The exact lives, in a tree over the moments: a window finds its lives in the nodes that overlap it.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::chunk::{Arrays, Chunk, unit_of};
use crate::follow::{Followed, Life, NO_END};

/// Moments of a leaf.
pub(crate) const LEAF_MOMENTS: u32 = 1 << 16;

/// A node: its height over the leaves, and its number among those of that height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    height: u32,
    at: u32,
}

impl Node {
    /// The lowest node that covers a life; `last_moment` is that of the tape.
    fn of(life: &Life, last_moment: u32) -> Self {
        let last = if life.end == NO_END { last_moment } else { life.end.max(life.start + 1) - 1 };
        let (first, last) = (life.start / LEAF_MOMENTS, last / LEAF_MOMENTS);
        let height = u32::BITS - (first ^ last).leading_zeros();
        Self { height, at: first >> height }
    }
}

/// The height of the node that covers all moments.
pub(crate) fn height(last_moment: u32) -> u32 {
    u32::BITS - (last_moment / LEAF_MOMENTS).leading_zeros()
}

/// The nodes, from the root to the leaves, as chunks whose ids begin with `prefix`.
pub(crate) fn nodes(
    prefix: &str,
    followed: &Followed,
    last_moment: u32,
    rank: &[u32],
) -> Vec<Chunk> {
    let mut placed: FxHashMap<Node, Vec<u32>> = FxHashMap::default();
    for (at, life) in (0..).zip(&followed.lives) {
        placed.entry(Node::of(life, last_moment)).or_default().push(at);
    }
    let mut nodes: Vec<(Node, Vec<u32>)> = placed.into_iter().collect();
    nodes.sort_unstable_by_key(|(node, _)| (std::cmp::Reverse(node.height), node.at));
    let chunk = |(node, lives): &(Node, Vec<u32>)| {
        let id = format!("{prefix}/{}/{}", node.height, node.at);
        Chunk::of(id, &arrays(*node, lives, followed, rank))
    };
    nodes.par_iter().map(chunk).collect()
}

fn arrays(node: Node, placed: &[u32], followed: &Followed, rank: &[u32]) -> Arrays {
    let begin = u64::from(node.at) * (u64::from(LEAF_MOMENTS) << node.height);
    let lives: Vec<&Life> = placed.iter().map(|at| &followed.lives[*at as usize]).collect();
    let mut arrays = Arrays::default();
    arrays.rising(lives.iter().map(|life| u64::from(life.start) - begin));
    arrays.plain(lives.iter().map(|life| match life.end {
        NO_END => 0,
        end => u64::from(end - life.start),
    }));
    arrays.plain(lives.iter().map(|life| u64::from(rank[life.kind as usize])));
    let unit = unit_of(lives.iter().map(|life| life.addr));
    arrays.put(lives.len() as u64);
    arrays.put(unit);
    let mut before = FxHashMap::<u32, u64>::default();
    for life in &lives {
        let addr = life.addr / unit;
        let before = before.insert(life.kind, addr).unwrap_or(0);
        arrays.put(crate::chunk::zigzag(addr.wrapping_sub(before).cast_signed()));
    }
    let is_before = |place: &usize| (placed[*place] as usize) < followed.lives_before;
    let before: Vec<u64> =
        (0..lives.len()).take_while(is_before).map(|place| place as u64).collect();
    arrays.rising(before.into_iter());
    arrays
}
