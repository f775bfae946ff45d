// libvramtape.so through its C ABI: as it ships, with record:off, and with record:off under a log in text.

#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "fail.h"
#include "subject.h"
#include "text_log.h"

namespace vramtape {

// One loaded copy of the library, with settings of its own.
class Library {
 public:
    // `conf` is what VRAMTAPE_CONF says to it; NULL is nothing.
    void load(const char* path, const char* conf) {
        handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle_)
            fail(dlerror());
        find("vramtape_malloc", malloc);
        find("vramtape_free", free);
        find("vramtape_empty_cache", empty_cache);
        find("vramtape_check", check_);
        find("vramtape_stats", stats_);
        find("vramtape_tape_save", tape_save_);
        find("vramtape_error_count", error_count_);
        find("vramtape_last_error", last_error_);
        // The library reads its settings when it is first used.
        if (conf)
            setenv("VRAMTAPE_CONF", conf, 1);
        free(malloc(1, 0, nullptr), 1, 0, nullptr);
        unsetenv("VRAMTAPE_CONF");
        expect_no_error();
    }

    Counts counts(int device) const {
        std::string text(static_cast<size_t>(stats_(device, nullptr, 0)) + 64, '\0');
        expect(stats_(device, text.data(), text.size()) > 0, "vramtape has no statistics");
        return {
            number(text, "allocation", "allocated"), number(text, "allocation", "freed"),
            number(text, "allocated_bytes", "current")};
    }

    // Everything that can be known at the end: no error, a consistent heap.
    void expect_whole(int device) const {
        check_(device);
        expect_no_error();
    }

    // Saves the ring of the device.
    void save(int device, const char* path) const {
        tape_save_(device, path);
        expect_no_error();
    }

    void* (*malloc)(size_t, int, void*);
    void (*free)(void*, size_t, int, void*);
    void (*empty_cache)();

 private:
    template <typename Function>
    void find(const char* name, Function& function) {
        function = reinterpret_cast<Function>(dlsym(handle_, name));
        expect(function, std::string("the library has no ") + name);
    }

    void expect_no_error() const {
        if (error_count_() != 0)
            fail(std::string("vramtape: ") + last_error_());
    }

    // "GROUP":{"all":{... "KEY":NUMBER
    static int64_t number(const std::string& text, const std::string& group, const std::string& key) {
        const size_t all = text.find('"' + group + "\":{\"all\":{");
        const size_t at = text.find('"' + key + "\":", all);
        expect(all != std::string::npos && at != std::string::npos, "vramtape's statistics lack " + group);
        return std::atoll(text.c_str() + at + key.size() + 3);
    }

    void* handle_;
    int (*check_)(int);
    int64_t (*stats_)(int, char*, size_t);
    int (*tape_save_)(int, const char*);
    uint64_t (*error_count_)();
    const char* (*last_error_)();
};

// Two copies, since settings hold for a whole process: as it ships, and record:off.
inline Library ring, off;

inline TextLog text_log;

inline void* allocate_logged(size_t size, int device, void* stream) {
    void* ptr = off.malloc(size, device, stream);
    text_log.line("allocate", ptr, size, stream);
    return ptr;
}

inline void release_logged(void* ptr, size_t size, int device, void* stream) {
    text_log.line("free", ptr, size, stream);
    off.free(ptr, size, device, stream);
}

inline std::vector<Subject> subjects() {
    const auto nothing = [] {};
    const auto no_events = [](int64_t) {};
    const auto count_lines = [](int64_t events) {
        expect(text_log.lines() == events, "the text log has lost lines");
        text_log.clear();
    };
    const auto ring_counts = [](int device) { return ring.counts(device); };
    const auto off_counts = [](int device) { return off.counts(device); };
    return {
        {"vramtape", kWarmUp, ring.malloc, ring.free, nothing, ring.empty_cache, ring_counts, no_events},
        {"vramtape, record:off", kWarmUp, off.malloc, off.free, nothing, off.empty_cache, off_counts, no_events},
        {"record:off and text log", kWarmUp, allocate_logged, release_logged, nothing, off.empty_cache, off_counts,
         count_lines},
    };
}

}  // namespace vramtape
