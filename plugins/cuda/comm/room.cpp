// SPDX-License-Identifier: Apache-2.0
// room.cpp: groups that come, exchanges that stand or are called off, and the watch.
#include "room.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>
#include <chrono>
#include <set>

namespace tenon::cuda::comm {

using author::text;

namespace {

// How often streams' words are looked at while groups are on their way.
constexpr std::chrono::milliseconds glance{5};

uint64_t watch_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Which member of its lane a rank is with this part.
uint32_t member_of(uint32_t rank, const Part& part) {
  return part.is_message() ? (part.kind == TN_COMM_RECV ? 1 : 0) : rank;
}

}  // namespace

Lane& Room::lane_of(uint32_t rank, const Part& part) {
  if (!part.is_message()) return lanes_[0];
  const uint64_t from = part.kind == TN_COMM_SEND ? rank : part.peer,
                 to = part.kind == TN_COMM_SEND ? part.peer : rank;
  return lanes_[1 + from * seats_.size() + to];
}

// Forgets what is over.
void Room::tidy() {
  for (Lane& lane : lanes_) lane.retire();
  const auto over = [](const Group& group) {
    return std::ranges::all_of(group.turns, [](const Turn& turn) { return turn.index < turn.lane->first(); });
  };
  for (Seat& seat : seats_)
    while (!seat.groups.empty() && over(seat.groups.front())) seat.groups.pop_front();
}

Result<bool> Room::has_room(uint32_t rank, const std::vector<Part>& parts) {
  const std::lock_guard lock(mutex_);
  if (failure_) return Status(*failure_);
  tidy();
  std::map<std::pair<Lane*, uint32_t>, uint64_t> wanted;
  for (const Part& part : parts) ++wanted[{&lane_of(rank, part), member_of(rank, part)}];
  for (const auto& [place, count] : wanted) {
    const auto& [lane, member] = place;
    if (count > lane->depth()) {
      return Status(TN_UNSUPPORTED,
                    text(count, " messages between ranks ", lane->members()[0], " and ", lane->members()[1],
                         " in one group; ", lane->depth(), " are taken: submit several groups"));
    }
    if (!lane->has_room(member, count)) return false;
  }
  return true;
}

Result<std::vector<Turn>> Room::bring(uint32_t rank, const std::vector<Part>& parts,
                                      const std::shared_ptr<Fate>& fate) {
  const std::lock_guard lock(mutex_);
  if (failure_) return Status(*failure_);
  Group group{.fate = fate};
  for (const Part& part : parts) {
    Lane& lane = lane_of(rank, part);
    const uint32_t member = member_of(rank, part);
    const uint64_t index = lane.bring(member, part);
    const Status said = settle(lane, member, index);
    if (!said.ok()) {
      end(said.error());
      return Status(said.error());
    }
    group.turns.push_back({.lane = &lane, .member = member, .index = index});
  }
  auto turns = group.turns;
  seats_[rank].groups.push_back(std::move(group));
  watched_.notify_all();
  return turns;
}

// What `member` has brought meets what is there.
Status Room::settle(Lane& lane, uint32_t member, uint64_t index) {
  const Entry& entry = lane.entries()[index - lane.first()];
  const Part& mine = *entry.parts[member];
  const uint32_t rank = lane.members()[member];
  for (uint32_t m = 0; m < lane.size(); ++m) {
    const uint32_t other = lane.members()[m];
    if (m == member) continue;
    if (entry.parts[m]) {
      TN_TRY(check_fit(rank, mine, other, *entry.parts[m]));
    } else if (!seats_[other].here) {
      return Status(TN_PEER_LOST, text("rank ", other, " has left communicator '", name_, "', and rank ",
                                       rank, " brings ", mine.told()));
    }
  }
  if (entry.come == lane.size()) lane.stand(index);
  return {};
}

void Room::leave(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  seats_[rank].here = false;
  changed_.notify_all();
  if (failure_) return;
  if (!stands_) {
    return end(
        {.code = TN_PEER_LOST,
         .message = text("rank ", rank, " gave up joining communicator '", name_, "' before all had come")});
  }
  for (const Lane& lane : lanes_) {
    for (const Entry& entry : lane.entries()) {
      for (uint32_t m = 0; m < lane.size(); ++m) {
        if (entry.parts[m] || lane.members()[m] != rank) continue;
        const auto waiting =
            std::ranges::find_if(entry.parts, [](const auto& part) { return part.has_value(); });
        if (waiting == entry.parts.end()) continue;
        return end({.code = TN_PEER_LOST,
                    .message = text("rank ", rank, " has left communicator '", name_, "', and rank ",
                                    lane.members()[static_cast<size_t>(waiting - entry.parts.begin())],
                                    " brings ", (*waiting)->told())});
      }
    }
  }
}

void Room::forsake_words() {
  const std::lock_guard lock(mutex_);
  words_forsaken_ = true;
}

void Room::fail(Error why) {
  const std::lock_guard lock(mutex_);
  end(std::move(why));
}

// Groups are told before their streams are let go: who sees a stream's end sees why.
void Room::end(Error why) {
  if (failure_) return;
  failure_ = std::move(why);
  std::set<std::pair<Lane*, uint64_t>> off;
  for (Lane& lane : lanes_) {
    lane.retire();
    for (uint64_t index = lane.first(); index < lane.first() + lane.entries().size(); ++index)
      if (!lane.runs(index)) off.emplace(&lane, index);
  }
  const auto is_off = [&](const Turn& turn) { return off.contains({turn.lane, turn.index}); };
  for (Seat& seat : seats_) {
    for (const Group& group : seat.groups)
      if (std::ranges::any_of(group.turns, is_off)) group.fate->fail(*failure_);
    seat.groups.clear();
  }
  for (const auto& [lane, index] : off) lane->call_off(index);
  changed_.notify_all();
}

bool Room::idle() const {
  return failure_ || std::ranges::all_of(lanes_, [](const Lane& lane) { return lane.entries().empty(); });
}

// A rank is waited for from when another's stream has come to the exchange, not from when it was brought.
void Room::look(uint64_t now_ns) {
  tidy();
  for (Lane& lane : lanes_) {
    uint64_t index = lane.first();
    for (Entry& entry : lane.entries()) {
      const uint64_t at = index++;
      uint64_t patience = UINT64_MAX;
      for (uint32_t m = 0; m < lane.size(); ++m)
        if (lane.is_ready(at, m)) patience = std::min(patience, seats_[lane.members()[m]].timeout_ns);
      if (patience == UINT64_MAX || lane.all_ready(at)) continue;
      if (entry.awaited_since_ns == 0) entry.awaited_since_ns = now_ns;
      if (now_ns - entry.awaited_since_ns < patience) continue;
      return end(late(lane, at, entry, patience).error());
    }
  }
}

Status Room::late(const Lane& lane, uint64_t index, const Entry& entry, uint64_t timeout_ns) const {
  std::string absent, story;
  for (uint32_t m = 0; m < lane.size(); ++m) {
    const uint32_t rank = lane.members()[m];
    if (!lane.is_ready(index, m))
      absent += text(absent.empty() ? "rank " : ", rank ", rank);
    else if (story.empty())
      story = text(entry.parts[m]->told(), " of rank ", rank);
  }
  return Status(TN_TIMEOUT, text(absent, " did not come to ", story, " on communicator '", name_, "' within ",
                                 timeout_ns / 1'000'000, " ms"));
}

void Room::watch() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (idle())
      watched_.wait(lock);
    else
      watched_.wait_for(lock, glance);
    if (!closing_ && !failure_) look(watch_ns());
  }
}

}  // namespace tenon::cuda::comm
