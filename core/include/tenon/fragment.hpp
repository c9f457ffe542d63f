// SPDX-License-Identifier: Apache-2.0
// fragment.hpp: builds what a device compiles. The Fragment owns every array behind its tn_fragment.
//
// Invariant: a Fragment is complete: attributes are sorted with defaults written out, tensors are checked, and the
// identity is computed over all that matters and nothing else (never names or pointers).
#pragma once

#include <tenon/export.hpp>
#include <tenon/types.hpp>

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

// Logical dims in order (NCHW, OIHW), strides in elements (empty: dense, row-major; 0: broadcast).
struct TensorSpec {
  DType dtype = f32;
  std::vector<int64_t> dims{};
  std::vector<int64_t> strides{};
  uint64_t alignment = 0;  // guaranteed for every binding, in bytes; 0: the element's own

  // The number of elements; 1 for rank 0. [any-thread; does not block; cannot fail]
  TN_API uint64_t elements() const noexcept;
  // Bytes from the first to past the last element. [any-thread; does not block; cannot fail]
  TN_API uint64_t bytes() const noexcept;
};

using AttributeValue =
    std::variant<int64_t, double, std::vector<int64_t>, std::vector<double>, std::string, DType>;
struct Attribute {
  std::string name;
  AttributeValue value;
};

using Identity = std::array<uint8_t, 32>;

// An immutable fragment; cheap to copy.
class TN_API Fragment {
 public:
  // The ABI's view; lives as long as any copy of this Fragment. [any-thread; does not block; cannot fail]
  const tn_fragment& abi() const noexcept;
  // Equal identities mean equal fragments. [any-thread; does not block; cannot fail]
  const Identity& identity() const noexcept;
  const std::string& name() const noexcept;
  // Inputs, then outputs, as bindings are ordered. [any-thread; does not block; cannot fail]
  const std::vector<TensorSpec>& bindings() const noexcept;

  struct State;

 private:
  friend class FragmentBuilder;
  explicit Fragment(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// Collects tensors and nodes; mistakes are remembered and told by `build`, so a chain of calls needs one check.
//
//   FragmentBuilder f("add3");
//   auto a = f.input({f32, {n}}), b = f.input({f32, {n}}), c = f.input({f32, {n}});
//   auto t = f.node(Op::add, {a, b}, {f32, {n}});
//   auto d = f.node(Op::add, {t, c}, {f32, {n}});
//   f.output(d);
//   auto fragment = f.build();
class TN_API FragmentBuilder {
 public:
  struct Value {
    uint32_t index = TN_ABSENT;
  };

  explicit FragmentBuilder(std::string name = "");
  FragmentBuilder(FragmentBuilder&&) noexcept;
  FragmentBuilder& operator=(FragmentBuilder&&) noexcept;
  ~FragmentBuilder();

  // An input of the fragment. [one thread]
  Value input(TensorSpec spec);
  // Bytes known at compile time. [one thread]
  Value constant(TensorSpec spec, std::span<const std::byte> bytes);
  // One op with one output of the given spec. [one thread]
  Value node(Op op, std::initializer_list<Value> inputs, TensorSpec output,
             std::vector<Attribute> attributes = {});
  // One op with any number of outputs. A TensorSpec{.dtype = DType{}} leaves an optional output out. [one thread]
  std::vector<Value> node(Op op, std::span<const Value> inputs, std::vector<TensorSpec> outputs,
                          std::vector<Attribute> attributes = {});
  // Marks `value` as the next output. [one thread]
  void output(Value value);
  // Output `output` may be bound to exactly the span of input `input` (positions among outputs and inputs). [one thread]
  void alias(uint32_t output, uint32_t input);
  // The fragment. TN_INVALID naming node, op and value: an unknown op, a wrong number of inputs, a missing or unknown
  // attribute (with the nearest name), a dangling value, rank or dims out of range. [one thread; does not block; may fail]
  Result<Fragment> build();

 private:
  struct Draft;
  std::unique_ptr<Draft> draft_;
};

}  // namespace tenon
