// SPDX-License-Identifier: Apache-2.0
// seat.cpp: a rank as a command line, and a command line as a rank.
//
// Invariant: the two agree; what is empty travels as "-".
#include "players.hpp"

#include "../../support/networks.hpp"

#include <filesystem>

namespace bench {
namespace {

std::string word_of(const std::string& text) { return text.empty() ? "-" : text; }
std::string text_of(const char* word) { return std::string(word) == "-" ? "" : word; }

}  // namespace

std::vector<std::string> command_of(const std::string& who, const Seat& seat) {
  return {std::filesystem::read_symlink("/proc/self/exe"),
          "--player",
          who,
          "{socket}",
          "{rank}",
          std::to_string(seat.size),
          "{meeting}",
          word_of(seat.floor),
          word_of(seat.host),
          word_of(seat.address)};
}

int play_here(char** words) {
  const std::string who = words[0], socket = words[1];
  Seat seat{.rank = static_cast<uint32_t>(std::stoul(words[2])),
            .size = static_cast<uint32_t>(std::stoul(words[3])),
            .meeting = words[4],
            .floor = text_of(words[5]),
            .host = text_of(words[6]),
            .address = text_of(words[7])};
  if (!seat.host.empty() && !tenon::test::Networks::enter(seat.host).ok()) return 1;
  seat.processors = bind_to_processor(seat.rank);
  const auto player = who == "gloo"        ? gloo_player(seat)
                      : who == "floor"     ? floor_player(seat)
                      : who == "hierarchy" ? tenon_hierarchy(seat)
                                           : tenon_player(seat, who == "tenon");
  if (player == nullptr) return 1;
  const int conductor = enter(socket, seat.rank);
  if (conductor < 0) return 1;
  play(conductor, *player, seat.rank, seat.size);
  return 0;
}

}  // namespace bench
