// SPDX-License-Identifier: Apache-2.0
// processes.cpp: ranks that are processes: workers that run the same case in a seat of one of its meetings.
//
// Invariant: a rank that ends in another way than it should is a failure with its name and the call it was in.
#include "conformance/case.hpp"
#include "conformance/comm/ranks.hpp"
#include "conformance/comm/seat.hpp"
#include "conformance/process.hpp"
#include "conformance/protocol.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>

namespace tenon::conform {

namespace {

using Clock = std::chrono::steady_clock;

// One rank's process, and what it said.
struct Player {
  Process process{};
  std::optional<Finding> finding{};
  std::optional<End> end{};

  void listen() {
    while (const auto text = process.receive()) {
      auto message = decode_message(*text);
      if (message.ok() && message->kind == Message::Kind::end) finding = std::move(message->finding);
    }
  }
  // Whether it is over.
  bool step() {
    listen();
    if (!end) end = process.ended();
    if (end) listen();  // what it said last
    return end.has_value();
  }
};

Status play(Context& t, const Seat& seat, const Body& body, const CommForm& form) {
  TN_TRY(needs_communicators(t));
  const Device& device = *TN_TRY(t.device());
  const FolderStore store(seat.folder);
  Rank rank{
      .t = t, .device = device, .store = store, .rank = seat.rank, .size = seat.size, .together = nullptr};
  rank.stream = TN_TRY(rank.device.stream());
  auto joined = rank.join("the ranks", form);
  if (joined.code() == TN_UNSUPPORTED) return t.unsupported("comm.processes", std::string(joined.message()));
  rank.comm = TN_TRY(std::move(joined));
  const Status said = body(rank);
  t.check(said.ok(), said.message());
  if (said.ok()) return {};
  rank.forgive();
  static_cast<void>(rank.comm.abort());
  static_cast<void>(rank.comm.destroy(t.settings().patience_ns));
  static_cast<void>(rank.stream.destroy(TN_DESTROY_ABANDON));
  return {};
}

Result<std::vector<Player>> start(Context& t, uint32_t meeting, uint32_t size, const std::string& folder) {
  Request request;
  request.settings = t.settings();
  request.round = stage().round;
  request.cases.emplace_back(t.wanted()->name);
  std::vector<Player> out(size);
  for (uint32_t r = 0; r < size; ++r) {
    request.seat = {.meeting = meeting, .rank = r, .size = size, .folder = folder};
    if (t.settings().device + size <= TN_TRY(device_count(t)))
      request.settings.device = t.settings().device + r;
    out[r].process = TN_TRY(Process::start(own_command(), encode(request)));
  }
  return out;
}

// What is wrong with how a rank ended, or "".
std::string story_of(const Player& player, bool dies, double seconds) {
  if (!player.end) return "does not come back: " + hang_of(player.process.trail(), seconds);
  const bool killed = !player.end->exited && player.end->signal == SIGKILL;
  if (dies) return killed ? "" : "did not come to the place where it ends itself";
  if (player.finding && !player.finding->failures.empty()) return player.finding->failures.front();
  if (!player.end->exited) return words("the process died of ", signal_name(player.end->signal));
  if (player.end->status != 0) return words("the process ended with exit(", player.end->status, ")");
  return player.finding ? "" : "the process ended without a word";
}

// A rank that another's failure reached says a code of these.
bool is_echo(const std::string& story) {
  const auto says = [&](const char* code) { return story.find(code) != std::string::npos; };
  return says("TN_ABORTED") || says("TN_PEER_LOST") || says("TN_TIMEOUT");
}

Status verdict(Context& t, const std::vector<Player>& players, std::optional<uint32_t> dies) {
  const double seconds = 2e-9 * static_cast<double>(t.settings().patience_ns);
  std::string told, echo;
  for (uint32_t r = 0; r < players.size(); ++r) {
    const auto& finding = players[r].finding;
    if (finding && finding->outcome == Outcome::unsupported)
      return t.unsupported(finding->tag, finding->reason);
    const std::string story = story_of(players[r], dies == r, seconds);
    std::string& kind = is_echo(story) ? echo : told;
    if (!story.empty() && kind.empty()) kind = words("rank ", r, " of ", players.size(), ": ", story);
  }
  return t.require(told.empty() && echo.empty(), told.empty() ? echo : told);
}

}  // namespace

Status as_processes(Context& t, uint32_t size, const Body& body, const CommForm& form,
                    std::optional<uint32_t> dies) {
  const uint32_t meeting = stage().meetings++;
  const Seat& seat = stage().seat;
  if (seat.size != 0) return seat.meeting == meeting ? play(t, seat, body, form) : Status();
  TN_TRY(needs_communicators(t));
  const MeetingPlace place = TN_TRY(MeetingPlace::make());
  std::vector<Player> players = TN_TRY(start(t, meeting, size, place.folder()));
  const auto end = Clock::now() + std::chrono::nanoseconds(2 * t.settings().patience_ns);
  while (Clock::now() < end) {
    size_t over = 0;
    std::vector<int> connections;
    for (Player& player : players) {
      over += player.step() ? 1 : 0;
      connections.push_back(player.process.connection());
    }
    if (over == players.size()) break;
    wait_for_any(connections, 5);
  }
  return verdict(t, players, dies);
}

}  // namespace tenon::conform
