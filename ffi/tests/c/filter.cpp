// A pool filter as PyTorch makes it: a std::function that owns memory and dies after the hook returned.

#include <functional>
#include <memory>

extern "C" void* filter_new(void* stream) {
    const auto taken = std::make_shared<void*>(stream);
    return new std::function<bool(void*)>([taken](void* asked) { return asked == *taken; });
}

extern "C" void filter_delete(void* filter) {
    delete static_cast<std::function<bool(void*)>*>(filter);
}
