// SPDX-License-Identifier: Apache-2.0
// fused_copy.cpp: identities side by side, cut only where a device takes no more bindings.
#include "overlap/fused_copy.hpp"

#include <algorithm>

namespace tenon::overlap {
namespace {

Result<Fragment> identities_of(std::span<const FusedCopy::Part> parts) {
  FragmentBuilder f("gather");
  std::vector<FragmentBuilder::Value> inputs;
  const auto spec = [](const FusedCopy::Part& part) {
    return TensorSpec{part.dtype, {static_cast<int64_t>(part.to.bytes * 8 / bits(part.dtype))}};
  };
  for (const FusedCopy::Part& part : parts) inputs.push_back(f.input(spec(part)));
  for (size_t i = 0; i < parts.size(); ++i) f.output(f.node(Op::identity, {inputs[i]}, spec(parts[i])));
  return f.build();
}

bool on_device(const FusedCopy::Part& part) {
  return part.to.space == TN_SPACE_MEMORY && part.from.space == TN_SPACE_MEMORY;
}

}  // namespace

bool FusedCopy::fits(std::span<const Part> parts) const noexcept {
  return std::equal(parts.begin(), parts.end(), shapes_.begin(), shapes_.end(),
                    [](const Part& part, const Shape& shape) {
                      return part.dtype == shape.dtype && part.to.bytes == shape.bytes;
                    });
}

Status FusedCopy::compile(std::span<const Part> parts) {
  kernels_.clear();
  shapes_.clear();
  most_ = max_bindings_ == 0 ? parts.size() : std::max<size_t>(max_bindings_ / 2, 1);
  std::vector<Kernel> kernels;
  for (size_t i = 0; i < parts.size(); i += most_) {
    const Fragment fragment = TN_TRY(identities_of(parts.subspan(i, std::min(most_, parts.size() - i))));
    auto kernel = device_.compile(fragment);
    if (!kernel.ok() && kernel.code() != TN_UNSUPPORTED) return std::move(kernel).failure();
    if (!kernel.ok()) {
      kernels.clear();
      break;
    }
    kernels.push_back(std::move(kernel).take());
  }
  for (const Part& part : parts) shapes_.push_back({part.dtype, part.to.bytes});
  kernels_ = std::move(kernels);
  bindings_.reserve(2 * most_);
  return {};
}

Status FusedCopy::launch(Stream& stream, const Kernel& kernel, std::span<const Part> parts) {
  bindings_.clear();
  for (const Part& part : parts) bindings_.push_back(part.from);
  for (const Part& part : parts) bindings_.push_back(part.to);
  ++launches_;
  if (kernel.workspace_bytes() == 0) return kernel.launch(stream, bindings_);
  const Buffer workspace = TN_TRY(device_.allocate(stream, kernel.workspace_bytes()));
  return kernel.launch(stream, bindings_, workspace);
}

Status FusedCopy::copy_each(Stream& stream, std::span<const Part> parts) {
  for (const Part& part : parts) {
    ++launches_;
    TN_TRY(stream.copy(part.to, part.from));
  }
  return {};
}

Status FusedCopy::run(Stream& stream, std::span<const Part> parts) {
  if (parts.size() < 2 || !std::all_of(parts.begin(), parts.end(), on_device))
    return copy_each(stream, parts);
  if (!fits(parts)) TN_TRY(compile(parts));
  if (kernels_.empty()) return copy_each(stream, parts);
  for (size_t k = 0; k < kernels_.size(); ++k)
    TN_TRY(launch(stream, kernels_[k], parts.subspan(k * most_, std::min(most_, parts.size() - k * most_))));
  return {};
}

}  // namespace tenon::overlap
