// SPDX-License-Identifier: Apache-2.0
// fragment_parts.hpp: what a FragmentBuilder collects and a Fragment owns. Only the files of the two include it.
#pragma once

#include <tenon/fragment.hpp>

#include <memory>
#include <string>
#include <vector>

namespace tenon::base {

using ConstantBytes = std::shared_ptr<const std::vector<std::byte>>;

struct TensorPart {
  TensorSpec spec;
  ConstantBytes constant{};  // null: not a constant
};

struct NodePart {
  Op op{};
  uint32_t version = 1;
  std::vector<uint32_t> inputs{}, outputs{};
  std::vector<Attribute> attributes{};
};

// A fragment as data, checked by the builder.
struct Parts {
  std::string name;
  std::vector<TensorPart> tensors{};
  std::vector<NodePart> nodes{};
  std::vector<uint32_t> inputs{}, outputs{};
  std::vector<tn_alias> aliases{};
};

// "bad dims", …: why `spec` cannot be a tensor, with value and remedy. [any-thread; does not block; may fail]
Status check_spec(const TensorSpec& spec);
// Strides that say what no strides say are left out, so that equal tensors are told in one way.
// [any-thread; does not block; cannot fail]
void drop_dense_strides(TensorSpec& spec);

}  // namespace tenon::base
