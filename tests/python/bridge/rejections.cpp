// Attaches observers of rejections by PyTorch's own function, which Python has no name for.

#include <c10/cuda/CUDACachingAllocator.h>

#include <stdexcept>

using Hear = void (*)(long device, unsigned long segment, unsigned long reserved, unsigned long total);

extern "C" __attribute__((visibility("default"))) void attach(Hear hear) {
    using namespace c10::cuda::CUDACachingAllocator;
    attachOomRejectionObserver([hear](int64_t device, size_t segment, size_t reserved, size_t total) {
        hear(device, segment, reserved, total);
    });
    attachOomRejectionObserver([](int64_t, size_t, size_t, size_t) { throw std::runtime_error("nobody hears it"); });
}
