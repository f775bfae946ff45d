//! Communicators: this process's rank of each, and the memory of the device that NCCL takes for it.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, PoisonError};

use device::Device;
use events::Addr;

use crate::abi::{Answer, Out, Status};
use crate::{machine, stream};

// NCCL's buffers are an estimate. A connection has a receive buffer (`NCCL_BUFFSIZE`, 4 MiB; LL, 512 KiB; LL128,
// 4.69 MiB: init.cc, `computeBuffSizes`) and a small send side, each in pages of 2 MiB: 10,485,760 and 2,097,152 bytes,
// as in the list of NVIDIA/nccl#1685. A channel has a ring, 1 connection, and a tree, 3: a parent and two children.
// Eight H100 take 16 channels and as many for NVLink SHARP: 928 MiB, where `nvidia-smi` shows 876 to 996 MiB more than
// the context in the logs of parameter-golf. Higher figures are 1.6 GB of a communicator (nccl#864) and 468 MB of a
// peer of all-to-all (nccl#1685).
const LL_BYTES: u64 = 512 << 10;
const LL128_BYTES: u64 = 120 * 640 * 8 * 8;
const PAGE_BYTES: u64 = 2 << 20;
const CONNECTIONS: u64 = 4;
/// Channels of GPUs on NVLink, and of those on PCIe only.
const CHANNELS: u64 = 16;
const CHANNELS_PCIE: u64 = 4;
/// Channels of a pair that sends and receives (`NCCL_MAX_P2P_NCHANNELS` allows 32).
const PEER_CHANNELS: u64 = 32;
/// GPUs with HBM are those that servers connect with NVLink.
const HBM_BITS: u32 = 4096;
/// GPUs of this capability and later have NVLink SHARP.
const NVLS_MAJOR: u32 = 9;

static ALL: LazyLock<Mutex<All>> = LazyLock::new(Mutex::default);

/// The communicators by handle, and the bytes of each device that they hold and at most held.
#[derive(Default)]
struct All {
    live: HashMap<u64, Communicator>,
    bytes: HashMap<u16, (u64, u64)>,
}

/// A communicator of this process.
#[derive(Clone, Debug)]
pub(super) struct Communicator {
    pub(super) ranks: c_int,
    pub(super) rank: c_int,
    device: u16,
    has_collectives: bool,
    /// Ranks that this one sends to or receives from.
    peers: BTreeSet<c_int>,
    memory: Vec<(Addr, u64)>,
}

fn with<R>(work: impl FnOnce(&mut All) -> R) -> R {
    work(&mut ALL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes a communicator of the current device. It takes memory when it is first used.
pub(super) fn create(out: Out<u64>, ranks: c_int, rank: c_int) -> Answer {
    out.wanted()?;
    if ranks < 1 || !(0..ranks).contains(&rank) {
        return Err(Status::INVALID_VALUE);
    }
    machine::bind()?;
    let handle = machine::new_handle();
    let communicator = Communicator {
        ranks,
        rank,
        device: machine::current_device(),
        has_collectives: false,
        peers: BTreeSet::new(),
        memory: Vec::new(),
    };
    with(|all| all.live.insert(handle, communicator));
    out.set(handle)
}

pub(super) fn find(handle: u64) -> Answer<Communicator> {
    with(|all| all.live.get(&handle).cloned()).ok_or(Status::INVALID_VALUE)
}

/// Returns its memory.
pub(super) fn destroy(handle: u64) -> Answer {
    let removed = with(|all| {
        let removed = all.live.remove(&handle)?;
        let (held, _) = all.bytes.entry(removed.device).or_default();
        *held -= removed.memory.iter().map(|(_, size_bytes)| size_bytes).sum::<u64>();
        Some(removed)
    });
    let removed = removed.ok_or(Status::INVALID_VALUE)?;
    machine::with(|machine| {
        let device = machine.device(removed.device)?;
        removed.memory.into_iter().try_for_each(|(addr, _)| Ok(device.free(addr)?))
    })
}

/// An operation of all ranks on a stream, or with one other rank.
pub(super) fn operation(handle: u64, peer: Option<c_int>, stream: u64) -> Answer {
    let wanted = with(|all| {
        let communicator = all.live.get_mut(&handle).ok_or(Status::INVALID_VALUE)?;
        if peer.is_some_and(|peer| !(0..communicator.ranks).contains(&peer)) {
            return Err(Status::INVALID_VALUE);
        }
        Ok((communicator.device, communicator.claim(peer)))
    })?;
    if let (device, size_bytes @ 1..) = wanted {
        let addr = machine::with(|machine| Ok(machine.device(device)?.malloc(size_bytes)?))?;
        with(|all| {
            let (held, peak) = all.bytes.entry(device).or_default();
            *held += size_bytes;
            *peak = (*peak).max(*held);
            if let Some(communicator) = all.live.get_mut(&handle) {
                communicator.memory.push((addr, size_bytes));
            }
        });
    }
    stream::launch(stream)
}

/// The most bytes of a device that the communicators of this process held.
pub(crate) fn peak_bytes(device: u16) -> u64 {
    with(|all| all.bytes.get(&device).map_or(0, |(_, peak)| *peak))
}

impl Communicator {
    /// Bytes for what it does for the first time.
    fn claim(&mut self, peer: Option<c_int>) -> u64 {
        let connection_bytes = round(buffer_bytes() + LL_BYTES + LL128_BYTES) + PAGE_BYTES;
        match peer {
            _ if self.ranks == 1 => 0,
            Some(peer) if peer == self.rank || !self.peers.insert(peer) => 0,
            Some(_) => PEER_CHANNELS * connection_bytes,
            None if self.has_collectives => 0,
            None => {
                self.has_collectives = true;
                let (channels, has_nvls) = channels();
                let nvls_bytes = if has_nvls && self.ranks > 2 {
                    channels * round(buffer_bytes() + LL_BYTES + LL128_BYTES)
                } else {
                    0
                };
                channels * CONNECTIONS * connection_bytes + nvls_bytes
            }
        }
    }
}

/// The channels of the GPU, and whether it has NVLink SHARP.
fn channels() -> (u64, bool) {
    let gpu = machine::fixed().ok().map(|fixed| &fixed.settings.gpu);
    let has_nvlink = gpu.is_none_or(|gpu| gpu.memory_bus_bits >= HBM_BITS);
    let has_nvls = has_nvlink && gpu.is_some_and(|gpu| gpu.capability.major >= NVLS_MAJOR);
    let most = ["NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"].into_iter().filter_map(number).min();
    let usual = if has_nvlink { CHANNELS } else { CHANNELS_PCIE };
    (most.map_or(usual, |most| usual.min(most)), has_nvls)
}

/// The buffer of the simple protocol.
fn buffer_bytes() -> u64 {
    number("NCCL_BUFFSIZE").unwrap_or(4 << 20)
}

/// A number that a variable has; NCCL ignores others.
fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.trim().parse().ok().filter(|number| *number > 0)
}

fn round(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranks: c_int) -> Communicator {
        let (peers, memory) = (BTreeSet::new(), Vec::new());
        let has_collectives = false;
        Communicator { ranks, rank: 0, device: 0, has_collectives, peers, memory }
    }

    #[test]
    fn memory_is_taken_once_for_all_ranks_and_once_for_each_peer() {
        let mut alone = of(1);
        assert_eq!((alone.claim(None), alone.claim(Some(0))), (0, 0));
        let mut eight = of(8);
        // 16 channels of 4 connections of 10 + 2 MiB, as the tests' GPU has NVLink and no SHARP.
        assert_eq!((eight.claim(None) >> 20, eight.claim(None)), (768, 0));
        assert_eq!((eight.claim(Some(3)) >> 20, eight.claim(Some(3))), (384, 0));
        assert_eq!((eight.claim(Some(4)) >> 20, eight.claim(Some(0))), (384, 0));
    }
}
