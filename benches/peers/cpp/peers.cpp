// Times PyTorch's own CUDA caching allocator and libvramtape.so in one process, on whatever CUDA the
// process finds, and prints one line for each measurement: operation, subject, nanoseconds.
//
//     peers LIBVRAMTAPE_SO COPY_OF_IT SAVED_TAPE ROUNDS COUNT [ONLY]...
//
// Only the operations whose name contains one of ONLY are run. The copy records nothing. The subjects take turns,
// round by round, so that what disturbs the machine disturbs all of them. At the end the ring of device 0 is
// saved as a tape.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fail.h"
#include "measure.h"
#include "operation.h"
#include "pytorch.h"
#include "vramtape.h"

namespace {

void* new_stream(int device) {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    cudaStream_t stream = nullptr;
    expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "no stream");
    return stream;
}

// Four streams of the first device, and one of each other.
std::vector<Operation> operations(int devices) {
    std::vector<Place> shared, own;
    for (int i = 0; i < 4; ++i) shared.push_back({0, new_stream(0)});
    own.push_back(shared[0]);
    for (int device = 1; device < devices; ++device) own.push_back({device, new_stream(device)});
    const auto first = [](const std::vector<Place>& places, size_t count) {
        return std::vector<Place>(places.begin(), places.begin() + static_cast<long>(count));
    };
    constexpr size_t kKiB = 1 << 10, kMiB = 1 << 20, kMixed = 0;
    std::vector<Operation> all = {
        {"pair 512 B", 512, first(shared, 1)},         {"pair 64 KiB", 64 * kKiB, first(shared, 1)},
        {"pair 4 MiB", 4 * kMiB, first(shared, 1)},    {"pair 64 MiB", 64 * kMiB, first(shared, 1)},
        {"mixed 1000 live", kMixed, first(shared, 1)},
    };
    for (size_t threads : {2, 4}) {
        const std::string name = "threads " + std::to_string(threads);
        all.push_back({name + ", 1 device, 4 MiB", 4 * kMiB, first(shared, threads)});
        all.push_back({name + ", 1 device, mixed", kMixed, first(shared, threads)});
        if (own.size() < threads)
            continue;
        all.push_back({name + ", own devices, 4 MiB", 4 * kMiB, first(own, threads)});
    }
    return all;
}

bool is_wanted(const Operation& operation, const std::vector<std::string>& only) {
    auto is_in = [&](const std::string& part) { return operation.name.find(part) != std::string::npos; };
    return only.empty() || std::any_of(only.begin(), only.end(), is_in);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 6)
        fail("usage: peers LIBVRAMTAPE_SO COPY_OF_IT SAVED_TAPE ROUNDS COUNT [ONLY]...");
    const long rounds = std::atol(argv[4]), count = std::atol(argv[5]);
    if (rounds < 1 || count < 1)
        fail("ROUNDS and COUNT are numbers above 0");

    const int devices = c10::cuda::device_count();
    if (devices < 1)
        fail("no CUDA device: preload the simulated driver");
    pytorch::native::init(devices);
    vramtape::ring.load(argv[1], nullptr);
    vramtape::off.load(argv[2], "record:off");
    std::vector<Subject> subjects = pytorch::subjects();
    for (Subject& subject : vramtape::subjects()) subjects.push_back(std::move(subject));

    auto all = operations(devices);
    const std::vector<std::string> only(argv + 6, argv + argc);
    std::erase_if(all, [&](const Operation& operation) { return !is_wanted(operation, only); });
    if (all.empty())
        fail("no operation has such a name");
    for (long round = 0; round < rounds; ++round) {
        for (const Operation& operation : all) {
            for (const Subject& subject : subjects) {
                const double ns = measure(subject, operation, count);
                std::printf("%s\t%s\t%.3f\n", operation.name.c_str(), subject.name, ns);
                std::fflush(stdout);
            }
        }
    }
    for (int device = 0; device < devices; ++device) {
        vramtape::ring.expect_whole(device);
        vramtape::off.expect_whole(device);
    }
    vramtape::ring.save(0, argv[3]);
}
