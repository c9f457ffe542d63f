// SPDX-License-Identifier: Apache-2.0
// placed.cpp: from a tensor to its place.
#include "placed.hpp"

#include <tenon/author/node_view.hpp>

#include <algorithm>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

Result<uint32_t> bound_at(const FragmentView& fragment, uint32_t tensor) {
  const auto at = [&](std::span<const uint32_t> all) {
    return static_cast<uint32_t>(std::ranges::find(all, tensor) - all.begin());
  };
  const auto inputs = fragment.inputs(), outputs = fragment.outputs();
  if (const uint32_t input = at(inputs); input < inputs.size()) return input;
  if (const uint32_t output = at(outputs); output < outputs.size())
    return static_cast<uint32_t>(inputs.size()) + output;
  return Status(TN_UNSUPPORTED, text("tensor ", tensor,
                                     " is computed within the fragment, or a constant: compile that apart"));
}

Result<Placed> placed(const FragmentView& fragment, uint32_t tensor) {
  const author::TensorView view = fragment.tensor(tensor);
  const auto steps = view.strides();
  const size_t missing = 4 - view.rank();
  Placed out;
  out.binding = TN_TRY(bound_at(fragment, tensor));
  for (size_t i = 0; i < 4; ++i) {
    const int64_t step = i < missing ? 0 : steps[i - missing];
    out.dims[i] = i < missing ? 1 : view.dims()[i - missing];
    out.strides[i] = out.dims[i] == 1 ? std::max<int64_t>(step, 1) : step;
    if (out.dims[i] <= 1 || step > 0) continue;
    return Status(TN_UNSUPPORTED, text("tensor ", tensor, " of dims ", author::words(view.dims()),
                                       " and strides ", author::words({steps.data(), view.rank()}),
                                       ": cuDNN takes no tensor that repeats its elements: copy it"));
  }
  return out;
}

std::string told(const char* name, const Placed& placed) {
  if (!placed.is_there()) return {};
  return text(" ", name, " #", placed.binding, " ", author::words(placed.dims), "/",
              author::words(placed.strides));
}

}  // namespace tenon::cuda
