//! One capture in progress: the streams that take part and the graph so far.

use std::thread::{self, ThreadId};

use events::Stream;
use rustc_hash::{FxHashMap, FxHashSet};

use device::{CaptureId, CaptureMode, GraphNode};

/// A node of a captured graph and what it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedNode {
    /// The node.
    pub node: GraphNode,
    /// Its dependencies, all earlier in the graph.
    pub dependencies: Vec<GraphNode>,
}

/// What a capture recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedGraph {
    /// Which capture.
    pub id: CaptureId,
    /// Its nodes in the order of their creation.
    pub nodes: Vec<CapturedNode>,
}

/// Where in a capture an event was recorded.
#[derive(Clone, Debug)]
pub(super) struct Position {
    pub(super) capture: CaptureId,
    pub(super) terminals: Vec<GraphNode>,
}

/// A capture in progress.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) id: CaptureId,
    pub(super) origin: Stream,
    pub(super) mode: CaptureMode,
    pub(super) thread: ThreadId,
    pub(super) invalidated: bool,
    /// Per stream that takes part, what its next operation depends on.
    pub(super) terminals: FxHashMap<Stream, Vec<GraphNode>>,
    pub(super) nodes: Vec<CapturedNode>,
    /// Position of each node in `nodes`.
    index: FxHashMap<GraphNode, usize>,
}

impl Sequence {
    /// A capture that the calling thread begins on `origin`.
    pub(super) fn new(id: CaptureId, origin: Stream, mode: CaptureMode) -> Self {
        Self {
            id,
            origin,
            mode,
            thread: thread::current().id(),
            invalidated: false,
            terminals: FxHashMap::from_iter([(origin, Vec::new())]),
            nodes: Vec::new(),
            index: FxHashMap::default(),
        }
    }

    /// Adds an operation of `stream`.
    pub(super) fn add(&mut self, stream: Stream, node: GraphNode) {
        let dependencies = self.terminals.insert(stream, vec![node]).unwrap_or_default();
        self.index.insert(node, self.nodes.len());
        self.nodes.push(CapturedNode { node, dependencies });
    }

    pub(super) fn takes(&self, stream: Stream) -> bool {
        self.terminals.contains_key(&stream)
    }

    pub(super) fn node(&self, node: GraphNode) -> Option<&CapturedNode> {
        self.index.get(&node).and_then(|&at| self.nodes.get(at))
    }

    /// A stream with work that the origin stream does not wait for.
    pub(super) fn unjoined(&self) -> Option<Stream> {
        let mut joined = FxHashSet::default();
        let mut left = self.terminals.get(&self.origin).cloned().unwrap_or_default();
        while let Some(node) = left.pop() {
            if joined.insert(node) {
                left.extend(self.node(node).into_iter().flat_map(|found| &found.dependencies));
            }
        }
        let mut streams: Vec<_> = self.terminals.iter().collect();
        streams.sort_unstable_by_key(|&(stream, _)| *stream);
        streams
            .into_iter()
            .find(|(_, terminals)| terminals.iter().any(|node| !joined.contains(node)))
            .map(|(&stream, _)| stream)
    }
}
