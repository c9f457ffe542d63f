// SPDX-License-Identifier: Apache-2.0
// Two pieces have equal keys exactly when they are equal fragments.
#include "fusion/piece_key.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "unit/fusion/graphs.hpp"

#include <map>

using namespace tenon;
using namespace tenon::test;

TEST_CASE("piece key: as many keys as fragments, over random pieces of random graphs") {
  auto numbers = generator();
  const int graphs = full_or("random graphs", 30, 300);
  for (int i = 0; i < graphs; ++i) {
    const Graph g = random_graph(numbers, 40);
    fusion::PieceKeys keys(g);
    std::map<std::string, Identity> fragment_of;
    std::map<Identity, std::string> key_of;
    for (uint32_t first = 0; first < g.nodes().size(); ++first) {
      for (uint32_t count = 1; count <= 3 && first + count <= g.nodes().size(); ++count) {
        Indexes nodes;
        for (uint32_t k = 0; k < count; ++k) nodes.push_back(first + k);
        const auto piece = g.fragment(nodes);
        if (!piece.ok()) continue;  // nothing of it is needed
        const std::string key = keys.key(nodes);
        const Identity identity = piece->fragment.identity();
        CHECK(fragment_of.emplace(key, identity).first->second == identity);
        CHECK(key_of.emplace(identity, key).first->second == key);
      }
    }
    CHECK(key_of.size() > 3);
  }
}

TEST_CASE("piece key: an attribute, a shape, a type, a constant and who reads a value make a difference") {
  Graph g;
  const auto x = g.input("x", {f32, {4, 4}}), h = g.input("h", {f16, {4, 4}}), r = g.input("r", {f32, {4}});
  const float one = 1, two = 2;
  const auto k1 = g.constant("k1", {f32, {}}, std::as_bytes(std::span(&one, 1)));
  const auto k2 = g.constant("k2", {f32, {}}, std::as_bytes(std::span(&two, 1)));
  const Graph::Value made[] = {g.softmax(x), g.softmax(x, {{"axis", int64_t{0}}}),
                               g.exp(x),     g.exp(h),
                               g.exp(r),     g.add(x, k1),
                               g.add(x, k2), g.add(x, x)};
  fusion::PieceKeys keys(g);
  std::map<std::string, int> seen;
  for (uint32_t node = 0; node < std::size(made); ++node) ++seen[keys.key(std::span(&node, 1))];
  CHECK(seen.size() == std::size(made));
}
