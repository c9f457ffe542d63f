// SPDX-License-Identifier: Apache-2.0
// graphs.cpp: writes a model's training step as text, for `tenon explain` and for whoever wants to read one.
//
//   graphs resnet50 > resnet50.tg && tenon explain resnet50.tg
#include "models.hpp"

#include <cstdio>
#include <string_view>

namespace {

int tell(const tenon::Result<tenon::Graph>& graph) {
  if (!graph.ok()) {
    std::fprintf(stderr, "graphs: %s\n", graph.error().message.c_str());
    return 1;
  }
  std::fputs(graph->text().c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  if (wanted == "resnet50") return tell(resnet50(16));
  if (wanted == "transformer") return tell(transformer(4, 128, 256, 4, 2, 1024));
  const auto small = transformer(1, 8, 16, 2, 1, 32);
  if (!small.ok()) return tell(small);
  std::printf(
      "usage: graphs resnet50|transformer\nA small transformer's step has %zu nodes and %zu values.\n",
      small->nodes().size(), small->values().size());
  return wanted.empty() ? 0 : 2;
}
