// SPDX-License-Identifier: Apache-2.0
// membership.cpp: see membership.hpp.
#include "comm/membership.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tenon::comm {
namespace {

// Of this process; it outlives whatever is destroyed at its end.
struct All {
  std::mutex mutex{};
  std::vector<const Membership*> members{};
};
All& all() {
  static All* const one = new All;
  return *one;
}

}  // namespace

Membership::Membership(const detail::CommState& comm, const Flight& flight)
    : flight_(flight),
      store_(comm.store.state()),
      told_(std::make_shared<const Standing::Behind>(Standing::Behind{
          .rank = comm.rank, .size = comm.size, .key = comm.key, .name = comm.options.name})) {
  const std::lock_guard lock(all().mutex);
  all().members.push_back(this);
}

void Membership::leave() noexcept {
  {
    const std::lock_guard lock(all().mutex);
    std::erase(all().members, this);
  }
  runtime::Hold last;
  const std::lock_guard lock(mutex_);
  last = std::exchange(line_, {});
}

void Membership::carry(runtime::Timeline& line) noexcept {
  const std::lock_guard lock(mutex_);
  if (line_.get() == &line) return;
  several_ = line_.get() != nullptr;
  if (!several_) line_ = runtime::Hold(&line);
}

std::optional<Membership::Mark> Membership::before(uint64_t group, const runtime::Timeline& line,
                                                   const Membership& later) const noexcept {
  const uint64_t groups = flight_.groups();
  const std::lock_guard lock(mutex_);
  if (groups == 0 || store_ != later.store_ || !carried_by(&line)) return std::nullopt;
  return Mark{.group = group, .other = groups, .member = told_};
}

// The stream is asked after the groups were counted: with nothing that is not recorded, all of them come before what is waited for.
std::vector<Standing::Behind> Membership::behind(uint64_t group, const runtime::Stay::Place& place) const {
  std::vector<Standing::Behind> out;
  const std::lock_guard lock(all().mutex);
  for (const Membership* member : all().members) {
    if (member == this || member->store_ != store_) continue;
    const std::lock_guard its(member->mutex_);
    const uint64_t groups = member->flight_.groups();
    if (groups == 0 || !member->carried_by(place.line)) continue;
    const bool whole = member->line_->unrecorded.load(std::memory_order_acquire) == 0 &&
                       member->line_->recorded.load(std::memory_order_acquire) == place.value;
    if (whole) out.push_back(Mark{.group = group, .other = groups, .member = member->told_}.words());
  }
  return out;
}

}  // namespace tenon::comm
