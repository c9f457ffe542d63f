// SPDX-License-Identifier: Apache-2.0
// bound.cpp: see bound.hpp.
#include "conformance/ops/bound.hpp"

#include "conformance/ops/kernel.hpp"

#include <tenon/author/aliases.hpp>

#include <algorithm>

namespace tenon::conform {

void Bound::honour(const std::vector<tn_alias>& asked, const tn_support& answer) {
  for (size_t i = 0; i < asked.size(); ++i) {
    if (author::honours(answer, i)) honoured_.push_back(asked[i]);
  }
}

Status Bound::add_input(const Operand& operand, const Tensor& values) {
  Buffer made = TN_TRY(buffer_of(device_, stream_, operand));
  made.before = image_of(operand, made.at, values);
  TN_TRY(upload(stream_, made.memory.span(), made.before));
  inputs_.push_back(std::move(made));
  return {};
}

Status Bound::add_output(const Operand& operand) {
  Buffer made = TN_TRY(buffer_of(device_, stream_, operand));
  made.before = TN_TRY(made.memory.read(t_, stream_, "before the launch"));
  outputs_.push_back(std::move(made));
  return {};
}

const Buffer& Bound::output(uint32_t index) const {
  const auto pair = std::find_if(honoured_.begin(), honoured_.end(),
                                 [&](const tn_alias& one) { return one.output == index; });
  return pair != honoured_.end() ? inputs_[pair->input] : outputs_[index];
}

Status Bound::inputs_unchanged() const {
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    const bool taken = std::any_of(honoured_.begin(), honoured_.end(),
                                   [&](const tn_alias& pair) { return pair.input == i; });
    if (taken) continue;
    const Bytes after = TN_TRY(inputs_[i].memory.read(t_, stream_, words("input ", i)));
    TN_TRY(t_.require(after == inputs_[i].before, "input ", i, " was changed by the kernel"));
  }
  return {};
}

Status Bound::reset_outputs() const {
  for (const Buffer& buffer : outputs_) TN_TRY(upload(stream_, buffer.memory.span(), buffer.before));
  return {};
}

Result<std::string> refused_by_compile(Context& t, const Device& device, const tn_fragment& fragment,
                                       const std::string& reason) {
  const auto made = compile(t, device, fragment);
  if (made.ok()) return words("kernel.supports says no (", reason, "), and kernel.compile compiles it");
  if (made.code() == TN_UNSUPPORTED) return std::string();
  return Status(TN_INTERNAL, words("kernel.supports says no (", reason,
                                   "); kernel.compile must say TN_UNSUPPORTED: ", made.message()));
}

}  // namespace tenon::conform
