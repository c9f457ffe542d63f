// SPDX-License-Identifier: Apache-2.0
// vocabulary.hpp: the elementwise ops, reductions and types that a plugin takes as nodes of a fragment.
//
// Random groups are drawn from these, so that a plugin of five ops is asked about groups of its five ops.
// Invariant: it is learned by asking `supports`, once in a process; what is refused here has a case of its own that says so.
#pragma once

#include "conformance/fragments/group.hpp"

#include <set>
#include <utility>

namespace tenon::conform {

class Vocabulary {
 public:
  // Asks the plugin about two nodes of each op and type. [case's thread; may fail]
  static Result<const Vocabulary*> of(Context& t, const Device& device);

  void add(const Row& row, uint32_t dtype) {
    known_.insert({row.op, dtype});
    dtypes_.insert(dtype);
  }
  bool has(const Row& row, uint32_t dtype) const { return known_.count({row.op, dtype}) != 0; }
  bool has(uint32_t dtype) const { return dtypes_.count(dtype) != 0; }
  bool empty() const noexcept { return known_.empty(); }

 private:
  std::set<std::pair<uint32_t, uint32_t>> known_{};
  std::set<uint32_t> dtypes_{};
};

}  // namespace tenon::conform
