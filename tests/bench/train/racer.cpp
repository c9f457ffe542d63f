// SPDX-License-Identifier: Apache-2.0
// racer.cpp: the commands of ranks, and what they answer.
#include "racer.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace bench {
namespace {

constexpr int cores = 2;  // one rank has both, two ranks have one each

// Programs of one build lie side by side, wherever it was carried; scripts of a tree are found from its root.
std::string our_program() {
  std::error_code none;
  return (std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / "bench_train_rank").string();
}
std::string their_script() {
  return access(TRAIN_PEER, R_OK) == 0 ? TRAIN_PEER : "tests/bench/train/torch_peer.py";
}

// Nobody meets one that is alone.
std::string meeting_of(const Task& task) { return task.ranks == 1 ? "" : Ranks::meeting(); }

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

}  // namespace

std::unique_ptr<Racer> Racer::ours(const Task& task, const std::vector<std::string>& options) {
  std::vector<Peer::Command> commands;
  std::vector<Peer::Settings> settings(task.ranks);
  const std::string meeting = meeting_of(task);
  for (uint32_t rank = 0; rank < task.ranks; ++rank) {
    Peer::Command command{our_program(), task.model, std::to_string(task.batch / task.ranks),
                          threads_of(task)};
    if (task.device != "cpu") command.push_back("device=" + task.device);
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
    if (task.device != "cpu") arguments.push_back(task.device);
    commands.push_back(bound(Peer::python(their_script(), arguments), task, rank));
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
    : ranks_(commands, settings, std::move(meeting)) {
  const std::vector<double> said = ranks_.figures("prepare", 1);
  if (said.empty()) return;
  parameters_ = static_cast<uint64_t>(said.front());
  if (parameters_ == 0) give_up("its model has no parameters");
  if (step() >= 0) first_loss_ = last_loss_;
}

double Racer::step() {
  const std::vector<double> answer = ranks_.figures("step", 2);
  if (answer.empty()) return -1;
  last_loss_ = answer[1];
  return answer[0] / 1e6;
}

void Racer::check_learning() {
  if (why().empty() && !(last_loss_ < first_loss_))
    give_up("it does not learn: its loss is " + std::to_string(last_loss_) + ", and was " +
            std::to_string(first_loss_));
}

}  // namespace bench
