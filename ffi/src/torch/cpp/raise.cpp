// Throws PyTorch's own exceptions with none of its headers, so that one library serves every version.
//
// c10::Error has an exported constructor. The classes derived from it add no members: such an object is a c10::Error
// with another vtable, thrown under another typeinfo. Where those two are emitted differs between classes and versions
// (OutOfMemoryError: libc10_cuda, since 2.15 libc10; ValueError: libc10, before 2.9 libtorch_cpu), so all are searched.

#include <cxxabi.h>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "loaded.h"

namespace {

using vramtape::is_loaded;
using vramtape::loaded_symbol;

// c10::SourceLocation, which the constructor takes by value.
struct SourceLocation {
    const char* function;
    const char* file;
    std::uint32_t line;
};

using ConstructError = void (*)(void* self, SourceLocation where, std::string message);

constexpr const char* kConstructError =
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";

// c10::Error takes about 150 bytes; the size is not exported, and room to spare costs nothing.
constexpr std::size_t kRoomForError = 1024;

// Of a vtable, the first two words are not functions.
constexpr std::size_t kVtableHeader = 2 * sizeof(void*);

struct ErrorClass {
    void* vtable;
    std::type_info* type;
};

// The class with this mangled name; all null where no library has it whole.
ErrorClass find_class(const std::string& mangled) {
    for (const char* library : {"libc10_cuda.so", "libc10.so", "libtorch_cpu.so"}) {
        void* vtable = loaded_symbol(library, ("_ZTV" + mangled).c_str());
        void* type = loaded_symbol(library, ("_ZTI" + mangled).c_str());
        if (vtable != nullptr && type != nullptr) {
            return {vtable, static_cast<std::type_info*>(type)};
        }
    }
    return {nullptr, nullptr};
}

void destroy(void* error) {
    static_cast<std::exception*>(error)->~exception();
}

}  // namespace

// Throws the exception class with this mangled name ("N3c1016OutOfMemoryErrorE"). Returns where the process has no
// PyTorch, whose callers want an answer instead. A PyTorch that lacks the class gets its base, and one that lacks the
// base too gets std::runtime_error: both are a RuntimeError in Python.
extern "C" void vramtape_torch_raise(const char* mangled, const char* message, std::size_t size) {
    if (!is_loaded("libc10.so")) {
        return;
    }
    const std::string text(message, size);
    auto construct = reinterpret_cast<ConstructError>(loaded_symbol("libc10.so", kConstructError));
    ErrorClass wanted = find_class(mangled);
    if (wanted.type == nullptr) {
        wanted = find_class("N3c105ErrorE");
    }
    if (construct == nullptr || wanted.type == nullptr) {
        throw std::runtime_error(text);
    }
    void* error = abi::__cxa_allocate_exception(kRoomForError);
    construct(error, {"vramtape", "libvramtape.so", 0}, text);
    *static_cast<void**>(error) = static_cast<char*>(wanted.vtable) + kVtableHeader;
    abi::__cxa_throw(error, wanted.type, destroy);
}
