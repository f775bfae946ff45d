// Symbols of libraries that the process has loaded. Nothing is loaded for the purpose.
#pragma once

#include <dlfcn.h>

namespace vramtape {

inline void* loaded_symbol(const char* library, const char* symbol) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
        return nullptr;
    }
    void* found = dlsym(handle, symbol);
    dlclose(handle);  // Gives up our reference only.
    return found;
}

inline bool is_loaded(const char* library) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr) {
        dlclose(handle);
    }
    return handle != nullptr;
}

}  // namespace vramtape
