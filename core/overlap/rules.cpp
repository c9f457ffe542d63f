// SPDX-License-Identifier: Apache-2.0
// rules.cpp: the rules of rules.hpp.
#include "overlap/rules.hpp"

#include <algorithm>
#include <numeric>

namespace tenon::overlap {
namespace {

void close_last(Cuts& cuts, size_t pieces) {
  if (pieces > 0 && (cuts.empty() || cuts.back() != pieces)) cuts.push_back(static_cast<uint32_t>(pieces));
}

}  // namespace

Cuts floors(std::span<const Piece> pieces, uint64_t first, uint64_t then) {
  Cuts cuts;
  uint64_t held = 0;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    held += pieces[i].bytes;
    if (held < (cuts.empty() ? first : then)) continue;
    cuts.push_back(i + 1);
    held = 0;
  }
  close_last(cuts, pieces.size());
  return cuts;
}

Cuts groups_of_layers(std::span<const Piece> pieces, std::span<const Gradient> gradients, uint64_t bytes,
                      uint32_t most) {
  Cuts cuts;
  uint64_t held = 0;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    held += pieces[i].bytes;
    const bool layer_ends = i + 1 == pieces.size() || layer_of(gradients[pieces[i].gradient]) !=
                                                          layer_of(gradients[pieces[i + 1].gradient]);
    const uint32_t count = i + 1 - (cuts.empty() ? 0 : cuts.back());
    if (!layer_ends || (held < bytes && count <= most)) continue;
    cuts.push_back(i + 1);
    held = 0;
  }
  close_last(cuts, pieces.size());
  return cuts;
}

Cuts merged_gradually(std::span<const Piece> pieces, const CostTable& cost) {
  Cuts cuts;
  uint64_t held = 0;
  double start = 0, link_free = 0;
  for (uint32_t i = 0; i + 1 < pieces.size(); ++i) {
    held += pieces[i].slot;
    start = std::max(link_free, pieces[i].ready);
    const double next = pieces[i + 1].ready, end = start + cost.ns(held);
    if (next < end && (start > next || next - start < cost.latency_ns())) continue;
    cuts.push_back(i + 1);
    link_free = end;
    held = 0;
  }
  close_last(cuts, pieces.size());
  return cuts;
}

Cuts one_each(std::span<const Piece> pieces) {
  Cuts cuts(pieces.size());
  std::iota(cuts.begin(), cuts.end(), 1u);
  return cuts;
}

Cuts all_in_one(std::span<const Piece> pieces) {
  Cuts cuts;
  close_last(cuts, pieces.size());
  return cuts;
}

}  // namespace tenon::overlap
