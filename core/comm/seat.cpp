// SPDX-License-Identifier: Apache-2.0
// seat.cpp: see seat.hpp.
#include "comm/seat.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tenon::comm {
namespace {

// Of this process; it outlives whatever is destroyed at its end.
struct All {
  std::mutex mutex{};
  std::vector<const Seat*> seats{};
};
All& all() {
  static All* const one = new All;
  return *one;
}

}  // namespace

Seat::Seat(const detail::CommState& comm, const Flight& flight)
    : flight_(flight),
      store_(comm.store.state()),
      told_(std::make_shared<const Standing::Behind>(Standing::Behind{
          .rank = comm.rank, .size = comm.size, .key = comm.key, .name = comm.options.name})) {
  const std::lock_guard lock(all().mutex);
  all().seats.push_back(this);
}

void Seat::leave() noexcept {
  {
    const std::lock_guard lock(all().mutex);
    std::erase(all().seats, this);
  }
  runtime::Hold last;
  const std::lock_guard lock(mutex_);
  last = std::exchange(line_, {});
}

void Seat::carry(runtime::Timeline& line) noexcept {
  const std::lock_guard lock(mutex_);
  if (line_.get() == &line) return;
  several_ = line_.get() != nullptr;
  if (!several_) line_ = runtime::Hold(&line);
}

std::optional<Seat::Mark> Seat::before(uint64_t group, const runtime::Timeline& line,
                                       const Seat& later) const noexcept {
  const uint64_t groups = flight_.groups();
  const std::lock_guard lock(mutex_);
  if (groups == 0 || store_ != later.store_ || !carried_by(&line)) return std::nullopt;
  return Mark{.group = group, .other = groups, .seat = told_};
}

// The stream is asked after the groups were counted: with nothing that is not recorded, all of them come before what is waited for.
std::vector<Standing::Behind> Seat::behind(uint64_t group, const runtime::Stay::Place& place) const {
  std::vector<Standing::Behind> out;
  const std::lock_guard lock(all().mutex);
  for (const Seat* seat : all().seats) {
    if (seat == this || seat->store_ != store_) continue;
    const std::lock_guard its(seat->mutex_);
    const uint64_t groups = seat->flight_.groups();
    if (groups == 0 || !seat->carried_by(place.line)) continue;
    const bool whole = seat->line_->unrecorded.load(std::memory_order_acquire) == 0 &&
                       seat->line_->recorded.load(std::memory_order_acquire) == place.value;
    if (whole) out.push_back(Mark{.group = group, .other = groups, .seat = seat->told_}.words());
  }
  return out;
}

}  // namespace tenon::comm
