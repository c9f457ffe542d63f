// SPDX-License-Identifier: Apache-2.0
// hierarchical.cpp: see hierarchical.hpp.
//
// Invariant: once one step of a group was submitted, the rest follows or the communicator ends: others count on it.
#include "comm/hierarchical.hpp"

#include "comm/words.hpp"

#include <algorithm>

namespace tenon::comm {
namespace {

constexpr uint64_t bit(uint32_t number) noexcept { return uint64_t{1} << number; }

// Where `rank` is in `ranks`.
uint32_t place_of(uint32_t rank, std::span<const uint32_t> ranks) noexcept {
  return static_cast<uint32_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

const std::vector<uint32_t>& group_of(uint32_t rank, const Hierarchy::State& state) noexcept {
  return *std::find_if(state.groups.begin(), state.groups.end(), [&](const std::vector<uint32_t>& group) {
    return std::find(group.begin(), group.end(), rank) != group.end();
  });
}

uint32_t leader_in(std::span<const uint32_t> group, const Hierarchy::State& state) noexcept {
  return static_cast<uint32_t>(
      std::find_first_of(group.begin(), group.end(), state.leaders.begin(), state.leaders.end()) -
      group.begin());
}

// The ranks with the shard of `member`, one of each group.
std::vector<uint32_t> shard_ranks(uint32_t member, const Hierarchy::State& state) {
  std::vector<uint32_t> ranks;
  for (const std::vector<uint32_t>& group : state.groups) ranks.push_back(group[member]);
  return ranks;
}

// Which routes there are, by what the communicators take.
void find_routes(const tn_comm_limits& limits, Hierarchy::State& state) {
  const auto takes = [&](uint32_t kind) { return (limits.kind_mask & bit(kind)) != 0; };
  const bool grouped = state.groups.size() > 1 && state.groups.size() < state.placements.size();
  state.scales = (limits.reduce_mask & bit(TN_REDUCE_PREMUL_SUM)) != 0;
  state.by_leaders = grouped && takes(TN_COMM_ALL_REDUCE) && takes(TN_COMM_BROADCAST);
  state.by_shards = state.by_leaders && state.ranks_per_group != 0 && takes(TN_COMM_REDUCE) &&
                    takes(TN_COMM_REDUCE_SCATTER) && takes(TN_COMM_ALL_GATHER);
}

bool has_messages(std::span<const CommOp> ops) noexcept {
  return std::any_of(ops.begin(), ops.end(), [](const CommOp& op) { return is_message(op.abi.kind); });
}

}  // namespace

Hierarchical::Hierarchical(std::shared_ptr<CommState> flat, std::shared_ptr<Hierarchy::State> state)
    : CommState(flat->device, flat->store),
      flat_(std::move(flat)),
      state_(std::move(state)),
      watch_(*flat_, flat_->key + "/hierarchy/" + std::to_string(state_->number), state_->keeper) {
  rank = flat_->rank;
  size = flat_->size;
  options = flat_->options;
  key = flat_->key;
  limits = flat_->limits;
}

// The watch goes first: parts that end one after the other are no trouble.
Hierarchical::~Hierarchical() { watch_.leave(); }

Result<std::shared_ptr<Hierarchical>> Hierarchical::over(std::shared_ptr<CommState> flat,
                                                         std::shared_ptr<Hierarchy::State> state) {
  state->deterministic = flat->options.deterministic;
  find_routes(flat->limits, *state);
  auto made = std::make_shared<Hierarchical>(std::move(flat), std::move(state));
  TN_TRY(made->gather());
  return made;
}

// Makes the communicators inside, on all ranks in this order.
Status Hierarchical::gather() {
  std::vector<Watch::Part> parts{{flat_, {}}};
  if (state_->by_leaders) {
    const std::vector<uint32_t>& group = group_of(rank, *state_);
    seat_ = {.size = size,
             .member = place_of(rank, group),
             .members = static_cast<uint32_t>(group.size()),
             .leader = leader_in(group, *state_),
             .reduces = (limits.kind_mask & bit(TN_COMM_REDUCE)) != 0};
    const auto join = [&](std::shared_ptr<CommState>& part, std::span<const uint32_t> ranks,
                          const std::string& called) -> Status {
      part = TN_TRY(flat_->part(ranks, "/" + called + turn("hierarchy", state_->number)));
      parts.push_back({part, {ranks.begin(), ranks.end()}});
      return {};
    };
    TN_TRY(join(group_, group, "group of rank " + std::to_string(group.front())));
    if (seat_.member == seat_.leader) TN_TRY(join(leaders_, state_->leaders, "leaders"));
    if (state_->by_shards)
      TN_TRY(join(shards_, shard_ranks(seat_.member, *state_), "shard " + std::to_string(seat_.member)));
  }
  watch_.start(std::move(parts));
  return {};
}

// What would be refused in a later step is refused before the first.
Status Hierarchical::check(const CommOp& op) const {
  const uint64_t width = bits(static_cast<DType>(op.abi.dtype)) / 8;
  const auto refused = [&](int32_t code, const std::string& why) {
    return Status(code, "communicator '" + options.name + "', all_reduce of " + std::to_string(op.abi.count) +
                            " " + std::string(name(static_cast<DType>(op.abi.dtype))) + ": " + why);
  };
  if (op.abi.dtype >= 64 || (limits.reducible_mask & bit(op.abi.dtype)) == 0 || op.abi.reduce >= 64 ||
      (limits.reduce_mask & bit(op.abi.reduce)) == 0)
    return refused(TN_UNSUPPORTED, "it does not take this type or reduction: see Communicator::limits");
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(op.abi.count, width, &bytes) || bytes > op.abi.send.bytes ||
      bytes > op.abi.recv.bytes)
    return refused(TN_INVALID, "send has " + std::to_string(op.abi.send.bytes) + " bytes and recv " +
                                   std::to_string(op.abi.recv.bytes) + ", which is too little");
  return {};
}

Status Hierarchical::submit(Stream& stream, std::span<const CommOp> group, std::optional<Route> route) {
  TN_TRY(health());
  Legs legs;
  std::vector<Route> routes;
  for (const CommOp& op : group) {
    routes.push_back(state_->route(op.abi, route));
    if (routes.back() != Route::flat) TN_TRY(check(op));
    add_legs(op, routes.back(), seat_, legs);
  }
  if (!stream.state()->healthy()) return detail::stream_poison(*stream.state());
  watch_.note(group, routes);
  bool midway = false;
  Status done = walk(stream, legs, midway);
  if (!done.ok()) return failed(std::move(done), midway);
  watch_.carried(stream, turn_.last());
  return {};
}

void Hierarchical::call_witness(Stream& stream) {
  runtime::call_witness(runtime::timeline_of(stream),
                        std::shared_ptr<runtime::Witness>(shared_from_this(), this));
}

// What goes flat comes first. Messages are not waited for before the routed operations, because the peer's side of one may
// stand behind its side of those.
Status Hierarchical::walk(Stream& stream, const Legs& legs, bool& midway) {
  const auto step = [&](Stream& on, const std::shared_ptr<CommState>& part,
                        const std::vector<CommOp>& ops) -> Status {
    if (ops.empty()) return {};
    TN_TRY(part->submit(on, ops, std::nullopt));
    midway = true;
    return {};
  };
  call_witness(stream);
  TN_TRY(turn_.begin(stream));
  const bool beside = !legs.group.empty() && has_messages(legs.flat);
  if (beside) {
    if (!aside_) aside_ = TN_TRY(Device(device).stream({.name = "messages of '" + options.name + "'"}));
    call_witness(aside_);
    TN_TRY(aside_.wait(TN_TRY(stream.record())));
  }
  TN_TRY(step(beside ? aside_ : stream, flat_, legs.flat));
  TN_TRY(step(stream, group_, legs.group));
  TN_TRY(step(stream, leaders_, legs.leaders));
  TN_TRY(step(stream, shards_, legs.shards));
  TN_TRY(step(stream, group_, legs.group_again));
  if (beside) TN_TRY(stream.wait(TN_TRY(aside_.record())));
  return turn_.end(stream);
}

Status Hierarchical::failed(Status why, bool midway) {
  if (auto cause = watch_.await_verdict()) return Status(*std::move(cause));
  if (!midway) {
    watch_.refused();
    return why;
  }
  Error cause = why.error();
  cause.message = "communicator '" + options.name + "': rank " + std::to_string(rank) +
                  " could not go on in the middle of a group: " + cause.message;
  watch_.end(cause);
  return Status(std::move(cause));
}

// Only what communicators end with: a kernel's failure is its own cause.
bool Hierarchical::settled(Error& failure) noexcept {
  if (!ends_communicators(failure.code)) return true;
  try {
    if (!watch_.trouble()) return true;
    auto cause = watch_.verdict();
    if (!cause) return watch_.wake(), false;
    cause->flags |= failure.flags;
    failure = *std::move(cause);
  } catch (const std::bad_alloc&) {  // then the stream's own words serve
  }
  return true;
}

Status Hierarchical::abort() {
  if (gone_.load()) return destroyed(options.name);
  watch_.end({.code = TN_ABORTED,
              .message = "communicator '" + options.name + "': rank " + std::to_string(rank) + " aborted"});
  return {};
}

Status Hierarchical::health() {
  if (gone_.load()) return destroyed(options.name);
  if (auto cause = watch_.verdict()) return Status(*std::move(cause));
  return {};
}

Status Hierarchical::destroy(Timeout timeout) {
  if (gone_.exchange(true)) return destroyed(options.name);
  watch_.leave();
  turn_ = {};
  const base::Deadline deadline(timeout);
  Status first;
  for (const auto& part : {group_, leaders_, shards_}) {
    if (part == nullptr) continue;
    Status ended = part->destroy(deadline.left());
    if (first.ok()) first = std::move(ended);
  }
  return first;
}

Result<std::shared_ptr<detail::CommState>> Hierarchical::part(std::span<const uint32_t> members,
                                                              const std::string& called) {
  return flat_->part(members, called);
}

}  // namespace tenon::comm
