// SPDX-License-Identifier: Apache-2.0
// walk.hpp: a kernel whose every thread makes some neighbouring elements of one tensor, and where the tensors it touches are then.
//
// For kernels that are written by hand around the elements of a tensor: the loops over its dims are put in the order in which
// it lies, merged where every sum walks them as one, and cut into lanes where 16-byte words allow.
// Invariant: sums are of signed numbers, wide enough for all of them and for what the kernel says it adds to them.
#pragma once

#include "index.hpp"
#include "program.hpp"
#include "source.hpp"

#include <deque>
#include <functional>

namespace tenon::cuda {

class Walk {
 public:
  explicit Walk(std::span<const int64_t> dims) : space_(dims, std::vector<bool>(dims.size()), {}) {}
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  // The element's place in the dims, to make sums of.
  Index index() const { return space_.whole(); }
  // Every sum that the kernel uses; returns its number.
  uint32_t add(Affine sum);
  // What the kernel adds to a sum, at most.
  void reach(int64_t more) { more_ = std::max(more_, more); }
  // Closes the list of sums: loops are ordered as sum `lead` steps, and merged.
  void close(uint32_t lead);

  // Lanes that make 16 bytes of elements of `bytes` bytes: every sum of `moved` steps by 1 along the innermost loop, the others
  // not at all, and `steps`, which the kernel adds, keep words aligned. 1 where that is not so.
  uint32_t lanes(uint32_t bytes, std::span<const uint32_t> moved, std::span<const int64_t> steps) const;

  // An entry that runs `body` for each chunk of `lanes` elements, one a thread. In the body sums are spelled by `at`.
  Entry write(Source& out, const std::string& name, uint32_t lanes, const std::function<void()>& body) const;
  std::string at(uint32_t sum) const;
  // The lines that make the loops' variables from a number, for code outside of `write`.
  void decode(Source& out, const std::string& chunk, uint32_t lanes = 1) const;
  // "i32" or "i64", of sums; "u32" or "u64", of chunks.
  const char* number() const { return wide_ ? "i64" : "i32"; }
  const char* counter() const { return wide_ ? "u64" : "u32"; }

 private:
  std::string literal(uint64_t value) const;

  Space space_;
  std::deque<Affine> sums_{};
  std::vector<uint32_t> loops_{};
  int64_t more_ = 0;
  bool wide_ = false;
};

// Strides of dense elements whose dims lie in the order in which those of `like` do.
Dims dense_strides_like(std::span<const int64_t> dims, std::span<const int64_t> like);

}  // namespace tenon::cuda
