// SPDX-License-Identifier: Apache-2.0
// fragment_state.hpp: what stands behind a Fragment. Only fragment.cpp and fragment_builder.cpp include it.
#pragma once

#include "base/fragment_parts.hpp"

namespace tenon {

struct Fragment::State {
  explicit State(base::Parts checked) : parts(std::move(checked)) { point(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  base::Parts parts;
  std::vector<tn_tensor> tensors;
  std::vector<tn_node> nodes;
  std::vector<std::vector<tn_attribute>> attributes;
  std::vector<TensorSpec> bindings;
  Identity identity{};
  tn_fragment view{};

 private:
  void point();
};

}  // namespace tenon
