// SPDX-License-Identifier: Apache-2.0
// random_graph_attention.hpp: attention in a random graph, as people write it: two products, and between them what they write there.
//
// Invariant: no row sees nothing, so every number is finite.
#pragma once

#include "support/random_graph_draws.hpp"

namespace tenon::test {

class AttentionSteps : protected Draws {
 protected:
  using Draws::Draws;

  // Of rank 3 or 4. Shares that are seen or thinned, and masks that are trained, keep it as it is written.
  Value spelled_out();

 private:
  Value scaled(Value scores);
  Value hidden(Value scores, int64_t queries, int64_t keys);
};

}  // namespace tenon::test
