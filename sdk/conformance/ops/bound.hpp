// SPDX-License-Identifier: Apache-2.0
// bound.hpp: the operands of one fragment in memory, and the aliases that the plugin honours.
//
// Invariant: buffers stand in the order of the fragment's bindings; an output that is written over an input has memory of its
// own, too, which stays unused.
#pragma once

#include "conformance/ops/buffer.hpp"

#include <deque>
#include <optional>

namespace tenon::conform {

class Bound {
 public:
  Bound(Context& t, const Device& device, const Stream& stream) : t_(t), device_(device), stream_(stream) {}

  // Keeps those of `asked`, the pairs that the fragment declares, which the answer honours.
  void honour(const std::vector<tn_alias>& asked, const tn_support& answer);
  bool honours_any() const noexcept { return !honoured_.empty(); }

  // The operand outlives this. [stream's thread; may fail]
  Status add_input(const Operand& operand, const Tensor& values);
  Status add_output(const Operand& operand);

  const std::deque<Buffer>& inputs() const noexcept { return inputs_; }
  uint32_t output_count() const noexcept { return static_cast<uint32_t>(outputs_.size()); }
  // Where an output is written.
  const Buffer& output(uint32_t index) const;

  // Every input that no output was written over holds what it held. [stream's thread; may fail]
  Status inputs_unchanged() const;
  // Outputs' own memory as it was before the first launch. [stream's thread; may fail]
  Status reset_outputs() const;

 private:
  Context& t_;
  const Device& device_;
  const Stream& stream_;
  std::vector<tn_alias> honoured_{};
  std::deque<Buffer> inputs_{}, outputs_{};
};

// A fragment that `supports` refused for `reason` is refused by `compile`, too, with words; one that works nevertheless is
// worth the remark that this returns, else "". [case's thread; may fail]
Result<std::string> refused_by_compile(Context& t, const Device& device, const tn_fragment& fragment,
                                       const std::string& reason);

// Calls f(stream), which returns a Status, on a stream of its own and apart from the case (see Context::aside). The story of
// what failed first. [case's thread; blocks as f does]
template <class F>
std::optional<std::string> failure_apart(Context& t, const Device& device, std::string scene, F&& f) {
  const std::vector<std::string> stories = t.aside(std::move(scene), [&] {
    const auto stream = device.stream();
    const Status said = stream.ok() ? f(*stream) : Status(TN_INTERNAL, std::string(stream.message()));
    if (!said.ok()) t.fail(std::string(said.message()));
  });
  if (stories.empty()) return {};
  return stories.front();
}

}  // namespace tenon::conform
