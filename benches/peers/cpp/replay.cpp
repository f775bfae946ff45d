// Does a script's allocations and frees with PyTorch's own CUDA caching allocator, on whatever CUDA the process finds,
// and prints one line for each way: subject, nanoseconds in all, the most bytes reserved.
//
//     replay SCRIPT BLOCKS
//
// SCRIPT is a file of steps as `src/replays.rs` writes them; BLOCKS is how many blocks they name. Each way is done
// once before it is timed, and begins with an empty cache.

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "fail.h"
#include "pytorch.h"

namespace {

struct Step {
    enum Kind : uint64_t { kAlloc = 0, kFree = 1, kEmptyCache = 2 };
    uint64_t kind;
    uint64_t block;
    uint64_t size_bytes;
    uint64_t stream;
};

std::vector<Step> read(const char* path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    expect(file.good(), std::string("cannot read ") + path);
    const auto bytes = static_cast<size_t>(file.tellg());
    expect(bytes > 0 && bytes % sizeof(Step) == 0, std::string(path) + " is no script");
    std::vector<Step> steps(bytes / sizeof(Step));
    file.seekg(0).read(reinterpret_cast<char*>(steps.data()), static_cast<std::streamsize>(bytes));
    expect(file.good(), std::string("cannot read ") + path);
    return steps;
}

// The tape's default stream is the default stream; each other one is a stream of its own. Known before anything is
// timed.
void make_streams(std::vector<Step>& steps) {
    std::map<uint64_t, cudaStream_t> streams = {{0, nullptr}};
    for (Step& step : steps) {
        const auto [at, is_new] = streams.emplace(step.stream, nullptr);
        if (is_new)
            expect(cudaStreamCreateWithFlags(&at->second, cudaStreamNonBlocking) == cudaSuccess, "no stream");
        step.stream = reinterpret_cast<uint64_t>(at->second);
    }
}

void run(const std::vector<Step>& steps, std::vector<void*>& blocks) {
    for (const Step& step : steps) {
        switch (step.kind) {
            case Step::kAlloc:
                blocks[step.block] = pytorch::allocate(step.size_bytes, 0, reinterpret_cast<void*>(step.stream));
                break;
            case Step::kFree:
                pytorch::native::raw_delete(std::exchange(blocks[step.block], nullptr));
                break;
            default:
                pytorch::native::emptyCache();
        }
    }
}

double timed(const std::vector<Step>& steps, std::vector<void*>& blocks) {
    pytorch::native::emptyCache();
    pytorch::native::resetPeakStats(0);
    const auto begin = std::chrono::steady_clock::now();
    run(steps, blocks);
    const std::chrono::duration<double, std::nano> wall = std::chrono::steady_clock::now() - begin;
    for (void*& block : blocks) {
        if (block != nullptr)
            pytorch::native::raw_delete(std::exchange(block, nullptr));
    }
    return wall.count();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3)
        fail("usage: replay SCRIPT BLOCKS");
    std::vector<Step> steps = read(argv[1]);
    std::vector<void*> blocks(std::strtoull(argv[2], nullptr, 10));
    for (const Step& step : steps) expect(step.block < blocks.size(), "a step names a block that is not counted");
    pytorch::native::init(1);
    make_streams(steps);
    for (const Subject& subject : pytorch::subjects()) {
        subject.begin();
        timed(steps, blocks);
        const double ns = timed(steps, blocks);
        const auto peak_bytes = pytorch::native::getDeviceStats(0).reserved_bytes[0].peak;
        expect(subject.counts(0).allocated_bytes == 0, std::string(subject.name) + ": memory is still allocated");
        std::printf("%s\t%.0f\t%lld\n", subject.name, ns, static_cast<long long>(peak_bytes));
        subject.end(0);
    }
}
