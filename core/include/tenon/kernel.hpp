// SPDX-License-Identifier: Apache-2.0
// kernel.hpp: Kernel, a fragment compiled for one device.
//
// Invariant: a launch allocates nothing and takes no lock; it costs one call through the plugin's table.
#pragma once

#include <tenon/kernel.h>
#include <tenon/detail/ref.hpp>
#include <tenon/export.hpp>
#include <tenon/fragment.hpp>
#include <tenon/stream.hpp>

#include <span>
#include <string>
#include <string_view>

namespace tenon {

namespace detail {
struct KernelState : Counted {
  const tn_kernel_api* api = nullptr;
  tn_kernel* handle = nullptr;
  const tn_device* home = nullptr;  // whose it is
  uint64_t workspace_bytes = 0;

  TN_API static void destroy(KernelState* state) noexcept;  // defined in core/runtime
};
}  // namespace detail

// The plugin's answer to "can you run this?".
enum class Verdict : uint32_t {
  no = TN_SUPPORT_NO,
  native = TN_SUPPORT_NATIVE,
  converted = TN_SUPPORT_CONVERTED,
  emulated = TN_SUPPORT_EMULATED,
};
// "no", "native", "converted" or "emulated". [any-thread; does not block; cannot fail]
TN_API std::string_view name(Verdict verdict) noexcept;

struct Support {
  Verdict verdict = Verdict::no;
  double cost_ns = 0;
  uint64_t workspace_bytes = 0;
  uint64_t alias_mask = 0;      // of the first 64 declared aliases
  uint64_t aliases_beyond = 0;  // of those after them, how many before the first that is not honoured
  std::string reason{};

  // Whether declared alias `i` is honoured in place. [any-thread; does not block; cannot fail]
  bool honours(size_t i) const noexcept {
    return i < 64 ? (alias_mask >> i & 1) != 0 : i - 64 < aliases_beyond;
  }
};

struct CompileOptions {
  double budget_ms = 0;  // for tuning
  uint64_t workspace_limit = TN_COMPILE_NO_LIMIT;
};

// A compiled fragment; copies name the same one. May be in flight on several streams with distinct workspaces.
class TN_API Kernel {
 public:
  Kernel() noexcept = default;
  explicit Kernel(detail::Ref<detail::KernelState> state) noexcept : state_(std::move(state)) {}
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

  // Enqueues one run: `bindings` are inputs, then outputs, in the fragment's order; `workspace` holds workspace_bytes() of
  // this launch alone. TN_INVALID for a stream of another device, and for a wrong count, size or alignment.
  // [stream's thread; may block; may fail]
  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace = {}) const {
    detail::StreamState& line = *stream.state();
    if (!line.healthy()) [[unlikely]]
      return detail::stream_poison(line);
    if (line.home != state_->home) [[unlikely]]
      return detail::stream_elsewhere(line);
    line.touch();
    tn_error error = no_error();
    const int32_t code = state_->api->launch(state_->handle, line.handle, bindings.data(),
                                             static_cast<uint32_t>(bindings.size()), &workspace, &error);
    if (code != TN_OK) [[unlikely]]
      return detail::stream_failure(line, code, error);
    return {};
  }
  // The same with a workspace from the device's pool. [stream's thread; may block; may fail]
  Status run(Stream& stream, std::initializer_list<tn_span> bindings) const;

  uint64_t workspace_bytes() const noexcept { return state_->workspace_bytes; }
  // Who runs it, in the plugin's words: "tiles", "onednn:jit:avx512_core". [any-thread; does not block; cannot fail]
  const std::string& engine() const noexcept;
  const Fragment& fragment() const noexcept;
  detail::KernelState* state() const noexcept { return state_.get(); }

 private:
  detail::Ref<detail::KernelState> state_;
};

}  // namespace tenon
