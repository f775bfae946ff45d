// The beginning, the name, and settings at run time.

#include <c10/core/Allocator.h>
#include <cxxabi.h>

#include <limits>

#include "allocator.h"

namespace vramtape {

namespace {

void* never_malloc(std::size_t, int, cudaStream_t) {
    TORCH_CHECK(false, "vramtape's allocator was asked by a way that PyTorch does not have");
}

void never_free(void*, std::size_t, int, cudaStream_t) {}

// Has PyTorch free what it can where the pools have no memory: what other processes no longer use of ours, above all.
bool free_memory(void*) {
    bool freed = false;
    try {
        auto* const callbacks = c10::FreeCudaMemoryCallbacksRegistry();
        for (const auto& name : callbacks->Keys()) {
            try {
                freed |= callbacks->Create(name)->Execute();
            } catch (const std::exception& error) {
                warn(name.c_str(), error.what());
            }
        }
    } catch (const abi::__forced_unwind&) {
        throw;  // Python ends the thread, which the library parks.
    } catch (...) {
        warn("freeing memory", "an exception of an unknown kind");
    }
    return freed;
}

#if TORCH_SINCE(10)
// Registers a hook that torch._C._accelerator_setAllocatorSettings and its deprecated names call with the new settings,
// after PyTorch's own parsers accepted them.
void follow_settings() {
    using Common = c10::CachingAllocator::AcceleratorAllocatorConfig;
#if TORCH_SINCE(11)
    auto& hook = Common::getConfigParserHook();
    hook = [torchs = std::move(hook)](const std::string& settings) {
        if (torchs) {
            torchs(settings);
        }
        check(vramtape_set_settings(settings.c_str()));
    };
#else
    const auto take = [](const std::string& settings) {
        torch_api::CUDAAllocatorConfig::instance().parseArgs(settings);  // As the hook before this one does.
        check(vramtape_set_settings(settings.c_str()));
    };
    Common::registerDeviceConfigParserHook(take, {});
#endif
}
#endif

}  // namespace

Allocator::Allocator()
    : Pluggable(never_malloc, never_free), never_caches_(std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {}

Allocator& Allocator::instance() {
    static auto* const allocator = new std::shared_ptr<Allocator>(std::make_shared<Allocator>());
    return **allocator;
}

void Allocator::activate() {
    check(vramtape_without_hooks());
    check(vramtape_add_free_memory_callback(free_memory, nullptr));
    // The deleter does nothing: tensors may outlive every owner of the pointer.
    const std::shared_ptr<CUDAAllocator> shared(&instance(), [](CUDAAllocator*) {});
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(shared);
    // torch.accelerator reads this registry, which changing the current allocator does not change. The highest priority
    // keeps other allocators out.
    c10::SetAllocator(c10::kCUDA, &instance(), std::numeric_limits<std::uint8_t>::max());
#if TORCH_SINCE(10)
    follow_settings();
#endif
}

void Allocator::init(int device_count) {
    vramtape_init(device_count);
    device_count_ = device_count;
    initialized_ = true;
}

bool Allocator::initialized() {
    return initialized_;
}

// PyTorch compares it with `backend:` in the settings. Programs infer the available features from it: all of the
// native allocator's.
std::string Allocator::name() {
    return "native";
}

void Allocator::require(DeviceIndex device) const {
    TORCH_CHECK(
        0 <= device && device < device_count_, "Invalid device argument ", static_cast<int>(device),
        ": did you call init?");
}

double Allocator::getMemoryFraction(DeviceIndex device) {
    require(device);
    const double fraction = vramtape_get_memory_fraction(device);
    TORCH_CHECK(fraction >= 0, vramtape_last_error());
    return fraction;
}

void Allocator::setMemoryFraction(double fraction, DeviceIndex device) {
    require(device);
    vramtape_set_memory_fraction(fraction, device);
}

}  // namespace vramtape
