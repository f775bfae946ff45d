// How the program ends where something is wrong.

#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

[[noreturn]] inline void fail(const std::string& what) {
    std::fprintf(stderr, "peers: %s\n", what.c_str());
    std::_Exit(1);
}

inline void expect(bool holds, const std::string& what) {
    if (!holds)
        fail(what);
}
