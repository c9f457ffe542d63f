// SPDX-License-Identifier: Apache-2.0
// graph.hpp: a computation as values and nodes, with shapes and types inferred; gradients, text and picture of it.
//
// Invariant: nodes stand in an order in which they can run, a node's inputs exist before it does, and nothing is ever taken
// away: an index once given means the same value or node for good. The first mistake is remembered and told by `check`;
// after it every call is harmless and changes nothing.
#pragma once

#include <tenon/export.hpp>
#include <tenon/fragment.hpp>
#include <tenon/types.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon {

// A handle: where a value stands in Graph::values(). Handles of a graph are good in its copies too.
struct GraphValue {
  uint32_t index = TN_ABSENT;
  uint32_t graph = 0;
  friend bool operator==(const GraphValue&, const GraphValue&) = default;
};

// Every op of ops.def as a function: its inputs in order, then its attributes by name. An op with optional inputs has a
// second form with all of them. One output is a Value, several are an array to be taken apart:
//
//   auto y = g.conv2d(x, w, {{"stride", Ints{2, 2}}});
//   auto [y, mean, inv_std] = g.layer_norm(x, scale, bias);
//
// Reductions and movements take their attributes as arguments. [one thread]
//
// `Self` is what the nodes go into: a Graph, or a Graph::Named.
template <class Self>
class GraphOps {
 public:
  using Value = GraphValue;
  using Attributes = std::vector<Attribute>;
  using Ints = std::vector<int64_t>;

// clang-format off
#define TN_GRAPH_P0
#define TN_GRAPH_P1 Value x0,
#define TN_GRAPH_P2 TN_GRAPH_P1 Value x1,
#define TN_GRAPH_P3 TN_GRAPH_P2 Value x2,
#define TN_GRAPH_P4 TN_GRAPH_P3 Value x3,
#define TN_GRAPH_P5 TN_GRAPH_P4 Value x4,
#define TN_GRAPH_P6 TN_GRAPH_P5 Value x5,
#define TN_GRAPH_P7 TN_GRAPH_P6 Value x6,
#define TN_GRAPH_P8 TN_GRAPH_P7 Value x7,
#define TN_GRAPH_P9 TN_GRAPH_P8 Value x8,
#define TN_GRAPH_L0
#define TN_GRAPH_L1 x0
#define TN_GRAPH_L2 TN_GRAPH_L1, x1
#define TN_GRAPH_L3 TN_GRAPH_L2, x2
#define TN_GRAPH_L4 TN_GRAPH_L3, x3
#define TN_GRAPH_L5 TN_GRAPH_L4, x4
#define TN_GRAPH_L6 TN_GRAPH_L5, x5
#define TN_GRAPH_L7 TN_GRAPH_L6, x6
#define TN_GRAPH_L8 TN_GRAPH_L7, x7
#define TN_GRAPH_L9 TN_GRAPH_L8, x8
#define TN_GRAPH_OF(name, inputs, outputs)                                                          \
  auto name(TN_GRAPH_P##inputs Attributes attributes = {}) {                                        \
    return made<outputs>(self().node(Op::name, std::initializer_list<Value>{TN_GRAPH_L##inputs}, std::move(attributes))); \
  }
#define TN_GRAPH_ALL_0_0(name, outputs)
#define TN_GRAPH_ALL_1_1(name, outputs)
#define TN_GRAPH_ALL_2_2(name, outputs)
#define TN_GRAPH_ALL_3_3(name, outputs)
#define TN_GRAPH_ALL_4_4(name, outputs)
#define TN_GRAPH_ALL_5_5(name, outputs)
#define TN_GRAPH_ALL_8_8(name, outputs)
#define TN_GRAPH_ALL_3_4(name, outputs) TN_GRAPH_OF(name, 4, outputs)
#define TN_GRAPH_ALL_3_6(name, outputs) TN_GRAPH_OF(name, 6, outputs)
#define TN_GRAPH_ALL_4_7(name, outputs) TN_GRAPH_OF(name, 7, outputs)
#define TN_GRAPH_ALL_6_7(name, outputs) TN_GRAPH_OF(name, 7, outputs)
#define TN_GRAPH_ALL_6_9(name, outputs) TN_GRAPH_OF(name, 9, outputs)
#define TN_GRAPH_ALL_2_255(name, outputs)                                                           \
  auto name(const std::vector<Value>& inputs, Attributes attributes = {}) {                         \
    return made<outputs>(self().node(Op::name, std::span(inputs), std::move(attributes)));                 \
  }
#define TN_GRAPH_PLAIN(name, least, most, outputs) \
  TN_GRAPH_OF(name, least, outputs) TN_GRAPH_ALL_##least##_##most(name, outputs)
#define TN_GRAPH_UNARY TN_GRAPH_PLAIN
#define TN_GRAPH_BINARY TN_GRAPH_PLAIN
#define TN_GRAPH_TERNARY TN_GRAPH_PLAIN
#define TN_GRAPH_REDUCTION(name, least, most, outputs)                                              \
  Value name(Value x, Ints axes, bool keepdims = false) {                                           \
    return self().node(Op::name, {x}, {{"axes", std::move(axes)}, {"keepdims", int64_t{keepdims}}}).front(); \
  }
#define TN_GRAPH_MATMUL TN_GRAPH_PLAIN
#define TN_GRAPH_CONV TN_GRAPH_PLAIN
#define TN_GRAPH_POOL TN_GRAPH_PLAIN
#define TN_GRAPH_NORM TN_GRAPH_PLAIN
#define TN_GRAPH_SOFTMAX TN_GRAPH_PLAIN
#define TN_GRAPH_LOSS TN_GRAPH_PLAIN
#define TN_GRAPH_ATTENTION TN_GRAPH_PLAIN
#define TN_GRAPH_INDEXING TN_GRAPH_PLAIN
#define TN_GRAPH_RANDOM TN_GRAPH_PLAIN
#define TN_GRAPH_MOVEMENT(name, least, most, outputs)  // below
#define TN_GRAPH_OPTIMIZER TN_GRAPH_PLAIN
#define TN_GRAPH_SCALING TN_GRAPH_PLAIN
#define TN_GRAPH_COLLECTIVE TN_GRAPH_PLAIN
#define TN_OP(number, name, version, inputs_min, inputs_max, outputs, family, dtypes, shape, tolerance, attributes, doc) \
  TN_GRAPH_##family(name, inputs_min, inputs_max, outputs)
#include <tenon/ops.def>
  // clang-format on

  Value cast(Value x, DType dtype) { return cast(x, Attributes{{"dtype", dtype}}); }
  Value scale(Value x, double factor, double bias = 0) {
    return scale(x, Attributes{{"bias", bias}, {"scale", factor}});
  }
  Value reshape(Value x, Ints shape) {
    return self().node(Op::reshape, {x}, {{"shape", std::move(shape)}}).front();
  }
  Value transpose(Value x, Ints order) {
    return self().node(Op::transpose, {x}, {{"order", std::move(order)}}).front();
  }
  Value concat(const std::vector<Value>& inputs, int64_t axis) {
    return self().node(Op::concat, std::span(inputs), {{"axis", axis}}).front();
  }
  Value slice(Value x, Ints begin, Ints end, Ints step) {
    return self()
        .node(Op::slice, {x},
              {{"begin", std::move(begin)}, {"end", std::move(end)}, {"step", std::move(step)}})
        .front();
  }
  Value pad(Value x, Ints before, Ints after, double value = 0) {
    return self()
        .node(Op::pad, {x}, {{"after", std::move(after)}, {"before", std::move(before)}, {"value", value}})
        .front();
  }
  Value broadcast_to(Value x, Ints shape) {
    return self().node(Op::broadcast_to, {x}, {{"shape", std::move(shape)}}).front();
  }
  Value convert_layout(Value x, std::string layout) {
    return self().node(Op::convert_layout, {x}, {{"layout", std::move(layout)}}).front();
  }
  // `value` everywhere. [one thread]
  Value constant(TensorSpec spec, double value) {
    const std::initializer_list<Value> none = {};
    return self()
        .node(Op::constant, none, {{"dtype", spec.dtype}, {"shape", std::move(spec.dims)}, {"value", value}})
        .front();
  }

 private:
  static constexpr uint32_t many = TN_OP_MANY;
  template <uint32_t outputs>
  static auto made(std::vector<Value> values) {
    if constexpr (outputs == 1) {
      return values.front();
    } else if constexpr (outputs == many) {
      return values;
    } else if constexpr (outputs != 0) {
      std::array<Value, outputs> all;
      for (size_t i = 0; i < outputs; ++i) all[i] = values[i];
      return all;
    }
  }

  Self& self() noexcept { return static_cast<Self&>(*this); }
};

// Building is for one thread; const functions may be called from any thread while nobody builds.
//
//   Graph g;
//   auto x = g.input("x", {bf16, {64, 1024}});
//   auto w = g.param("w", {bf16, {1024, 4096}});
//   auto loss = g.mean(g.relu(g.matmul(x, w)), {0, 1});
//   auto gradients = TN_TRY(g.gradients(loss, {w}));
//   g.output("loss", loss);
//   g.output("dw", gradients[0]);
//   TN_TRY(g.check());
class TN_API Graph : public GraphOps<Graph> {
 public:
  // A tensor of any graph has fewer elements than this.
  static constexpr uint64_t element_limit = uint64_t{1} << 40;

  enum class Role : uint8_t {
    input,     // bound anew at each run
    param,     // bound once and kept
    constant,  // bytes known now
    computed   // an output of a node
  };

  // What stands behind a handle.
  struct ValueInfo {
    std::string name{};
    TensorSpec spec{};
    Role role = Role::computed;
    uint32_t producer = TN_ABSENT;      // of a computed value: the node
    std::vector<uint32_t> users{};      // nodes that read it, in run order, each once
    std::vector<std::byte> constant{};  // of a constant: its dense bytes
  };
  // One op. Inputs and outputs index values(); TN_ABSENT marks an optional one that is left out. Attributes are complete
  // and sorted by name.
  struct Node {
    Op op{};
    std::vector<uint32_t> inputs{}, outputs{};
    Attributes attributes{};
  };
  struct Output {
    std::string name;
    uint32_t value = TN_ABSENT;
  };
  // Some nodes as a fragment, and which values its bindings are.
  struct Piece {
    Fragment fragment;
    std::vector<uint32_t> inputs, outputs;
  };
  // A box in a picture, around some nodes.
  struct Frame {
    std::string title{};
    std::vector<uint32_t> nodes{};
  };

  class Named;

  explicit Graph(std::string name = "");
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  // Leaves of the graph. Names are unique among values: letters, digits and any of "_./-". [one thread]
  Value input(std::string_view name, TensorSpec spec);
  Value param(std::string_view name, TensorSpec spec);
  // Bytes known now, dense, copied. [one thread]
  Value constant(std::string_view name, TensorSpec spec, std::span<const std::byte> bytes);
  using GraphOps::constant;

  // The same ops, with names for the outputs of the node; a value without a name is called by a number. [one thread]
  //   auto y = g.named("fc1").matmul(x, w);
  Named named(std::string_view first);
  Named named(std::initializer_list<std::string_view> names);
  Named named(std::vector<std::string> names);
  // Says how many ranks communicator `comm` has, which all_gather and reduce_scatter need. [one thread]
  Graph& communicator(int64_t comm, int64_t ranks);

  // Any op of ops.def. Value{} leaves an optional input out; outputs come in the op's order, Value{} for one that is left
  // out. A mistake in inputs or attributes is told by check(). [one thread]
  std::vector<Value> node(Op op, std::span<const Value> inputs, Attributes attributes = {});
  std::vector<Value> node(Op op, std::initializer_list<Value> inputs, Attributes attributes = {});
  // Marks a computed value as an output of the graph, each once; it is called as no input or param is. [one thread]
  void output(std::string_view name, Value value);

  // The first mistake: TN_INVALID naming node, op and shapes. [any-thread; does not block; may fail]
  Status check() const;

  // ∂of/∂each of `wrt`, as new nodes of this graph, in the order of `wrt`. `of` has one element, or `seed` is given: what
  // the gradient of `of` itself is. A value that `of` does not depend on has a gradient of zeros; types that are no floats
  // carry none. What is built as the gradient of 'fc1' is called 'fc1.grad', and what leads to it 'fc1.grad.1' and so on, by
  // numbers where such a name is taken; what only passes through an add keeps its name. TN_UNSUPPORTED naming the node and
  // input through which there is no rule (gradients.def), TN_INVALID for a mistake; the graph is then as before.
  // [one thread; does not block; may fail]
  Result<std::vector<Value>> gradients(Value of, std::span<const Value> wrt, Value seed = {});
  Result<std::vector<Value>> gradients(Value of, std::initializer_list<Value> wrt, Value seed = {});

  // The text form (docs/graph.md). Equal graphs give equal texts. [any-thread; does not block; cannot fail]
  std::string text() const;
  // The graph that `text` tells. TN_INVALID with line and column, what was expected and what was found.
  // [any-thread; does not block; may fail]
  static Result<Graph> parse(std::string_view text);
  // A picture for Graphviz. [any-thread; does not block; cannot fail]
  std::string dot() const;
  // The picture itself, as SVG, laid out here: from top to bottom, each node and leaf once, with a box around the nodes of
  // each frame. A node of several frames is in the first. [any-thread; does not block; cannot fail]
  std::string svg(std::span<const Frame> frames = {}) const;

  // The whole graph: inputs and parameters as they were declared, outputs as they were marked. TN_INVALID for a graph with
  // a mistake, without nodes or without outputs. [any-thread; does not block; may fail]
  Result<Piece> fragment() const;
  // Some nodes. Its inputs come in the order of first use, its outputs (what other nodes, the graph's outputs or other
  // ranks need) in the order they are made, so that equal pieces have equal identities. TN_INVALID for a node that is not there, or when
  // a path leaves the piece and enters it again. [any-thread; does not block; may fail]
  Result<Piece> fragment(std::span<const uint32_t> nodes) const;

  // [any-thread; does not block; cannot fail]
  const std::string& name() const noexcept;
  std::span<const ValueInfo> values() const noexcept;
  std::span<const Node> nodes() const noexcept;
  std::span<const Output> outputs() const noexcept;
  // How many ranks each communicator has, by number. [any-thread; does not block; cannot fail]
  const std::map<int64_t, int64_t>& communicators() const noexcept;
  // The handle of values()[index]. [any-thread; does not block; cannot fail]
  Value value(uint32_t index) const noexcept;
  // The type and dims of a value; of none when the handle is not this graph's. [any-thread; does not block; cannot fail]
  const TensorSpec& spec(Value value) const noexcept;

  struct State;

 private:
  explicit Graph(std::unique_ptr<State> state) noexcept;
  friend class GraphReader;
  std::unique_ptr<State> state_;
};

// A graph that names the node made through it. For one expression: it does not outlive its graph.
class TN_API Graph::Named : public GraphOps<Graph::Named> {
 public:
  // As Graph::node. [one thread]
  std::vector<Value> node(Op op, std::span<const Value> inputs, Attributes attributes = {});
  std::vector<Value> node(Op op, std::initializer_list<Value> inputs, Attributes attributes = {});

 private:
  friend class Graph;
  Named(State& state, std::vector<std::string> names) : state_(state), names_(std::move(names)) {}
  State& state_;
  std::vector<std::string> names_;
};

inline Graph::Named Graph::named(std::string_view first) { return {*state_, {std::string(first)}}; }
inline Graph::Named Graph::named(std::initializer_list<std::string_view> names) {
  return {*state_, {names.begin(), names.end()}};
}
inline Graph::Named Graph::named(std::vector<std::string> names) { return {*state_, std::move(names)}; }

}  // namespace tenon

#undef TN_GRAPH_P0
#undef TN_GRAPH_P1
#undef TN_GRAPH_P2
#undef TN_GRAPH_P3
#undef TN_GRAPH_P4
#undef TN_GRAPH_P5
#undef TN_GRAPH_P6
#undef TN_GRAPH_P7
#undef TN_GRAPH_P8
#undef TN_GRAPH_P9
#undef TN_GRAPH_L0
#undef TN_GRAPH_L1
#undef TN_GRAPH_L2
#undef TN_GRAPH_L3
#undef TN_GRAPH_L4
#undef TN_GRAPH_L5
#undef TN_GRAPH_L6
#undef TN_GRAPH_L7
#undef TN_GRAPH_L8
#undef TN_GRAPH_L9
#undef TN_GRAPH_OF
#undef TN_GRAPH_ALL_0_0
#undef TN_GRAPH_ALL_1_1
#undef TN_GRAPH_ALL_2_2
#undef TN_GRAPH_ALL_3_3
#undef TN_GRAPH_ALL_4_4
#undef TN_GRAPH_ALL_5_5
#undef TN_GRAPH_ALL_8_8
#undef TN_GRAPH_ALL_3_4
#undef TN_GRAPH_ALL_3_6
#undef TN_GRAPH_ALL_4_7
#undef TN_GRAPH_ALL_6_7
#undef TN_GRAPH_ALL_6_9
#undef TN_GRAPH_ALL_2_255
#undef TN_GRAPH_PLAIN
#undef TN_GRAPH_UNARY
#undef TN_GRAPH_BINARY
#undef TN_GRAPH_TERNARY
#undef TN_GRAPH_REDUCTION
#undef TN_GRAPH_MATMUL
#undef TN_GRAPH_CONV
#undef TN_GRAPH_POOL
#undef TN_GRAPH_NORM
#undef TN_GRAPH_SOFTMAX
#undef TN_GRAPH_LOSS
#undef TN_GRAPH_ATTENTION
#undef TN_GRAPH_INDEXING
#undef TN_GRAPH_RANDOM
#undef TN_GRAPH_MOVEMENT
#undef TN_GRAPH_OPTIMIZER
#undef TN_GRAPH_SCALING
#undef TN_GRAPH_COLLECTIVE
