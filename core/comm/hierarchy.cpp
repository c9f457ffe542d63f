// SPDX-License-Identifier: Apache-2.0
// hierarchy.cpp: how a hierarchy is made: places, groups, communicators, costs; and what it tells.
//
// Invariant: for a host-staged communicator the hierarchy is built in host memory and staged as a whole: bytes travel to and
// from the device once, not once for each step.
#include "comm/grouping.hpp"
#include "comm/hierarchical.hpp"
#include "comm/measure.hpp"
#include "comm/staged.hpp"
#include "comm/words.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace tenon {
namespace {

using comm::Hierarchical;
using comm::Staged;

// Options that did not take effect, with the reason.
void note_what_cannot_be(const HierarchyOptions& options, Hierarchy::State& state) {
  if (!options.route || *options.route == Route::flat) return;
  const std::string asked(name(*options.route));
  if (!state.by_leaders) {
    state.notes.push_back(
        {"route = " + asked, "flat",
         state.groups.size() == 1 ? "all ranks are in one group" : "no group has two ranks"});
  } else if (*options.route == Route::sharded && !state.by_shards) {
    state.notes.push_back({"route = " + asked, "leaders", "groups are of several sizes"});
  }
  if (state.by_leaders && state.deterministic)
    state.notes.push_back({"route = " + asked, "flat for all but whole numbers", "deterministic"});
}

std::vector<Route> routes_to_measure(const Hierarchy::State& state) {
  std::vector<Route> routes{Route::flat};
  if (state.by_leaders) routes.push_back(Route::leaders);
  if (state.by_shards) routes.push_back(Route::sharded);
  return routes;
}

Status check_costs(std::span<const CommTarget::Measured> costs) {
  for (const CommTarget::Measured& measured : costs) {
    const auto same = [&](const CommTarget::Measured& other) { return other.route == measured.route; };
    if (!measured.cost || std::count_if(costs.begin(), costs.end(), same) != 1)
      return Status(TN_INVALID, "HierarchyOptions::costs has route " + std::string(name(measured.route)) +
                                    (measured.cost ? " twice" : " without points"));
  }
  return {};
}

}  // namespace

Result<Hierarchy> Hierarchy::create(const Communicator& world, HierarchyOptions options) {
  TN_TRY(check_costs(options.costs));
  const auto& flat = world.state();
  const auto staged = std::dynamic_pointer_cast<Staged>(flat);
  const auto below = staged ? staged->carrying() : flat;
  if (std::dynamic_pointer_cast<Hierarchical>(below))
    return Status(TN_INVALID, "communicator '" + flat->options.name +
                                  "' is one of groups already: make another from the communicator below");
  const std::string hierarchies = flat->key + "/hierarchy";
  const uint64_t number = flat->store.state()->next(hierarchies, flat->rank);
  auto places = TN_TRY(comm::exchange(comm::here(*flat->device, options.group), *flat,
                                      hierarchies + "/" + std::to_string(number) + "/place"));
  auto state = TN_TRY(comm::grouped(std::move(places.of), options));
  state->number = number;
  state->keeper = places.keeper;
  std::shared_ptr<detail::CommState> whole = TN_TRY(Hierarchical::over(below, state));
  note_what_cannot_be(options, *state);
  if (staged) whole = TN_TRY(Staged::over(flat->device, std::move(whole)));
  if (!options.costs.empty()) {
    state->costs = std::move(options.costs);
  } else if (state->by_leaders && !options.route) {
    state->costs = TN_TRY(comm::measure(*whole, routes_to_measure(*state), options.measured_bytes));
  }
  Hierarchy made(Communicator(std::move(whole)), std::move(state));
  flat->device->log(LogLevel::info, "communicator '" + flat->options.name + "': " + made.summary());
  return made;
}

Status Hierarchy::submit(Stream& stream, std::span<const CommOp> group, Route route) {
  return whole_.state()->submit(stream, group, route);
}

Route Hierarchy::route_of(const CommOp& op) const noexcept { return state_->route(op.abi, std::nullopt); }
Route Hierarchy::route_of(const CommOp& op, Route asked) const noexcept {
  return state_->route(op.abi, asked);
}
std::span<const Placement> Hierarchy::placements() const noexcept { return state_->placements; }
std::span<const std::vector<uint32_t>> Hierarchy::groups() const noexcept { return state_->groups; }
std::span<const uint32_t> Hierarchy::leaders() const noexcept { return state_->leaders; }
uint32_t Hierarchy::ranks_per_group() const noexcept { return state_->ranks_per_group; }
std::span<const CommTarget::Measured> Hierarchy::costs() const noexcept { return state_->costs; }
std::span<const Hierarchy::Note> Hierarchy::notes() const noexcept { return state_->notes; }

std::string Hierarchy::summary() const {
  const State& s = *state_;
  std::string out =
      base::counted(s.placements.size(), "rank") + " in " + base::counted(s.groups.size(), "group");
  out += s.ranks_per_group != 0 ? " of " + std::to_string(s.ranks_per_group) : " of several sizes";
  out +=
      ", led by " + comm::listed(s.leaders) + "; hierarchical_allreduce_inter_nranks = " +
      (s.asked_per_group != 0 ? std::to_string(s.asked_per_group) + " (ranks of a group; the leaders are " +
                                    std::to_string(s.leaders.size()) + ")"
                              : "0 (groups by place)");
  if (s.forced) out += "; route " + std::string(name(*s.forced));
  for (const Note& note : s.notes) out += "; " + note.option + " → " + note.effective + ": " + note.reason;
  return out;
}

}  // namespace tenon
