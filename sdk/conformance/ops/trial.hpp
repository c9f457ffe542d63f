// SPDX-License-Identifier: Apache-2.0
// trial.hpp: one question to a device: a node, its operands with their places in memory, its attributes.
//
// Invariant: a trial is legal by ops.def; what a plugin answers to it is a verdict about the plugin.
#pragma once

#include "conformance/ops/number.hpp"
#include "conformance/ops/row.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::conform {

// Which numbers an operand holds.
enum class Values {
  any,       // the whole range of the type: ±0, subnormals, limits, infinities, NaN, among ordinary ones
  finite,    // ordinary numbers, ±0 and subnormals, at times a NaN
  moderate,  // ordinary numbers, at times an infinity or a NaN
  tame,      // ordinary numbers only
  near_one,  // a product of many stays in range
  positive,  // above 0
  scale,     // of a loss: any from 1 on, at times the least or the largest
  unit,      // 0 … 1
  mask,      // 0 or -∞, or an ordinary number
  index,     // 0 … bound-1
  count,     // 1 … bound
  word       // any 64 bits, without meaning as a number
};

struct Operand {
  uint32_t dtype = TN_DTYPE_NONE;
  std::vector<int64_t> dims{};
  std::vector<int64_t> strides{};  // in elements; empty: dense
  uint64_t skew = 0;               // elements by which it is moved away from its allocation's alignment
  Values values = Values::any;
  int64_t bound = 1;           // of an index
  bool derived = false;        // computed from the others, so no two elements may share a place
  bool absent = false;         // an optional one, left out
  bool repeats_first = false;  // it is bound to the very memory of the first input
  bool is_first = false;       // of a Sample: the first input's tensor itself, read twice
  uint64_t alignment = 0;      // promised to the plugin, in bytes; 0: that of the element
};

struct AttributeValue {
  std::string name{};
  uint32_t kind = 0;  // TN_ATTRIBUTE_…
  int64_t integer = 0;
  double real = 0;
  std::vector<int64_t> integers{};
  std::string text{};
};

// What a case is about: how operands lie.
enum class Form { dense, strided, in_place };

struct Trial {
  const Row* row = nullptr;
  uint32_t subject = TN_DTYPE_NONE;  // the dtype it is about
  std::vector<Operand> inputs{}, outputs{};
  std::vector<AttributeValue> attributes{};
  std::vector<tn_alias> aliases{};  // indexes into inputs and outputs that are there
  uint64_t value_seed = 0;
  bool specials = false;  // `moderate` and `finite` operands hold a few

  const AttributeValue* attribute(std::string_view name) const noexcept;
  int64_t integer(std::string_view name) const noexcept;
  double real(std::string_view name) const noexcept;
  const std::vector<int64_t>& integers(std::string_view name) const noexcept;
};

// An operand's elements in logical order.
struct Tensor {
  uint32_t dtype = TN_DTYPE_NONE;
  std::vector<int64_t> dims{};
  std::vector<Scalar> at{};
};

uint64_t element_count(const std::vector<int64_t>& dims) noexcept;
std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims);
std::vector<int64_t> strides_of(const Operand& operand);
// Elements from the first to the last, gaps included.
uint64_t extent(const Operand& operand);
// Offsets in elements of the elements of `dims` with `strides`, in logical order.
std::vector<uint64_t> places(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides);
// Which element of `dims` each element of `target` repeats, by numpy's rules.
std::vector<uint64_t> broadcast_places(const std::vector<int64_t>& dims, const std::vector<int64_t>& target);

// The operand's numbers. Equal seeds, orders and operands give equal numbers. [any-thread; may throw bad_alloc]
Tensor values_of(const Operand& operand, uint64_t seed, bool specials);

// "[2,3]". [any-thread; does not block; may throw bad_alloc]
std::string told(const std::vector<int64_t>& dims);
// "f32[2,3] strides [4,1] moved by 3".
std::string told(const Operand& operand);
// "axes=[0]".
std::string told(const AttributeValue& attribute);
// "add(f32[2,3] strides [4,1], f32[]) → f32[2,3]; axes=[0]": all that repeats it by hand.
std::string told(const Trial& trial);

}  // namespace tenon::conform
