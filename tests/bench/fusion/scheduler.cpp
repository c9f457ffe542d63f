// SPDX-License-Identifier: Apache-2.0
// scheduler.cpp: cutting and explaining graphs of 1,000 to 100,000 nodes, with a device that answers at once: what is measured
// is the scheduler alone. Two families: blocks as networks have them, and nodes that differ in shape all over, so that no
// answer is known before.
#include "rows.hpp"

#include "../../support/blocks.hpp"

#include <tenon/fusion.hpp>

#include <cstdio>
#include <cstdlib>

namespace bench {
namespace {

using namespace tenon;

// Blocks of as many widths as there are of them.
Graph shapes(size_t nodes) {
  Graph g("shapes");
  int64_t width = 16;
  while (g.nodes().size() < nodes) {
    const auto x = g.input("x" + std::to_string(width), {f32, {8, width}});
    const auto h = g.gelu(g.add(g.softmax(x), x));
    g.output("y" + std::to_string(width), g.mul(h, g.mean(g.square(g.sub(h, x)), {1}, true)));
    ++width;
  }
  return g;
}

FusionTarget willing() {
  FusionTarget target{.device = "any:0", .launch_ns = 5000, .bytes_per_ns = 10};
  target.supports = [](const Fragment&) -> Result<Support> { return Support{.verdict = Verdict::native}; };
  return target;
}

Row measured(const std::string& name, const Graph& graph) {
  const FusionTarget target = willing();
  size_t length = 0;
  Row row = alone(name, 1, [&] {
    const auto cut = fuse(graph, target);
    if (!cut.ok()) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), cut.error().message.c_str());
      std::exit(1);
    }
    length += explain(graph, target, *cut).size();
  });
  std::fprintf(stderr, "%s: %zu nodes, %zu bytes of explanation\n", name.c_str(), graph.nodes().size(),
               length / (runs + 1));
  for (double& ns : row.ours) ns /= 1e6;
  row.unit = "ms";
  return row;
}

}  // namespace

void scheduler_rows() {
  for (const size_t nodes : {1'000, 10'000, 100'000}) {
    const std::string count = std::to_string(nodes / 1000) + "k";
    print(measured("fuse/blocks/" + count, test::blocks(nodes)));
    print(measured("fuse/shapes/" + count, shapes(nodes)));
  }
}

}  // namespace bench
