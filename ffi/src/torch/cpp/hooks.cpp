// Sets the optional hooks of the CUDAPluggableAllocator that PyTorch uses now.
//
// PyTorch's documentation shows two functions, malloc and free. Without the other hooks record_stream is accepted and
// ignored, and a graph capture has no pool of its own: memory is used again too early. The methods that set them are
// exported by libtorch_cuda, so the library completes such a set-up itself.

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "loaded.h"

struct CUstream_st;

namespace {

using vramtape::is_loaded;
using vramtape::loaded_symbol;

using Stream = CUstream_st*;
using PoolId = std::pair<unsigned long long, unsigned long long>;  // MempoolId_t
using Filter = std::function<bool(Stream)>;

constexpr const char* kTorchCuda = "libtorch_cuda.so";

// std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator>: every shared_ptr has the same layout.
using CurrentAllocator = std::shared_ptr<void> (*)();

#define NAMESPACE "N5torch4cuda22CUDAPluggableAllocator"
#define METHOD "_Z" NAMESPACE "22CUDAPluggableAllocator"

constexpr const char* kCurrentAllocator = "_Z" NAMESPACE "19getCurrentAllocatorEv";
constexpr const char* kVtable = "_ZTV" NAMESPACE "22CUDAPluggableAllocatorE";

// The functor of alloc_fn_, the first member after the base classes, is the plain function that was given.
constexpr std::size_t kWordsThatHoldTheFunction = 8;

// One hook: the exported method that sets it, and what it is set to.
struct Hook {
    const char* setter;
    void* function;
    void (*set)(void* setter, void* allocator, void* function);
};

template <typename Signature>
void set(void* setter, void* allocator, void* function) {
    using Setter = void (*)(void* self, std::function<Signature> hook);
    reinterpret_cast<Setter>(setter)(allocator, reinterpret_cast<Signature*>(function));
}

bool calls(void* allocator, void* function) {
    for (std::size_t word = 0; word < kWordsThatHoldTheFunction; ++word) {
        void* held = nullptr;
        std::memcpy(&held, static_cast<void**>(allocator) + word, sizeof held);
        if (held == function) {
            return true;
        }
    }
    return false;
}

}  // namespace

// Our exports, in the order of torch/csrc/cuda/CUDAPluggableAllocator.h.
struct VramtapeHooks {
    void* malloc;
    void* init;
    void* reset;
    void* memory_fraction;
    void* base_alloc;
    void* record_stream;
    void* begin_allocate_to_pool;
    void* end_allocate_to_pool;
    void* release_pool;
};

// Whether there is nothing more to do: the hooks are set, or `obstacle` says what stands in the way. There is more to
// do while PyTorch does not use us as its allocator.
extern "C" bool vramtape_torch_set_hooks(const VramtapeHooks* ours, const char** obstacle) {
    *obstacle = nullptr;
    if (!is_loaded(kTorchCuda)) {
        return false;
    }
    auto current_allocator = reinterpret_cast<CurrentAllocator>(loaded_symbol(kTorchCuda, kCurrentAllocator));
    if (current_allocator == nullptr) {
        *obstacle = "this PyTorch does not export CUDAPluggableAllocator::getCurrentAllocator";
        return true;
    }
    const std::shared_ptr<void> allocator = current_allocator();
    if (allocator == nullptr) {
        return false;
    }
    void* vtable = loaded_symbol(kTorchCuda, kVtable);
    if (vtable == nullptr || *static_cast<void**>(allocator.get()) != static_cast<void**>(vtable) + 2) {
        *obstacle = "PyTorch's current allocator is not a plain CUDAPluggableAllocator";
        return true;
    }
    if (!calls(allocator.get(), ours->malloc)) {
        *obstacle = "PyTorch's current allocator does not call vramtape_malloc itself";
        return true;
    }
    const Hook hooks[] = {
        {METHOD "11set_init_fnESt8functionIFviEE", ours->init, set<void(int)>},
        {METHOD "12set_reset_fnESt8functionIFvvEE", ours->reset, set<void()>},
        {METHOD "22set_memory_fraction_fnESt8functionIFvdiEE", ours->memory_fraction, set<void(double, int)>},
        {METHOD "17set_base_alloc_fnESt8functionIFPvS4_PmEE", ours->base_alloc, set<void*(void*, std::size_t*)>},
        {METHOD "20set_record_stream_fnESt8functionIFvPvP11CUstream_stEE", ours->record_stream,
         set<void(void*, Stream)>},
        {METHOD "26set_begin_allocate_to_poolESt8functionIFviSt4pairIyyES3_IFbP11CUstream_stEEEE",
         ours->begin_allocate_to_pool, set<void(int, PoolId, Filter)>},
        {METHOD "27set_end_allocate_to_pool_fnESt8functionIFviSt4pairIyyEEE", ours->end_allocate_to_pool,
         set<void(int, PoolId)>},
        {METHOD "16set_release_poolESt8functionIFviSt4pairIyyEEE", ours->release_pool, set<void(int, PoolId)>},
    };
    constexpr std::size_t kHooks = sizeof hooks / sizeof hooks[0];
    void* setters[kHooks];
    for (std::size_t i = 0; i < kHooks; ++i) {
        setters[i] = loaded_symbol(kTorchCuda, hooks[i].setter);
        if (setters[i] == nullptr) {
            *obstacle = "this PyTorch's CUDAPluggableAllocator lacks a method that sets a hook";
            return true;
        }
    }
    for (std::size_t i = 0; i < kHooks; ++i) {
        hooks[i].set(setters[i], allocator.get(), hooks[i].function);
    }
    return true;
}
