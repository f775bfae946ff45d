// Memory in other processes, and copies between devices.
//
// Handles are written as PyTorch's own allocator writes them, so that a process with that allocator understands ours
// and the other way around: the version, the kind, and for a whole segment what the runtime made of it, for pages of
// an expandable segment a header and a file descriptor for each page.

#include <unistd.h>

#include <cstring>
#include <string_view>

#include "allocator.h"

namespace vramtape {

namespace {

#if TORCH_SINCE(13)
constexpr char kVersion = 3;
#elif TORCH_SINCE(8)
constexpr char kVersion = 2;
#else
constexpr char kVersion = 1;
#endif
constexpr char kSegment = 'c';
constexpr char kPages = 'e';

// The data before the descriptors. Since version 3 it includes their kind.
struct PagesHeader {
    std::int32_t pid;
    std::int32_t padding;
    std::uint64_t page_size;
    std::uint64_t page_count;
};
constexpr char kSinceKind = 3;
constexpr std::int32_t kDescriptors[] = {1, 0};

// Reads a handle from its front. It may come from anywhere, so it may end anywhere.
class Reader {
 public:
    explicit Reader(const std::string& bytes) : rest_(bytes) {}

    template <class T>
    T take() {
        T value;
        take_bytes(&value, sizeof value);
        return value;
    }

    template <class T>
    std::vector<T> take_all(std::size_t count) {
        TORCH_CHECK(count <= rest_.size() / sizeof(T), kShort);
        std::vector<T> values(count);
        take_bytes(values.data(), count * sizeof(T));
        return values;
    }

 private:
    static constexpr const char* kShort = "unexpected or ill-formed shareable handle: it ends too early";

    void take_bytes(void* target, std::size_t count) {
        TORCH_CHECK(count <= rest_.size(), kShort);
        std::memcpy(target, rest_.data(), count);
        rest_.remove_prefix(count);
    }

    std::string_view rest_;
};

template <class T>
void put(std::string& handle, const T& value) {
    handle.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Memory of another process, open here until `close`. Not in a destructor: at the process's end nothing is closed,
// when the driver may be gone.
struct Opened {
    DeviceIndex device = 0;
    void* ptr = nullptr;
    bool is_pages = false;
    std::weak_ptr<void> users;

    explicit Opened(const std::string& handle) {
        C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
        Reader reader(handle);
        // Before handles had a version they were what the runtime made, and nothing else.
        const bool is_raw = handle.size() == sizeof(cudaIpcMemHandle_t);
        const char version = is_raw ? 0 : reader.take<char>();
        TORCH_CHECK(
            version <= kVersion,
            "received sharable handle from a future version of torch that this version does not know how to handle");
        const char kind = is_raw ? kSegment : reader.take<char>();
        TORCH_CHECK(kind == kSegment || kind == kPages, "unexpected or ill-formed shareable handle type");
        is_pages = kind == kPages;
        if (is_pages) {
            open_pages(reader, version);
        } else {
            const auto raw = reader.take<cudaIpcMemHandle_t>();
            C10_CUDA_CHECK(cudaIpcOpenMemHandle(&ptr, raw, cudaIpcMemLazyEnablePeerAccess));
        }
    }

    void open_pages(Reader& reader, char version) {
        const auto header = reader.take<PagesHeader>();
        const auto kind = version < kSinceKind ? kDescriptors[0] : reader.take<std::int64_t>();
        TORCH_CHECK(
            static_cast<std::int32_t>(kind) == kDescriptors[0],
            "this memory is shared over the NVLink fabric, which vramtape does not open");
        const auto descriptors = reader.take_all<int>(header.page_count);
        check(vramtape_open_pages(device, header.pid, header.page_size, descriptors.size(), descriptors.data(), &ptr));
    }

    void close() const {
        const c10::cuda::CUDAGuard guard(device);
        if (is_pages) {
            // Unmapping waits for nothing.
            C10_CUDA_CHECK_WARN(cudaDeviceSynchronize());
            if (vramtape_close_pages(device, ptr) != VRAMTAPE_OK) {
                TORCH_WARN(vramtape_last_error());
            }
        } else {
            C10_CUDA_CHECK_WARN(cudaIpcCloseMemHandle(ptr));
        }
    }
};

// Open segments by handle: a process opens a segment once, and its tensors share it.
std::mutex opened_mutex;
std::unordered_map<std::string, Opened>& opened() {
    static auto* const all = new std::unordered_map<std::string, Opened>();
    return *all;
}

void put_pages_into(ShareableHandle& shared, const VramtapeSharedPages* pages) {
    auto& [offset, handle] = shared;
    offset = static_cast<std::ptrdiff_t>(pages->offset);
    handle = {kVersion, kPages};
    put(handle, PagesHeader{getpid(), 0, pages->page_size, pages->page_count});
    if constexpr (kVersion >= kSinceKind) {
        put(handle, kDescriptors);
    }
    for (const int* it = pages->descriptors; it != pages->descriptors + pages->page_count; ++it) {
        put(handle, *it);
    }
}

void put_pages(const VramtapeSharedPages* pages, void* user) noexcept {
    Visited<ShareableHandle>::run(user, [&](ShareableHandle& shared) { put_pages_into(shared, pages); });
}

}  // namespace

ShareableHandle Allocator::shareIpcHandle(void* ptr) {
    ShareableHandle shared{0, {}};
    Visited<ShareableHandle> visited{shared, {}};
    check(vramtape_share_pages(ptr, put_pages, &visited), visited.visits);
    if (!shared.handle.empty()) {
        return shared;
    }
    void* const base = vramtape_base_alloc(ptr, nullptr);
    cudaIpcMemHandle_t raw;
    C10_CUDA_CHECK(cudaIpcGetMemHandle(&raw, base));
    shared.offset = static_cast<char*>(ptr) - static_cast<char*>(base);
    shared.handle = {kVersion, kSegment};
    put(shared.handle, raw);
    return shared;
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string handle) {
    std::lock_guard<std::mutex> lock(opened_mutex);
    const auto known = opened().find(handle);
    if (known != opened().end()) {
        if (auto users = known->second.users.lock()) {
            return users;
        }
        // Its last user is about to take it out and close it, and waits for us.
        opened().erase(known);
    }
    Opened& entry = opened().emplace(handle, Opened(handle)).first->second;
    const auto close = [handle = std::move(handle), entry](void*) {
        {
            std::lock_guard<std::mutex> lock(opened_mutex);
            const auto found = opened().find(handle);
            // Another thread may have opened it again since its last user released it.
            if (found != opened().end() && found->second.users.expired()) {
                opened().erase(found);
            }
        }
        entry.close();
    };
    std::shared_ptr<void> users(entry.ptr, close);
    entry.users = users;
    return users;
}

void Allocator::enablePeerAccess(DeviceIndex device, DeviceIndex owner) {
    Pluggable::enablePeerAccess(device, owner);  // The driver's part, for what cudaMalloc gave.
    check(vramtape_enable_peer_access(owner, device));
}

cudaError_t Allocator::memcpyAsync(
    void* target, int target_device, const void* source, int source_device, std::size_t size, cudaStream_t stream,
    bool p2p_enabled) {
    // Mapped memory is out of cudaMemcpyAsync's reach where peers cannot see each other.
    if (p2p_enabled || target_device == source_device) {
        return cudaMemcpyAsync(target, source, size, cudaMemcpyDeviceToDevice, stream);
    }
    return cudaMemcpyPeerAsync(target, target_device, source, source_device, size, stream);
}

}  // namespace vramtape
