// SPDX-License-Identifier: Apache-2.0
// grouping.cpp: see grouping.hpp.
#include "comm/grouping.hpp"

#include "base/text.hpp"
#include "comm/roll_call.hpp"
#include "comm/words.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

namespace tenon {
namespace {

bool whole_numbers(uint32_t dtype) noexcept {
  switch (static_cast<DType>(dtype)) {
    case f16:
    case bf16:
    case f32:
    case f64:
      return false;
    default:
      return true;
  }
}

// Measured costs differ by as much for no reason.
constexpr double as_good = 1.05;

double cost_of(Route route, std::span<const CommTarget::Measured> costs, uint64_t bytes) noexcept {
  for (const CommTarget::Measured& measured : costs)
    if (measured.route == route) return measured.cost.ns(bytes);
  return std::numeric_limits<double>::infinity();
}

// Where leaders seem no better than what spreads the work over all ranks of a group, that is taken: it bears larger sizes than were
// measured, and faster links, better.
Route cheapest(std::span<const CommTarget::Measured> costs, uint64_t bytes) noexcept {
  const double flat = cost_of(Route::flat, costs, bytes), leaders = cost_of(Route::leaders, costs, bytes),
               sharded = cost_of(Route::sharded, costs, bytes);
  if (std::min(leaders, sharded) >= flat) return Route::flat;
  return sharded <= leaders * as_good ? Route::sharded : Route::leaders;
}

}  // namespace

Route Hierarchy::State::route(const tn_comm_op& op, std::optional<Route> asked) const noexcept {
  if (op.kind != TN_COMM_ALL_REDUCE || !by_leaders) return Route::flat;
  const bool whole = whole_numbers(op.dtype);
  if (deterministic && !whole) return Route::flat;
  if (op.reduce == TN_REDUCE_AVG && (whole || !scales)) return Route::flat;
  Route chosen = Route::flat;
  if (asked || forced) {
    chosen = asked ? *asked : *forced;
  } else {
    chosen = cheapest(costs, op.count * (bits(static_cast<DType>(op.dtype)) / 8));
  }
  return chosen == Route::sharded && !by_shards ? Route::leaders : chosen;
}

}  // namespace tenon

namespace tenon::comm {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Status wrong(const std::string& option, const std::string& why) {
  return Status(TN_INVALID, "HierarchyOptions::" + option + " " + why);
}

std::vector<std::vector<uint32_t>> by_number(uint32_t size, uint32_t per_group) {
  std::vector<std::vector<uint32_t>> groups(size / per_group);
  for (uint32_t rank = 0; rank < size; ++rank) groups[rank / per_group].push_back(rank);
  return groups;
}

bool together(const Placement& a, const Placement& b) {
  if (a.group != b.group) return false;
  return !a.group.empty() || (a.host == b.host && a.boot == b.boot);
}

std::vector<std::vector<uint32_t>> by_place(std::span<const Placement> placements) {
  std::vector<std::vector<uint32_t>> groups;
  for (uint32_t rank = 0; rank < placements.size(); ++rank) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<uint32_t>& group) {
      return together(placements[group.front()], placements[rank]);
    });
    if (same == groups.end())
      groups.push_back({rank});
    else
      same->push_back(rank);
  }
  return groups;
}

Result<std::vector<uint32_t>> leaders_of(std::span<const std::vector<uint32_t>> groups,
                                         std::span<const uint32_t> asked) {
  std::vector<uint32_t> leaders;
  for (const std::vector<uint32_t>& group : groups) {
    if (asked.empty()) {
      leaders.push_back(group.front());
      continue;
    }
    const auto leads = [&](uint32_t rank) {
      return std::find(asked.begin(), asked.end(), rank) != asked.end();
    };
    const auto first = std::find_if(group.begin(), group.end(), leads);
    if (std::count_if(group.begin(), group.end(), leads) != 1)
      return wrong("leaders", "(" + listed(asked) + ") must hold one rank of each group, and of ranks " +
                                  listed(group) + " it holds " +
                                  (first == group.end() ? "none" : "more than one"));
    leaders.push_back(*first);
  }
  if (!asked.empty() && asked.size() != leaders.size())
    return wrong("leaders", "(" + listed(asked) + ") has " + std::to_string(asked.size()) + " ranks for " +
                                base::counted(groups.size(), "group") + ": name one of each");
  return leaders;
}

}  // namespace

Placement here(const detail::DeviceState& device, std::string group) {
  return {.host = first_line("/proc/sys/kernel/hostname"),
          .boot = first_line("/proc/sys/kernel/random/boot_id"),
          .numa_node = device.info.numa_node,
          .device = device.name,
          .group = std::move(group)};
}

Result<Places> exchange(const Placement& own, detail::CommState& comm, const std::string& base) {
  const std::vector<std::string> lines{own.host,   own.boot,  std::to_string(own.numa_node),
                                       own.device, own.group, comm.store.state()->serves() ? "keeper" : ""};
  for (const std::string& line : lines) {
    if (line.find('\n') != std::string::npos)
      return wrong("group", base::quoted(line) + " has more than one line");
  }
  const std::vector<std::string> said =
      TN_TRY(roll_call(comm, base, base::join(lines, "\n"),
                       {"its hierarchy", "all ranks call Hierarchy::create, in the order of its others"}));
  Places all;
  for (uint32_t q = 0; q < comm.size; ++q) {
    std::vector<std::string> parts = base::split(said[q], '\n');
    if (parts.size() != lines.size())
      return Status(TN_INVALID, "rank " + std::to_string(q) + " says that it is at " + base::quoted(said[q]));
    Placement place{.host = parts[0], .boot = parts[1], .device = parts[3], .group = parts[4]};
    std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), place.numa_node);
    all.of.push_back(std::move(place));
    if (!parts[5].empty()) all.keeper = q;
  }
  return all;
}

Result<std::shared_ptr<Hierarchy::State>> grouped(std::vector<Placement> placements,
                                                  const HierarchyOptions& options) {
  auto state = std::make_shared<Hierarchy::State>();
  const auto size = static_cast<uint32_t>(placements.size());
  const uint32_t asked = options.hierarchical_allreduce_inter_nranks;
  if (asked != 0 && size % asked != 0)
    return wrong("hierarchical_allreduce_inter_nranks",
                 "= " + std::to_string(asked) + " does not divide the " + base::counted(size, "rank") +
                     ": it is the ranks of one group");
  state->groups = asked != 0 ? by_number(size, asked) : by_place(placements);
  state->placements = std::move(placements);
  state->leaders = TN_TRY(leaders_of(state->groups, options.leaders));
  state->asked_per_group = asked;
  state->forced = options.route;
  const size_t first = state->groups.front().size();
  const bool even = std::all_of(state->groups.begin(), state->groups.end(),
                                [&](const auto& group) { return group.size() == first; });
  state->ranks_per_group = even ? static_cast<uint32_t>(first) : 0;
  return state;
}

}  // namespace tenon::comm
