// Private pools, their scopes and their checkpoints.

#include "allocator.h"

namespace vramtape {

namespace {

constexpr const char* kUnknown = "an exception of an unknown kind";

// The allocator that a pool's segments come from and return to. 2.7 does not keep a pool's allocator: PyTorch's own
// uses that of the pool that is open on the thread, or else the runtime; the allocator may be destroyed by then.
CUDAAllocator* allocator_of([[maybe_unused]] void* user) {
#if TORCH_SINCE(8)
    return &**static_cast<Source*>(user);
#else
    auto* const active = c10::cuda::MemPoolContext::getActiveMemPool();
    return active != nullptr ? active->allocator() : nullptr;
#endif
}

void* allocate_segment(std::size_t size, void* user) noexcept {
    try {
        if (auto* const allocator = allocator_of(user)) {
            return allocator->raw_alloc(size);
        }
        void* ptr = nullptr;
        C10_CUDA_CHECK(cudaMalloc(&ptr, size));
        return ptr;
    } catch (const std::exception& error) {
        warn("the pool's own allocator failed, taken as out of memory", error.what());
    } catch (...) {
        warn("the pool's own allocator failed, taken as out of memory", kUnknown);
    }
    return nullptr;
}

bool free_segment(void* ptr, void* user) noexcept {
    try {
        if (auto* const allocator = allocator_of(user)) {
            allocator->raw_delete(ptr);
        } else {
            C10_CUDA_CHECK(cudaFree(ptr));
        }
        return true;
    } catch (const std::exception& error) {
        warn("the pool's own allocator could not free a segment", error.what());
    } catch (...) {
        warn("the pool's own allocator could not free a segment", kUnknown);
    }
    return false;
}

void drop_source(void* user) {
    delete static_cast<Source*>(user);
}

void create_from(DeviceIndex device, MempoolId_t pool, Source source) {
    auto* kept = new Source(std::move(source));
    check(vramtape_pool_create_from(
        device, pool.first, pool.second, {&allocate_segment, &free_segment, &drop_source, kept}));
}

// A checkpoint of the core's, as PyTorch holds one.
struct Checkpoint final : AllocatorState {
    explicit Checkpoint(VramtapeCheckpoint* taken) : taken(taken) {}
    Checkpoint(const Checkpoint&) = delete;
    Checkpoint& operator=(const Checkpoint&) = delete;
    ~Checkpoint() override {
        vramtape_checkpoint_drop(taken);
    }

    VramtapeCheckpoint* taken;
};

using Pointers = std::unordered_set<void*>;

void put_pointer(void* ptr, void* user) noexcept {
    Visited<Pointers>::run(user, [&](Pointers& pointers) { pointers.insert(ptr); });
}

// The changes made by restoring a checkpoint.
struct Restored {
    std::vector<void*> freed;
    std::vector<void*> created;
};

void put_freed(void* ptr, void* user) noexcept {
    Visited<Restored>::run(user, [&](Restored& restored) { restored.freed.push_back(ptr); });
}

void put_created(void* ptr, void* user) noexcept {
    Visited<Restored>::run(user, [&](Restored& restored) { restored.created.push_back(ptr); });
}

}  // namespace

#if TORCH_SINCE(8)
void Allocator::emptyCache(MempoolId_t pool) {
#else
// Of the pool of the context that is open, as a MemPool that ends asks for its own.
void Allocator::emptyCache() {
    auto* const active = c10::cuda::MemPoolContext::getActiveMemPool();
    const MempoolId_t pool = active != nullptr ? active->id() : MempoolId_t{0, 0};
#endif
    const History::Call call(history_, RecordContext::ALL);
    if (pool == MempoolId_t{0, 0}) {
        vramtape_empty_cache();
        return;
    }
    for (int device = 0; device < device_count_; ++device) {
        check(vramtape_pool_empty_cache(device, pool.first, pool.second));
    }
}

#if TORCH_SINCE(8)
void Allocator::createOrIncrefPool(DeviceIndex device, MempoolId_t pool, Source source) {
    require(device);
    if (source == nullptr) {
        check(vramtape_pool_create(device, pool.first, pool.second));
        return;
    }
    create_from(device, pool, std::move(source));
}

#if TORCH_SINCE(11)
void Allocator::setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use_on_oom) {
#else
void Allocator::setUseOnOOM(DeviceIndex device, MempoolId_t pool) {
    const bool use_on_oom = true;
#endif
    require(device);
    check(vramtape_pool_set_use_on_oom(device, pool.first, pool.second, use_on_oom));
}

#if TORCH_SINCE(10)
void Allocator::setNoSplit(DeviceIndex device, MempoolId_t pool) {
    require(device);
    check(vramtape_pool_set_no_split(device, pool.first, pool.second));
}
#endif
#else
bool Allocator::is_first_use(MempoolId_t pool) {
    std::lock_guard<std::mutex> lock(sourced_mutex_);
    return sourced_.insert(pool).second;
}

void Allocator::ensureExistsAndIncrefPool(DeviceIndex device, MempoolId_t pool) {
    require(device);
    check(vramtape_pool_create(device, pool.first, pool.second));
}
#endif

int Allocator::getPoolUseCount(DeviceIndex device, MempoolId_t pool) {
    require(device);
    const std::int64_t users = vramtape_pool_use_count(device, pool.first, pool.second);
    TORCH_CHECK(users >= 0, vramtape_last_error());
    return static_cast<int>(users);
}

void Allocator::beginAllocateToPool(DeviceIndex device, MempoolId_t pool, std::function<bool(cudaStream_t)> filter) {
    require(device);
#if !TORCH_SINCE(8)
    // Before its context is open, PyTorch does not report that a MemPool has an allocator.
    auto* const active = c10::cuda::MemPoolContext::getActiveMemPool();
    if (active != nullptr && active->id() == pool && active->allocator() != nullptr && is_first_use(pool)) {
        create_from(device, pool, nullptr);
        vramtape_release_pool(device, pool.first, pool.second);
    }
#endif
    vramtape_begin_allocate_to_pool(device, pool.first, pool.second, &filter);
}

void Allocator::endAllocateToPool(DeviceIndex device, MempoolId_t pool) {
    require(device);
    // It never throws, since a plain pluggable allocator is called so in destructors too.
    vramtape_clear_error();
    vramtape_end_allocate_to_pool(device, pool.first, pool.second);
    TORCH_CHECK(vramtape_last_error() == nullptr, vramtape_last_error());
}

void Allocator::releasePool(DeviceIndex device, MempoolId_t pool) {
    require(device);
    vramtape_release_pool(device, pool.first, pool.second);
}

bool Allocator::checkPoolLiveAllocations(
    DeviceIndex device, MempoolId_t pool, const std::unordered_set<void*>& expected) {
    require(device);
    Pointers live;
    Visited<Pointers> visited{live, {}};
    check(vramtape_pool_allocations(device, pool.first, pool.second, &put_pointer, &visited), visited.visits);
    return live == expected;
}

std::shared_ptr<AllocatorState> Allocator::getCheckpointState(DeviceIndex device, MempoolId_t pool) {
    require(device);
    const History::Call call(history_, RecordContext::ALL);
    VramtapeCheckpoint* taken = vramtape_checkpoint_take(device, pool.first, pool.second);
    TORCH_CHECK(taken != nullptr, vramtape_last_error());
    return std::make_shared<Checkpoint>(taken);
}

CheckpointDelta Allocator::setCheckpointPoolState(DeviceIndex device, std::shared_ptr<AllocatorState> state) {
    require(device);
    const auto checkpoint = std::dynamic_pointer_cast<Checkpoint>(state);
    TORCH_CHECK(checkpoint, "the state is no checkpoint of vramtape's; expected one of getCheckpointState");
    const History::Call call(history_, RecordContext::STATE);
    CheckpointDelta delta;
    Restored restored;
    Visited<Restored> visited{restored, {}};
    const int answer = vramtape_checkpoint_restore(device, checkpoint->taken, &put_freed, &put_created, &visited);
    check(answer, visited.visits);
    delta.ptrs_freed = std::move(restored.freed);
    for (void* ptr : restored.created) {
        delta.dataptrs_allocd.emplace_back(ptr, ptr, &delete_tensor, c10::Device(c10::kCUDA, device));
    }
    return delta;
}

}  // namespace vramtape
