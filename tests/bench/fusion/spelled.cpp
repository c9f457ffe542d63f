// SPDX-License-Identifier: Apache-2.0
// spelled.cpp: attention as people write it, products with a softmax between, and its gradients: as passes::attention has it, which asks
// the device what is quicker, beside the same as written. Scores of 4 × 12 × 512 × 512 are 50 MB of f32, and both ways together read or
// write such a square ten times and more.
#include "world.hpp"

#include <map>

namespace bench {
namespace {

using tenon::Graph;
using tenon::GraphValue;

constexpr int64_t batch = 4, heads = 12, length = 512, depth = 64;

Graph spelled(tenon::DType dtype) {
  Graph g("spelled");
  const TensorSpec rows{dtype, {batch, heads, length, depth}};
  const GraphValue q = g.param("q", rows), k = g.param("k", rows), v = g.param("v", rows),
                   dy = g.input("dy", rows);
  const GraphValue scores = g.scale(g.matmul(q, k, {{"transpose_b", int64_t{1}}}), 0.125);
  const GraphValue y = g.named("y").matmul(g.softmax(scores), v);
  const std::vector<GraphValue> gradients = must(g.gradients(y, {q, k, v}, dy));
  g.output("y", y);
  for (size_t i = 0; i < 3; ++i) g.output("d" + std::to_string(i), gradients[i]);
  must(g.check());
  return g;
}

// A plan and memory for its bindings.
class Planned {
 public:
  Planned(World& world, const tenon::passes::Rewritten& work)
      : world_(world), plan_(must(tenon::plan(work, world.device))) {
    for (const Graph::ValueInfo& info : plan_.graph().values()) {
      if (info.role == Graph::Role::input || info.role == Graph::Role::param) bind(info.name, info.spec);
    }
    for (const Graph::Output& output : plan_.graph().outputs())
      bind(output.name, plan_.graph().values()[output.value].spec);
  }
  void run() {
    must(plan_.run(world_.stream, bindings_));
    must(world_.stream.sync());
  }
  template <class T>
  T* at(const std::string& name) const {
    return reinterpret_cast<T*>(must(memory_.at(name).address()));
  }

 private:
  void bind(const std::string& name, const TensorSpec& spec) {
    tenon::Buffer& buffer = memory_[name] = must(world_.device.allocate(world_.stream, spec.bytes()));
    world_.fill(buffer, spec.dtype);
    bindings_.push_back({memory_.find(name)->first, buffer});
  }

  World& world_;
  tenon::Plan plan_;
  std::map<std::string, tenon::Buffer> memory_{};
  std::vector<tenon::Binding> bindings_{};
};

template <class T>
void row(const std::string& name, tenon::DType dtype) {
  World world;
  const Graph graph = spelled(dtype);
  const auto supports = must(tenon::fusion_target(world.device)).supports;
  Planned ours(world, must(tenon::passes::attention(graph, {.supports = supports}))), theirs(world, graph);
  Contest contest{.name = name,
                  .peer = "as written",
                  .ours = [&] { ours.run(); },
                  .theirs = [&] { theirs.run(); },
                  .theirs_launches = true};
  limit_by_products(contest, dtype, 7 * 2.0 * batch * heads * length * length * depth);
  const Row measured_row = measured(world, contest);
  for (const char* output : {"y", "d0", "d1", "d2"})
    check_agreement(ours.at<T>(output), theirs.at<T>(output), batch * heads * length * depth);
  print_with_rivals(measured_row);
}

}  // namespace

void spelled_rows() {
  attempt("attention_spelled/f32", [] { row<float>("attention_spelled/f32", tenon::f32); });
  attempt("attention_spelled/bf16", [] { row<uint16_t>("attention_spelled/bf16", tenon::bf16); });
}

}  // namespace bench
