// Times PyTorch's own CUDA caching allocator and libvramtape.so in one process, on whatever CUDA the
// process finds, and prints one line for each measurement: operation, subject, nanoseconds.
//
//     peers LIBVRAMTAPE_SO ROUNDS PAIRS [ONLY]...
//
// Only the operations whose name contains one of ONLY are run.
// An operation is an allocation and its free. The subjects take turns, round by round, so that what
// disturbs the machine disturbs all of them.

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace native = c10::cuda::CUDACachingAllocator;

namespace {

// What PyTorch's own tutorial on memory snapshots writes. Its default is no limit, which would measure
// the growing of a vector.
constexpr size_t kHistoryEntries = 100'000;

// Fills the caches, and PyTorch's history, which drops its entries whenever it is switched off: a pair
// makes three.
constexpr long kWarmUpPairs = kHistoryEntries / 3 + 1'000;

struct Subject {
  const char* name;
  bool history;
  void* (*allocate)(size_t size, int device, void* stream);
  void (*release)(void* ptr, size_t size, int device, void* stream);
};

struct Place {
  int device;
  void* stream;
};

struct Operation {
  std::string name;
  size_t size;
  std::vector<Place> places;  // One thread each.
};

void* (*vramtape_malloc)(size_t, int, void*);
void (*vramtape_free)(void*, size_t, int, void*);

void* native_allocate(size_t size, int, void* stream) {
  return native::raw_alloc_with_stream(size, static_cast<cudaStream_t>(stream));
}

void native_release(void* ptr, size_t, int, void*) { native::raw_delete(ptr); }

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "peers: %s\n", what.c_str());
  std::exit(1);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) fail(std::string("the library has no ") + name);
}

void pairs(const Subject& subject, const Operation& operation, const Place& place, long count) {
  for (long i = 0; i < count; ++i) {
    void* ptr = subject.allocate(operation.size, place.device, place.stream);
    if (!ptr) fail(std::string(subject.name) + " has no memory for " + operation.name);
    subject.release(ptr, operation.size, place.device, place.stream);
  }
}

// Wall nanoseconds for each pair of all threads together, from when all of them are ready. They wait
// spinning: a thread that slept would be timed waking up.
double measure(const Subject& subject, const Operation& operation, long count) {
  using Clock = std::chrono::steady_clock;
  size_t size = operation.places.size();
  std::atomic<size_t> ready{0};
  std::vector<Clock::time_point> begins(size), ends(size);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      const Place& place = operation.places[i];
      c10::cuda::set_device(static_cast<c10::DeviceIndex>(place.device));
      pairs(subject, operation, place, kWarmUpPairs);
      for (++ready; ready < size;) {
      }
      begins[i] = Clock::now();
      pairs(subject, operation, place, count);
      ends[i] = Clock::now();
    });
  }
  for (auto& thread : threads) thread.join();
  std::chrono::duration<double, std::nano> wall =
      *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end());
  return wall.count() / static_cast<double>(count * static_cast<long>(size));
}

void* new_stream(int device) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) fail("no stream");
  return stream;
}

std::vector<Operation> operations(int devices) {
  Place first{0, new_stream(0)}, second{0, new_stream(0)};
  std::vector<Operation> all = {
      {"pair 512 B", 512, {first}},
      {"pair 64 KiB", 64 << 10, {first}},
      {"pair 4 MiB", 4 << 20, {first}},
      {"pair 64 MiB", 64 << 20, {first}},
      {"threads 4 MiB, 2 threads, 1 device", 4 << 20, {first, second}},
  };
  if (devices > 1) {
    Place other{1, new_stream(1)};
    all.push_back({"threads 4 MiB, 2 threads, 2 devices", 4 << 20, {first, other}});
  }
  return all;
}

bool is_wanted(const Operation& operation, const std::vector<std::string>& only) {
  auto is_in = [&](const std::string& part) { return operation.name.find(part) != std::string::npos; };
  return only.empty() || std::any_of(only.begin(), only.end(), is_in);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) fail("usage: peers LIBVRAMTAPE_SO ROUNDS PAIRS [ONLY]...");
  long rounds = std::atol(argv[2]), count = std::atol(argv[3]);
  if (rounds < 1 || count < 1) fail("ROUNDS and PAIRS are numbers above 0");
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(dlerror());
  find(library, "vramtape_malloc", vramtape_malloc);
  find(library, "vramtape_free", vramtape_free);
  uint64_t (*error_count)();
  const char* (*last_error)();
  find(library, "vramtape_error_count", error_count);
  find(library, "vramtape_last_error", last_error);

  int devices = c10::cuda::device_count();
  if (devices < 1) fail("no CUDA device: preload the simulated driver");
  native::init(devices);
  const std::vector<Subject> subjects = {
      {"pytorch", false, native_allocate, native_release},
      {"pytorch, history on", true, native_allocate, native_release},
      {"vramtape", false, vramtape_malloc, vramtape_free},
  };
  auto all = operations(devices);
  const std::vector<std::string> only(argv + 4, argv + argc);
  std::erase_if(all, [&](const Operation& operation) { return !is_wanted(operation, only); });
  if (all.empty()) fail("no operation has such a name");
  for (long round = 0; round < rounds; ++round) {
    for (const Operation& operation : all) {
      for (const Subject& subject : subjects) {
        native::recordHistory(
            subject.history, nullptr, kHistoryEntries, native::RecordContext::NEVER, false, {});
        double ns = measure(subject, operation, count);
        std::printf("%s\t%s\t%.3f\n", operation.name.c_str(), subject.name, ns);
        std::fflush(stdout);
      }
    }
  }
  if (error_count() != 0) fail(std::string("vramtape: ") + last_error());
  std::fflush(stdout);
  std::_Exit(0);  // Neither allocator is asked to outlive the driver.
}
