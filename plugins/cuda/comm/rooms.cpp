// SPDX-License-Identifier: Apache-2.0
// rooms.cpp: rooms by token; how one fills, is divided, and empties.
//
// Invariant: a room is found for as long as a rank is in it, and no longer.
#include "room.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace tenon::cuda::comm {

using author::text;

namespace {

std::mutex doors_mutex;
std::map<uint64_t, std::weak_ptr<Room>> doors;

uint64_t clock_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
uint64_t after_ns(uint64_t timeout_ns) {
  const uint64_t now = clock_ns();
  return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

// As good as another drawn number.
uint64_t stirred(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::shared_ptr<Room> Room::at(uint64_t token) {
  const std::lock_guard lock(doors_mutex);
  std::weak_ptr<Room>& door = doors[token];
  if (auto found = door.lock()) return found;
  auto made = std::make_shared<Room>(token);
  door = made;
  return made;
}

Room::~Room() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    watched_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
  if (words_ != nullptr && !words_forsaken_) words_->mark_unused();
  const std::lock_guard lock(doors_mutex);
  const auto door = doors.find(token_);
  if (door != doors.end() && door->second.expired()) doors.erase(door);
}

Status Room::enter(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (failure_) return Status(*failure_);
  if (ticket.size > most_ranks) {
    return Status(TN_UNSUPPORTED, text(ticket.size, " ranks; communicators of plugin 'cuda' join ",
                                       most_ranks, " threads of a process at most"));
  }
  if (seats_.empty()) seats_.resize(ticket.size);
  if (name_.empty()) name_ = ticket.name;
  if (ticket.size != seats_.size()) {
    Status said(TN_MISMATCH, text("rank ", ticket.rank, " of communicator '", name_, "' was told of ",
                                  ticket.size, " ranks, and another of ", seats_.size()));
    end(said.error());
    return said;
  }
  Seat& seat = seats_[ticket.rank];
  if (seat.taken) {
    return Status(TN_INVALID, text("rank ", ticket.rank, " of communicator '", name_,
                                   "' has come already: each rank joins once"));
  }
  seat.taken = seat.here = true;
  seat.timeout_ns = ticket.timeout_ns;
  seat.due_ns = after_ns(ticket.timeout_ns);
  seat.gpu = ticket.gpu;
  if (!std::ranges::all_of(seats_, &Seat::taken)) return {};
  Status said = stand_up();
  if (!said.ok()) end(said.error());
  changed_.notify_all();
  return said;
}

Status Room::stand_up() {
  TN_TRY(check_peers());
  TN_TRY(lay_lanes());
  stands_ = true;
  if (seats_.size() > 1) watch_ = std::thread([this] { watch(); });
  return {};
}

Status Room::check_peers() const {
  for (const Seat& seat : seats_) {
    const Context& owner = *seat.gpu->context();
    for (const Seat& other : seats_) {
      const Context& reader = *other.gpu->context();
      if (std::ranges::count(owner.accessors(), reader.device()) != 0) continue;
      return Status(TN_UNSUPPORTED, text("communicator '", name_, "': device 'cuda:", reader.ordinal(),
                                         "' cannot reach the memory of device 'cuda:", owner.ordinal(),
                                         "', and ranks that are threads read each other's"));
    }
  }
  return {};
}

Status Room::lay_lanes() {
  const auto size = static_cast<uint32_t>(seats_.size());
  const uint64_t all = Lane::bytes(size, collectives_deep), pair = Lane::bytes(2, messages_deep);
  words_ = TN_TRY(pin_host(seats_[0].gpu->context(), all + pair * size * size, 4096));
  CUdeviceptr at = words_->address();
  std::memset(reinterpret_cast<void*>(static_cast<uintptr_t>(at)), 0, all + pair * size * size);
  std::vector<uint32_t> everybody(size);
  for (uint32_t rank = 0; rank < size; ++rank) everybody[rank] = rank;
  lanes_.reserve(1 + size_t{size} * size);
  lanes_.emplace_back(at, everybody, collectives_deep);
  at += all;
  for (uint32_t from = 0; from < size; ++from) {
    for (uint32_t to = 0; to < size; ++to, at += pair)
      lanes_.emplace_back(at, std::vector<uint32_t>{from, to}, messages_deep);
  }
  return {};
}

std::string Room::missing() const {
  std::string out;
  for (size_t rank = 0; rank < seats_.size(); ++rank) {
    if (!seats_[rank].taken) out += text(out.empty() ? "rank " : ", rank ", rank);
  }
  return out;
}

Status Room::wait_for_all(uint32_t rank, const std::function<std::optional<std::string>()>& elsewhere) {
  constexpr std::chrono::milliseconds now_and_then{20};
  std::unique_lock lock(mutex_);
  while (!stands_ && !failure_) {
    const uint64_t now = clock_ns();
    if (now >= seats_[rank].due_ns) {
      end({.code = TN_TIMEOUT,
           .message = text(missing(), " did not join communicator '", name_, "' within ",
                           seats_[rank].timeout_ns / 1'000'000, " ms")});
      break;
    }
    const auto rest = std::chrono::nanoseconds(seats_[rank].due_ns - now);
    changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(now_and_then, rest));
    if (stands_ || failure_) break;
    lock.unlock();
    const auto told = elsewhere();
    lock.lock();
    if (told) end({.code = TN_UNSUPPORTED, .message = *told});
  }
  return stands_ ? Status() : Status(*failure_);
}

Status Room::health(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  if (failure_) return Status(*failure_);
  if (stands_) return {};
  if (clock_ns() >= seats_[rank].due_ns) {
    end({.code = TN_TIMEOUT,
         .message = text(missing(), " did not join communicator '", name_, "' within ",
                         seats_[rank].timeout_ns / 1'000'000, " ms")});
    return Status(*failure_);
  }
  return Status(TN_BUSY,
                text("communicator '", name_, "' is being made: rank ", rank, " waits for ", missing()));
}

bool Room::spans_devices() {
  const std::lock_guard lock(mutex_);
  const uint32_t first = seats_[0].gpu->context()->ordinal();
  return std::ranges::any_of(seats_,
                             [&](const Seat& seat) { return seat.gpu->context()->ordinal() != first; });
}

Result<Room::Branch> Room::split(uint32_t rank, int32_t color, int32_t key, uint64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  if (failure_) return Status(*failure_);
  Seat& seat = seats_[rank];
  const uint64_t number = seat.splits++;
  Round& round = rounds_[number];
  round.resize(seats_.size());
  round[rank] = Choice{color, key};
  changed_.notify_all();
  const auto all = [&] {
    return std::ranges::all_of(round, [](const auto& said) { return said.has_value(); });
  };
  const auto gone = [&] {
    for (size_t r = 0; r < seats_.size(); ++r)
      if (!seats_[r].here && !round[r]) return true;
    return false;
  };
  const auto over = [&] { return all() || failure_ || gone(); };
  constexpr uint64_t longest = uint64_t{1} << 60;
  changed_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, longest)), over);
  if (all()) return branch(round, number, rank);
  if (failure_) return Status(*failure_);
  if (gone())
    return Status(TN_PEER_LOST, text(who(round), " has left communicator '", name_, "', which is split"));
  return Status(TN_TIMEOUT, text(who(round), " did not come to the split of communicator '", name_,
                                 "' within ", timeout_ns / 1'000'000, " ms"));
}

// Who has not said anything.
std::string Room::who(const Round& round) const {
  std::string out;
  for (size_t rank = 0; rank < round.size(); ++rank) {
    if (!round[rank]) out += text(out.empty() ? "rank " : ", rank ", rank);
  }
  return out;
}

Room::Branch Room::branch(const Round& round, uint64_t number, uint32_t rank) const {
  const Choice mine = *round[rank];
  if (mine.color < 0) return {};
  Branch out;
  out.token = stirred(stirred(token_ + number) + static_cast<uint64_t>(mine.color));
  for (uint32_t r = 0; r < round.size(); ++r) {
    if (round[r]->color != mine.color) continue;
    ++out.size;
    if (std::pair(round[r]->key, r) < std::pair(mine.key, rank)) ++out.rank;
  }
  return out;
}

}  // namespace tenon::cuda::comm
