// SPDX-License-Identifier: Apache-2.0
// ranks.cpp: all ranks are asked, then all are heard.
#include "ranks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>

namespace bench {

std::string Ranks::meeting() {
  std::string name = (std::filesystem::temp_directory_path() / "tenon-bench-XXXXXX").string();
  return mkdtemp(name.data()) != nullptr ? name : std::string();
}

Ranks::Ranks(const std::vector<Peer::Command>& commands, const std::vector<Peer::Settings>& settings,
             std::string meeting)
    : meeting_(std::move(meeting)) {
  for (size_t rank = 0; rank < commands.size() && why_.empty(); ++rank) {
    ranks_.push_back(std::make_unique<Peer>(commands[rank], settings[rank]));
    give_up(ranks_.back()->why());
  }
}

Ranks::~Ranks() {
  ranks_.clear();
  std::error_code ignored;
  if (!meeting_.empty()) std::filesystem::remove_all(meeting_, ignored);
}

std::vector<std::string> Ranks::ask(const std::string& line) {
  std::vector<std::string> out;
  for (const auto& rank : ranks_) rank->say(line);
  for (const auto& rank : ranks_) {
    out.push_back(rank->hear());
    if (out.back().starts_with("!")) give_up(out.back().substr(2));
  }
  return out;
}

std::vector<double> Ranks::figures(const std::string& line, size_t count) {
  std::vector<double> out(count, -std::numeric_limits<double>::infinity());
  if (!why_.empty()) return {};
  for (const std::string& answer : ask(line)) {
    std::istringstream words(answer);
    for (double& greatest : out) {
      double figure = 0;
      if (!(words >> figure) || !std::isfinite(figure))
        give_up("'" + line + "' was answered with '" + answer + "'");
      greatest = std::max(greatest, figure);
    }
  }
  return why_.empty() ? out : std::vector<double>{};
}

void Ranks::give_up(const std::string& why) {
  if (why_.empty()) why_ = why;
}

}  // namespace bench
