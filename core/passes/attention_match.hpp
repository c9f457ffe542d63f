// SPDX-License-Identifier: Apache-2.0
// attention_match.hpp: attention that a graph writes as two products with a softmax between, and the way back through it.
//
// Invariant: a match names every node that goes, and what these make is read by nobody else.
#pragma once

#include <tenon/graph.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tenon::passes {

// y = softmax(q · kᵀ · scale + mask) · v. Numbers are of values where nothing else is said.
struct AttentionMatch {
  // From the gradient of y to those of q, k and v, of which some may be absent.
  struct WayBack {
    uint32_t first = TN_ABSENT;  // the first node that reads dy
    uint32_t dy = TN_ABSENT, dq = TN_ABSENT, dk = TN_ABSENT, dv = TN_ABSENT;
  };

  uint32_t q = TN_ABSENT, k = TN_ABSENT, v = TN_ABSENT, scores = TN_ABSENT, y = TN_ABSENT;
  bool is_k_turned = false;  // k is [D, T], as its product reads it
  double scale = 1;
  uint32_t mask = TN_ABSENT;  // is added to what is scaled
  // A bool: scores are seen where it is `when`; elsewhere they are -∞, or as good as that.
  uint32_t shown = TN_ABSENT;
  bool when = true;
  uint32_t product = TN_ABSENT;   // the node that makes y
  std::vector<uint32_t> nodes{};  // all of it, ascending
  std::optional<WayBack> back{};
};

// A softmax that stands between two products.
struct AttentionFinding {
  uint32_t softmax = TN_ABSENT;  // the node
  AttentionMatch match{};
  std::string why_not{};  // it is no attention; "": it is
};

// In the order of their softmaxes. [any-thread; does not block; cannot fail]
std::vector<AttentionFinding> find_attention(const Graph& graph);

}  // namespace tenon::passes
