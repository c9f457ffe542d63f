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

Seat::Seat(const detail::CommState& comm, const Flight& flight) : comm_(comm), flight_(flight) {
  const std::lock_guard lock(all().mutex);
  all().seats.push_back(this);
}

void Seat::leave() noexcept {
  runtime::Hold last;
  const std::lock_guard lock(all().mutex);
  if (!std::exchange(there_, false)) return;
  std::erase(all().seats, this);
  last = std::exchange(line_, {});
}

void Seat::carry(runtime::Timeline& line) noexcept {
  const std::lock_guard lock(all().mutex);
  if (!there_ || line_.get() == &line) return;
  several_ = line_.get() != nullptr;
  if (!several_) line_ = runtime::Hold(&line);
}

Standing::Behind Seat::told(uint64_t group) const {
  return {.group = group,
          .other = flight_.groups(),
          .rank = comm_.rank,
          .size = comm_.size,
          .key = comm_.key,
          .name = comm_.options.name};
}

std::optional<Standing::Behind> Seat::before(uint64_t group, const runtime::Timeline& line,
                                             const Seat& other) const {
  const std::lock_guard lock(all().mutex);
  if (!there_ || several_ || line_.get() != &line || comm_.store.state() != other.comm_.store.state())
    return std::nullopt;
  return told(group);
}

// The stream is asked after the groups were counted: with nothing that is not recorded, all of them come before what is waited for.
std::vector<Standing::Behind> Seat::behind(uint64_t group, const runtime::Stay::Place& place) const {
  std::vector<Standing::Behind> out;
  const std::lock_guard lock(all().mutex);
  for (const Seat* seat : all().seats) {
    if (seat == this || seat->several_ || seat->line_.get() != place.line ||
        seat->comm_.store.state() != comm_.store.state())
      continue;
    Standing::Behind found = seat->told(group);
    const bool whole = seat->line_->unrecorded.load(std::memory_order_acquire) == 0 &&
                       seat->line_->recorded.load(std::memory_order_acquire) == place.value;
    if (whole && found.other != 0) out.push_back(std::move(found));
  }
  return out;
}

}  // namespace tenon::comm
