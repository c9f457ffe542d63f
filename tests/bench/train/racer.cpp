// SPDX-License-Identifier: Apache-2.0
// racer.cpp: all ranks are asked, then all are heard.
#include "racer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace bench {
namespace {

constexpr int cores = 2;  // one rank has both, two ranks have one each

// A folder where the ranks of one racer meet; "" for one that is alone.
std::string meeting_of(const Task& task) {
  if (task.ranks == 1) return "";
  std::string name = (std::filesystem::temp_directory_path() / "tenon-bench-XXXXXX").string();
  return mkdtemp(name.data()) != nullptr ? name : std::string();
}

// Ranks that share processors have one each.
Peer::Command bound(Peer::Command command, const Task& task, uint32_t rank) {
  if (task.ranks == 1) return command;
  Peer::Command out{"taskset", "-c", std::to_string(rank % cores)};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

std::string threads_of(const Task& task) {
  return std::to_string(std::max(1, cores / static_cast<int>(task.ranks)));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::unique_ptr<Racer> Racer::ours(const Task& task, const std::vector<std::string>& options) {
  std::vector<Peer::Command> commands;
  std::vector<Peer::Settings> settings(task.ranks);
  const std::string meeting = meeting_of(task);
  for (uint32_t rank = 0; rank < task.ranks; ++rank) {
    Peer::Command command{BENCH_RANK, task.model, std::to_string(task.batch / task.ranks), threads_of(task)};
    command.insert(command.end(), options.begin(), options.end());
    commands.push_back(bound(std::move(command), task, rank));
    if (task.ranks == 1) continue;
    settings[rank] = {{"TENON_RANK", std::to_string(rank)},
                      {"TENON_SIZE", std::to_string(task.ranks)},
                      {"TENON_STORE", "file://" + meeting}};
  }
  return std::make_unique<Racer>(commands, settings, meeting);
}

std::unique_ptr<Racer> Racer::torch(const Task& task, const std::vector<std::string>& words) {
  std::vector<Peer::Command> commands;
  std::vector<Peer::Settings> settings;
  const std::string meeting = meeting_of(task);
  for (uint32_t rank = 0; rank < task.ranks; ++rank) {
    std::vector<std::string> arguments{task.model, std::to_string(task.batch / task.ranks), threads_of(task)};
    arguments.insert(arguments.end(), words.begin(), words.end());
    commands.push_back(bound(Peer::python(BENCH_PEER, arguments), task, rank));
    // Its memory stays with it, since fresh pages cost more than most kernels.
    settings.push_back({{"MALLOC_MMAP_MAX_", "0"},
                        {"MALLOC_TRIM_THRESHOLD_", "68719476736"},
                        {"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", std::to_string(task.ranks)},
                        {"TRAIN_MEETING", meeting + "/store"}});
  }
  return std::make_unique<Racer>(commands, settings, meeting);
}

Racer::Racer(const std::vector<Peer::Command>& commands, const std::vector<Peer::Settings>& settings,
             std::string meeting)
    : meeting_(std::move(meeting)) {
  for (size_t rank = 0; rank < commands.size() && why_.empty(); ++rank) {
    ranks_.push_back(std::make_unique<Peer>(commands[rank], settings[rank]));
    give_up(ranks_.back()->why());
  }
  if (!why_.empty()) return;
  const std::string said = ask("prepare").front();
  parameters_ = std::strtoull(said.c_str(), nullptr, 10);
  if (parameters_ == 0) give_up("'" + said + "' is no number of parameters");
  if (step() >= 0) first_loss_ = last_loss_;
}

Racer::~Racer() {
  ranks_.clear();
  std::error_code ignored;
  if (!meeting_.empty()) std::filesystem::remove_all(meeting_, ignored);
}

std::vector<std::string> Racer::ask(const std::string& line) {
  std::vector<std::string> out;
  for (const auto& rank : ranks_) rank->say(line);
  for (const auto& rank : ranks_) {
    out.push_back(rank->hear());
    if (out.back().starts_with("!")) give_up(first_line(out.back().substr(2)));
  }
  return out;
}

double Racer::step() {
  if (!why_.empty()) return -1;
  double longest = -1;
  const std::vector<std::string> answers = ask("step");
  if (!why_.empty()) return -1;
  for (const std::string& answer : answers) {
    std::istringstream words(answer);
    double nanoseconds = -1;
    words >> nanoseconds >> last_loss_;
    if (!words || !std::isfinite(last_loss_)) {
      give_up("a step was answered with '" + answer + "'");
      return -1;
    }
    longest = std::max(longest, nanoseconds / 1e6);
  }
  return longest;
}

void Racer::check_learning() {
  if (why_.empty() && !(last_loss_ < first_loss_))
    give_up("it does not learn: its loss is " + std::to_string(last_loss_) + ", and was " +
            std::to_string(first_loss_));
}

void Racer::give_up(const std::string& why) {
  if (why_.empty()) why_ = why;
}

}  // namespace bench
