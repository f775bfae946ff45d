//! Graphs.

use std::ffi::c_void;

use super::runtime;
use crate::abi::{InOut, Out};
use crate::graph;

runtime! {
    fn cudaGraphInstantiate(out: Out<u64>, graph: u64, _flags: u64) {
        graph::instantiate(out, graph)
    }

    fn cudaGraphInstantiateWithFlags(out: Out<u64>, graph: u64, _flags: u64) {
        graph::instantiate(out, graph)
    }

    fn cudaGraphDestroy(graph: u64) {
        graph::destroy(graph)
    }

    fn cudaGraphExecDestroy(executable: u64) {
        graph::destroy(executable)
    }

    fn cudaGraphLaunch(executable: u64, stream: u64) {
        graph::launch(executable, stream)
    }

    fn cudaGraphGetNodes(graph: u64, out: Out<u64>, count: InOut<usize>) {
        graph::nodes(graph, out, count)
    }

    /// CUDA 13's, with edge data: dependencies are plain, so there is none.
    fn cudaGraphNodeGetDependencies(
        node: u64, out: Out<u64>, _edges: Out<c_void>, count: InOut<usize>,
    ) {
        graph::dependencies(node, out, count)
    }

    fn cudaUserObjectCreate(
        out: Out<u64>, argument: *mut c_void, destructor: Option<graph::Destructor>,
        references: u32, _flags: u32,
    ) {
        graph::create_object(out, argument, destructor, references)
    }

    fn cudaUserObjectRelease(object: u64, count: u32) {
        graph::release_object(object, count)
    }

    fn cudaGraphRetainUserObject(graph: u64, object: u64, count: u32, flags: u32) {
        graph::retain_object(graph, object, count, flags)
    }

    /// Graphs own no memory here: allocation nodes are not simulated.
    fn cudaDeviceGetGraphMemAttribute(_device: i32, _attribute: u32, out: Out<u64>) {
        out.set(0)
    }

    fn cudaDeviceSetGraphMemAttribute(_device: i32, _attribute: u32, _value: Out<u64>) {
        Ok(())
    }
}
