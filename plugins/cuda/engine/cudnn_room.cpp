// SPDX-License-Identifier: Apache-2.0
// cudnn_room.cpp: dividing the room, and the copies of what lies at odd addresses.
#include "cudnn_room.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

constexpr uint64_t room_alignment = 256;

}  // namespace

uint64_t PlanRoom::take(uint64_t bytes) noexcept {
  const uint64_t at = bytes_;
  bytes_ += (bytes + room_alignment - 1) / room_alignment * room_alignment;
  return at;
}

Result<PlanRoom> PlanRoom::make(const FragmentView& fragment, std::vector<PlanConstant> constants,
                                const std::vector<PlanScratch>& scratch, bool copied) {
  PlanRoom out;
  out.copied_ = copied;
  const auto inputs = static_cast<uint32_t>(fragment.inputs().size());
  for (uint32_t i = 0; i < fragment.binding_count(); ++i) {
    const author::TensorView tensor = fragment.binding(i);
    const uint64_t bytes = tensor.extent_bytes();
    if (copied && i >= inputs && bytes != author::dtype_bytes(tensor.dtype(), tensor.elements())) {
      return Status(TN_UNSUPPORTED,
                    text("output ", i - inputs,
                         " has gaps between its elements, and its address may be odd: promise "
                         "an alignment of ",
                         wide_address, " or write it dense"));
    }
    out.numbers_.push_back(i);
    out.bindings_.push_back({.bytes = bytes, .copy = copied ? out.take(bytes) : 0, .is_output = i >= inputs});
  }
  for (const PlanScratch& one : scratch) {
    out.numbers_.push_back(one.number);
    out.scratch_.push_back(out.take(one.bytes));
  }
  for (const PlanConstant& one : constants) out.numbers_.push_back(one.number);
  out.constants_ = std::move(constants);
  if (out.numbers_.size() <= most_places) return out;
  return Status(TN_UNSUPPORTED,
                text("a plan of ", out.numbers_.size(), " tensors, which is more than ", most_places));
}

Status PlanRoom::copy(const Context& context, CUstream stream, std::span<const CUdeviceptr> bindings,
                      CUdeviceptr room, bool outputs) const {
  for (size_t i = 0; i < bindings.size(); ++i) {
    const Binding& one = bindings_[i];
    const CUdeviceptr there = bindings[i], here = room + one.copy;
    if (one.is_output != outputs || there % wide_address == 0) continue;
    TN_CUDA_IN(context, cuMemcpyAsync, outputs ? there : here, outputs ? here : there, one.bytes, stream);
  }
  return {};
}

}  // namespace tenon::cuda
