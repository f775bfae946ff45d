// Keeps the filter that PyTorch hands to beginAllocateToPool: a std::function that dies when the hook returns.

#include <functional>
#include <new>

struct CUstream_st;

namespace {

using Filter = std::function<bool(CUstream_st*)>;

}  // namespace

// A copy of the filter; null where there is no memory for one, or the copy throws.
extern "C" void* vramtape_filter_clone(const void* filter) {
    try {
        return new Filter(*static_cast<const Filter*>(filter));
    } catch (...) {
        return nullptr;
    }
}

// 1: the stream's allocations go to the pool; 0: they do not; -1: the filter threw, or is empty.
extern "C" int vramtape_filter_takes(const void* filter, CUstream_st* stream) {
    try {
        return (*static_cast<const Filter*>(filter))(stream) ? 1 : 0;
    } catch (...) {
        return -1;
    }
}

// The mangled name of the filter's type. It lives as long as the library that made the filter.
extern "C" const char* vramtape_filter_type(const void* filter) {
    return static_cast<const Filter*>(filter)->target_type().name();
}

extern "C" void vramtape_filter_drop(void* filter) {
    delete static_cast<Filter*>(filter);
}
