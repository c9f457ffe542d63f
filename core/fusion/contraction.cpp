// SPDX-License-Identifier: Apache-2.0
// contraction.cpp: joining groups under an order that is kept.
#include "fusion/contraction.hpp"

#include <algorithm>

namespace tenon::fusion {
namespace {

// Room between places for the parts of groups that are cut again.
constexpr uint64_t gap = uint64_t{1} << 24;

}  // namespace

Contraction::Contraction(const Graph& graph)
    : graph_(graph),
      group_of_(graph.nodes().size()),
      nodes_(graph.nodes().size()),
      place_(graph.nodes().size()),
      mark_(graph.nodes().size(), Mark::none),
      came_from_(graph.nodes().size(), TN_ABSENT) {
  for (uint32_t i = 0; i < group_of_.size(); ++i) {
    group_of_[i] = i;
    nodes_[i] = {i};
    place_[i] = i * gap;
  }
}

// Groups that read what `group` makes; one may come several times.
template <class Visit>
void Contraction::for_users(uint32_t group, Visit&& visit) const {
  for (const uint32_t node : nodes_[group]) {
    for (const uint32_t value : graph_.nodes()[node].outputs) {
      if (value == TN_ABSENT) continue;
      for (const uint32_t user : graph_.values()[value].users) visit(group_of_[user]);
    }
  }
}

// Groups whose values `group` reads.
template <class Visit>
void Contraction::for_sources(uint32_t group, Visit&& visit) const {
  for (const uint32_t node : nodes_[group]) {
    for (const uint32_t value : graph_.nodes()[node].inputs) {
      const uint32_t producer = value == TN_ABSENT ? TN_ABSENT : graph_.values()[value].producer;
      if (producer != TN_ABSENT) visit(group_of_[producer]);
    }
  }
}

// Collects what depends on the groups and stands before the last of them; false when that is one of them again.
bool Contraction::find_after(std::span<const uint32_t> groups, uint32_t limit, Outcome& outcome) {
  std::vector<uint32_t> open(groups.rbegin(), groups.rend());
  while (!open.empty()) {
    const uint32_t from = open.back();
    open.pop_back();
    const bool inside = mark_[from] == Mark::inside;
    bool comes_back = false;
    for_users(from, [&](uint32_t to) {
      if (comes_back || to == from || place_[to] > last_) return;
      if (mark_[to] == Mark::inside) {
        comes_back = !inside;
      } else if (mark_[to] == Mark::none) {
        mark_[to] = Mark::after;
        came_from_[to] = from;
        after_.push_back(to);
        open.push_back(to);
      }
    });
    if (comes_back) {
      outcome.path = path_to(from);
      return false;
    }
    if (after_.size() > limit) {
      outcome.gave_up = true;
      return false;
    }
  }
  return true;
}

// Collects what the groups depend on and stands behind the first of them. No path comes back: find_after has looked.
bool Contraction::find_before(std::span<const uint32_t> groups, uint32_t limit, Outcome& outcome) {
  std::vector<uint32_t> open(groups.rbegin(), groups.rend());
  while (!open.empty()) {
    const uint32_t to = open.back();
    open.pop_back();
    for_sources(to, [&](uint32_t from) {
      if (place_[from] < first_ || mark_[from] != Mark::none) return;
      mark_[from] = Mark::before;
      before_.push_back(from);
      open.push_back(from);
    });
    if (before_.size() > limit) {
      outcome.gave_up = true;
      return false;
    }
  }
  return true;
}

// One node of each group on the way from the joined ones to `last`.
std::vector<uint32_t> Contraction::path_to(uint32_t last) const {
  std::vector<uint32_t> path;
  for (uint32_t group = last; mark_[group] == Mark::after; group = came_from_[group]) {
    path.push_back(nodes_[group].front());
  }
  std::reverse(path.begin(), path.end());
  return path;
}

// What comes before takes the first places of all that move, what comes after the last.
void Contraction::reorder(uint32_t joined) {
  const auto by_place = [&](uint32_t a, uint32_t b) { return place_[a] < place_[b]; };
  std::sort(before_.begin(), before_.end(), by_place);
  std::sort(after_.begin(), after_.end(), by_place);
  std::vector<uint64_t> places;
  for (const uint32_t group : before_) places.push_back(place_[group]);
  for (const uint32_t group : after_) places.push_back(place_[group]);
  // Of the joined groups' own places the last one stays; all of `before` stood before it, and it is enough for one group.
  places.push_back(last_);
  std::sort(places.begin(), places.end());
  size_t next = 0;
  for (const uint32_t group : before_) place_[group] = places[next++];
  place_[joined] = places[next++];
  for (const uint32_t group : after_) place_[group] = places[next++];
}

void Contraction::clear_marks(std::span<const uint32_t> groups) {
  for (const uint32_t group : groups) mark_[group] = Mark::none;
  for (const uint32_t group : before_) mark_[group] = Mark::none;
  for (const uint32_t group : after_) mark_[group] = Mark::none;
  before_.clear();
  after_.clear();
}

Contraction::Outcome Contraction::join(std::span<const uint32_t> groups, uint32_t limit) {
  Outcome outcome;
  first_ = UINT64_MAX;
  last_ = 0;
  for (const uint32_t group : groups) {
    mark_[group] = Mark::inside;
    first_ = std::min(first_, place_[group]);
    last_ = std::max(last_, place_[group]);
  }
  if (find_after(groups, limit, outcome) && find_before(groups, limit, outcome)) {
    const uint32_t joined = *std::min_element(groups.begin(), groups.end());
    reorder(joined);
    for (const uint32_t group : groups) {
      if (group == joined) continue;
      std::vector<uint32_t> nodes = std::move(nodes_[group]);
      nodes_[group].clear();
      for (const uint32_t node : nodes) group_of_[node] = joined;
      nodes_[joined].insert(nodes_[joined].end(), nodes.begin(), nodes.end());
    }
    std::sort(nodes_[joined].begin(), nodes_[joined].end());
    outcome.done = true;
  }
  clear_marks(groups);
  return outcome;
}

uint32_t Contraction::split(uint32_t group, size_t count) {
  std::vector<uint32_t>& nodes = nodes_[group];
  // A group is called by its smallest node, so the second part's name is free.
  const uint32_t second = nodes[count];
  nodes_[second].assign(nodes.begin() + static_cast<std::ptrdiff_t>(count), nodes.end());
  nodes.resize(count);
  for (const uint32_t node : nodes_[second]) group_of_[node] = second;
  place_[second] =
      place_[group] + count;  // how many nodes of the uncut group stand before it: no two parts agree
  return second;
}

std::vector<uint32_t> Contraction::in_order() const {
  std::vector<uint32_t> groups;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].empty()) groups.push_back(i);
  }
  std::sort(groups.begin(), groups.end(), [&](uint32_t a, uint32_t b) { return place_[a] < place_[b]; });
  return groups;
}

}  // namespace tenon::fusion
