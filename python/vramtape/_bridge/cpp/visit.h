// A visitor's exception must not pass through the library, which calls some visitors with a device's lock held.
#pragma once

#include <exception>
#include <utility>

namespace vramtape {

// Keeps the first exception of a visitor until the library has returned.
class Visits {
 public:
    template <class Body>
    void run(Body&& body) noexcept {
        if (failure_ != nullptr) {
            return;  // The rest of the visits changes nothing any more.
        }
        try {
            body();
        } catch (...) {
            failure_ = std::current_exception();
        }
    }

    // Throws what a visitor threw, if any did.
    void end() {
        if (failure_ != nullptr) {
            std::rethrow_exception(std::exchange(failure_, nullptr));
        }
    }

 private:
    std::exception_ptr failure_;
};

// A visitor's state, for functions that the library calls with a pointer to it.
template <class State>
struct Visited {
    State& state;
    Visits visits;

    template <class Body>
    static void run(void* user, Body&& body) noexcept {
        auto& self = *static_cast<Visited*>(user);
        self.visits.run([&] { body(self.state); });
    }
};

}  // namespace vramtape
