//! Captured graphs, their executables, and the user objects they keep alive.

use std::ffi::c_void;

use device::{CaptureId, Device, GraphNode};
use rustc_hash::FxHashMap;
use sim_device::{CapturedGraph, CapturedNode};

use crate::abi::{Answer, InOut, Out, Status};
use crate::machine::{self, Machine};

/// A user object's destructor, as `cudaHostFn_t`.
pub(crate) type Destructor = extern "C" fn(*mut c_void);

#[derive(Debug, Default)]
pub(crate) struct Graphs {
    /// Graphs and executables by handle.
    live: FxHashMap<u64, Graph>,
    /// The graph of each capture in progress.
    captures: FxHashMap<(u16, CaptureId), u64>,
    objects: FxHashMap<u64, Object>,
}

#[derive(Clone, Debug, Default)]
struct Graph {
    nodes: Vec<CapturedNode>,
    /// User objects with the number of references that this graph owns.
    objects: Vec<(u64, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Object {
    /// The destructor's argument, as a number: the object belongs to its owner.
    argument: usize,
    destructor: Destructor,
    references: u32,
}

impl Graphs {
    /// A capture began: its graph has a handle from now on.
    pub(crate) fn begin(&mut self, device: u16, capture: CaptureId) {
        let handle = machine::new_handle();
        self.live.insert(handle, Graph::default());
        self.captures.insert((device, capture), handle);
    }

    /// A capture ended well; its graph's handle.
    pub(crate) fn end(&mut self, device: u16, captured: CapturedGraph) -> u64 {
        let handle = self.captures.remove(&(device, captured.id));
        let handle = handle.unwrap_or_else(machine::new_handle);
        self.live.entry(handle).or_default().nodes = captured.nodes;
        handle
    }

    pub(crate) fn of_capture(&self, device: u16, capture: CaptureId) -> Option<u64> {
        self.captures.get(&(device, capture)).copied()
    }

    fn graph(&mut self, handle: u64) -> Answer<&mut Graph> {
        self.live.get_mut(&handle).ok_or(Status::INVALID_VALUE)
    }

    /// Drops references; the destructor and its argument when they were the last.
    fn drop_references(&mut self, object: u64, count: u32) -> Answer<Option<Object>> {
        let found = self.objects.get_mut(&object).ok_or(Status::INVALID_VALUE)?;
        found.references = found.references.checked_sub(count).ok_or(Status::INVALID_VALUE)?;
        if found.references > 0 {
            return Ok(None);
        }
        Ok(self.objects.remove(&object))
    }
}

impl Object {
    /// Runs the destructor. The machine's lock must be free: the destructor may call CUDA.
    fn destroy(self) {
        (self.destructor)(std::ptr::with_exposed_provenance_mut(self.argument));
    }
}

/// An executable of the graph; it shares the graph's user objects.
pub(crate) fn instantiate(out: Out<u64>, graph: u64) -> Answer {
    out.wanted()?;
    let handle = machine::with(|machine| {
        let copy = machine.graphs.graph(graph)?.clone();
        for &(object, count) in &copy.objects {
            if let Some(object) = machine.graphs.objects.get_mut(&object) {
                object.references += count;
            }
        }
        let handle = machine::new_handle();
        machine.graphs.live.insert(handle, copy);
        Ok(handle)
    })?;
    out.set(handle)
}

/// Destroys a graph or an executable.
pub(crate) fn destroy(handle: u64) -> Answer {
    let destroyed = machine::with(|machine| {
        let graph = machine.graphs.live.remove(&handle).ok_or(Status::INVALID_VALUE)?;
        graph
            .objects
            .iter()
            .map(|&(object, count)| machine.graphs.drop_references(object, count))
            .collect::<Answer<Vec<_>>>()
    })?;
    destroyed.into_iter().flatten().for_each(Object::destroy);
    Ok(())
}

/// Launches an executable: an operation on the stream.
pub(crate) fn launch(executable: u64, stream: u64) -> Answer {
    machine::with(|machine| machine.graphs.graph(executable).map(|_| ()))?;
    crate::stream::launch(stream)
}

/// Lists the graph's nodes.
pub(crate) fn nodes(graph: u64, out: Out<u64>, count: InOut<usize>) -> Answer {
    let nodes: Vec<u64> = machine::with(|machine| {
        Ok(machine.graphs.graph(graph)?.nodes.iter().map(|node| node.node.0).collect())
    })?;
    out.list(count, &nodes)
}

/// Lists what a node depends on, in a capture in progress or in a graph.
pub(crate) fn dependencies(node: u64, out: Out<u64>, count: InOut<usize>) -> Answer {
    let nodes: Vec<u64> = machine::with(|machine| {
        Ok(machine.node_dependencies(GraphNode(node))?.iter().map(|node| node.0).collect())
    })?;
    out.list(count, &nodes)
}

/// With edge data: dependencies are plain, so there is none.
pub(crate) fn dependencies_with_edges(
    node: u64,
    out: Out<u64>,
    _edges: Out<c_void>,
    count: InOut<usize>,
) -> Answer {
    dependencies(node, out, count)
}

impl Machine {
    fn node_dependencies(&mut self, node: GraphNode) -> Answer<Vec<GraphNode>> {
        for device in &mut self.devices {
            if let Ok(found) = device.dependencies(node) {
                return Ok(found);
            }
        }
        let mut nodes = self.graphs.live.values().flat_map(|graph| &graph.nodes);
        let found = nodes.find(|found| found.node == node).ok_or(Status::INVALID_VALUE)?;
        Ok(found.dependencies.clone())
    }
}

/// A user object with its first references, owned by the caller.
pub(crate) fn create_object(
    out: Out<u64>,
    argument: *mut c_void,
    destructor: Option<Destructor>,
    references: u32,
) -> Answer {
    out.wanted()?;
    let destructor = destructor.ok_or(Status::INVALID_VALUE)?;
    if references == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let handle = machine::new_handle();
    machine::with(|machine| {
        let argument = argument.expose_provenance();
        machine.graphs.objects.insert(handle, Object { argument, destructor, references });
        Ok(())
    })?;
    out.set(handle)
}

/// Gives back references that the caller owns.
pub(crate) fn release_object(object: u64, count: u32) -> Answer {
    let destroyed = machine::with(|machine| machine.graphs.drop_references(object, count))?;
    destroyed.into_iter().for_each(Object::destroy);
    Ok(())
}

/// Gives the graph references: the caller's (flag `cudaGraphUserObjectMove`), or new ones.
pub(crate) fn retain_object(graph: u64, object: u64, count: u32, flags: u32) -> Answer {
    const MOVE: u32 = 1;
    machine::with(|machine| {
        let found = machine.graphs.objects.get_mut(&object).ok_or(Status::INVALID_VALUE)?;
        if flags & MOVE == 0 {
            found.references += count;
        }
        machine.graphs.graph(graph)?.objects.push((object, count));
        Ok(())
    })
}
