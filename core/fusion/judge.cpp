// SPDX-License-Identifier: Apache-2.0
// judge.cpp: asking the device, once.
#include "fusion/judge.hpp"

#include "fusion/names.hpp"

namespace tenon::fusion {

Result<Support> Judge::support(std::span<const uint32_t> nodes) {
  const std::string& key = keys_.key(nodes);
  if (const auto known = answers_.find(key); known != answers_.end()) return known->second;
  const Graph::Piece piece = TN_TRY(graph_.fragment(nodes));
  ++questions_;
  auto answer = target_.supports(piece.fragment);
  if (answer.ok()) return answers_.emplace(key, std::move(answer).take()).first->second;
  // A device numbers the nodes of the piece that it is asked about.
  Error wrong = answer.error();
  wrong.message = called(graph_, nodes) + ": " + wrong.message;
  return Status(std::move(wrong));
}

Result<Opinion> Judge::ask(std::span<const uint32_t> nodes) {
  Opinion out;
  out.view = nodes.size() == 1 && costs_.is_view(nodes.front());
  out.support = TN_TRY(support(nodes));
  out.traffic = costs_.traffic(nodes);
  out.cost_ns = costs_.cost_ns(out.traffic);
  bool told = out.support.cost_ns > 0;
  double told_alone = 0;
  if (out.view) out.traffic = {}, out.cost_ns = 0;
  for (const uint32_t& node : nodes) {
    if (costs_.is_view(node)) continue;
    ++out.launches_alone;
    const std::span one(&node, 1);
    const Traffic traffic = costs_.traffic(one);
    out.bytes_alone += traffic.bytes;
    out.alone_ns += costs_.cost_ns(traffic);
    if (!told) continue;
    const double ns = nodes.size() == 1 ? out.support.cost_ns : TN_TRY(support(one))
    .cost_ns;
    told = ns > 0;
    told_alone += ns;
  }
  if (told && !out.view) {
    out.cost_ns = out.support.cost_ns;
    out.alone_ns = told_alone;
  }
  return out;
}

}  // namespace tenon::fusion
