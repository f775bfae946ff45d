// The autograd node that a thread makes or runs while its stack is captured: a backward pass has no Python frames, but
// its node has the number of the forward call that made it.

#include <cxxabi.h>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>

#include "torch.h"

namespace vramtape {

namespace {

int ask_autograd(VramtapeAutogradCall* call) {
    try {
        if (const auto node = torch::autograd::get_current_node()) {
            call->thread = node->thread_id();
            call->sequence = node->sequence_nr();
            const std::string name = node->name();
            const auto size = std::min(name.size(), sizeof(call->name) - 1);
            std::copy_n(name.begin(), size, call->name);
            return VRAMTAPE_BACKWARD;
        }
        // Inside an operation of autograd, behind the making of its node.
        const auto excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
        const bool is_inside = excluded.has(c10::DispatchKey::AutogradFunctionality);
        const std::uint64_t next = at::sequence_number::peek();
        if (next == 0 || !is_inside || !c10::GradMode::is_enabled()) {
            return 0;
        }
        call->thread = at::RecordFunction::currentThreadId();
        call->sequence = next - 1;
        return VRAMTAPE_FORWARD;
    } catch (const abi::__forced_unwind&) {
        throw;  // Python ends the thread, which the library parks.
    } catch (...) {
        return 0;
    }
}

}  // namespace

}  // namespace vramtape
