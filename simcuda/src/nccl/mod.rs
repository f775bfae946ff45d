//! NCCL with one rank present: operations end at once, as if every other rank did the same. Data stays as it is, so
//! `RANK` of a job of any size runs alone. Versions and texts of errors stay those of the real library.

mod communicator;

use std::ffi::c_int;

use crate::abi::{Answer, Out, Status, accepted, guarded};
use crate::{machine, memory};
pub(crate) use communicator::peak_bytes;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// The `ncclResult_t` of an answer.
fn result(body: impl FnOnce() -> Answer) -> c_int {
    const UNHANDLED_CUDA_ERROR: c_int = 1;
    const INTERNAL_ERROR: c_int = 3;
    const INVALID_ARGUMENT: c_int = 4;
    match guarded(body) {
        Ok(()) => 0,
        Err(Status::INVALID_VALUE) => INVALID_ARGUMENT,
        Err(Status::UNKNOWN) => INTERNAL_ERROR,
        Err(_) => UNHANDLED_CUDA_ERROR,
    }
}

/// Defines entry points of NCCL: the body's [`Answer`] becomes the `ncclResult_t`.
macro_rules! nccl {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> c_int {
            result(|| $body)
        }
    )*};
}

/// Defines operations of all ranks on a stream.
macro_rules! operations {
    ($(fn $name:ident($($before:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($(_: $before,)* communicator: u64, stream: u64) -> c_int {
            result(|| communicator::operation(communicator, None, stream))
        }
    )*};
}

nccl! {
    fn ncclGetUniqueId(out: Out<UniqueId>) {
        out.set(UniqueId([1; 128]))
    }

    fn ncclCommInitRank(out: Out<u64>, ranks: c_int, _id: UniqueId, rank: c_int) {
        communicator::create(out, ranks, rank)
    }

    fn ncclCommInitRankConfig(out: Out<u64>, ranks: c_int, _id: UniqueId, rank: c_int) {
        communicator::create(out, ranks, rank)
    }

    fn ncclCommInitRankScalable(out: Out<u64>, ranks: c_int, rank: c_int) {
        communicator::create(out, ranks, rank)
    }

    fn ncclCommSplit(whole: u64, color: c_int, key: c_int, out: Out<u64>) {
        const NO_COLOR: c_int = -1;
        let whole = communicator::find(whole)?;
        if color == NO_COLOR {
            return out.set(0);
        }
        // The ranks of the same colour are not known; the key is the new rank of a caller that knows them, as PyTorch.
        let rank = key.clamp(0, whole.ranks - 1);
        communicator::create(out, whole.ranks, rank)
    }

    fn ncclCommShrink(whole: u64, _excluded: *const c_int, count: c_int, out: Out<u64>) {
        let whole = communicator::find(whole)?;
        let ranks = whole.ranks - count;
        communicator::create(out, ranks, whole.rank.min(ranks - 1))
    }

    fn ncclCommDestroy(communicator: u64) {
        communicator::destroy(communicator)
    }

    fn ncclCommAbort(communicator: u64) {
        communicator::destroy(communicator)
    }

    fn ncclCommCount(communicator: u64, out: Out<c_int>) {
        out.set(communicator::find(communicator)?.ranks)
    }

    fn ncclCommUserRank(communicator: u64, out: Out<c_int>) {
        out.set(communicator::find(communicator)?.rank)
    }

    fn ncclCommGetAsyncError(communicator: u64, out: Out<c_int>) {
        communicator::find(communicator)?;
        out.set(0)
    }

    fn ncclCommRegister(_communicator: u64, _buffer: u64, _size_bytes: usize, out: Out<u64>) {
        out.set(machine::new_handle())
    }

    fn ncclCommWindowRegister(_communicator: u64, _buffer: u64, _size_bytes: usize, out: Out<u64>) {
        out.set(machine::new_handle())
    }

    fn ncclMemAlloc(out: Out<u64>, size_bytes: usize) {
        memory::allocate(out, size_bytes)
    }

    fn ncclMemFree(addr: u64) {
        memory::free(addr)
    }

    fn ncclRedOpCreatePreMulSum(out: Out<c_int>) {
        // Behind the last of the built-in operations.
        out.set(5)
    }

    fn ncclAlltoAll(
        _from: u64, _to: u64, _count: usize, _type: c_int, communicator: u64, stream: u64,
    ) {
        let ranks = communicator::find(communicator)?.ranks;
        (0..ranks).try_for_each(|peer| communicator::operation(communicator, Some(peer), stream))
    }
}

// What comes before the communicator: buffers, counts, data types, reductions and roots.
operations! {
    fn ncclReduce(u64, u64, usize, c_int, c_int, c_int);
    fn ncclBcast(u64, usize, c_int, c_int);
    fn ncclBroadcast(u64, u64, usize, c_int, c_int);
    fn ncclGather(u64, u64, usize, c_int, c_int);
    fn ncclAllReduce(u64, u64, usize, c_int, c_int);
    fn ncclReduceScatter(u64, u64, usize, c_int, c_int);
    fn ncclAllGather(u64, u64, usize, c_int);
}

nccl! {
    fn ncclSend(
        _buffer: u64, _count: usize, _type: c_int, peer: c_int, communicator: u64, stream: u64,
    ) {
        communicator::operation(communicator, Some(peer), stream)
    }

    fn ncclRecv(
        _buffer: u64, _count: usize, _type: c_int, peer: c_int, communicator: u64, stream: u64,
    ) {
        communicator::operation(communicator, Some(peer), stream)
    }
}

// Nothing waits for other ranks, so a group has nothing to do at its end.
accepted! {
    ncclGroupStart ncclGroupEnd ncclCommFinalize ncclCommDeregister ncclCommWindowDeregister ncclRedOpDestroy
}

const _: () = assert!(size_of::<UniqueId>() == 128);
