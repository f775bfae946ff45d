// Attaches observers of rejections by PyTorch's own function, which has no Python binding.

#include <c10/cuda/CUDACachingAllocator.h>

#include <stdexcept>

using Observer = void (*)(long device, unsigned long segment, unsigned long reserved, unsigned long total);

extern "C" __attribute__((visibility("default"))) void attach(Observer observe) {
    using namespace c10::cuda::CUDACachingAllocator;
    attachOomRejectionObserver([observe](int64_t device, size_t segment, size_t reserved, size_t total) {
        observe(device, segment, reserved, total);
    });
    attachOomRejectionObserver([](int64_t, size_t, size_t, size_t) { throw std::runtime_error("PyTorch drops it"); });
}
