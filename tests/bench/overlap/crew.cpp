// SPDX-License-Identifier: Apache-2.0
// crew.cpp: two processes, each on a processor and, where there is a wire, on a host of its own.
#include "crew.hpp"

#include "../row.hpp"
#include "work.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace bench {
namespace {

using tenon::test::Networks;

constexpr uint32_t size = 2;

// How many turns a processor makes in a millisecond when nothing disturbs it.
double turns_per_ms() {
  static const double found = [] {
    constexpr uint64_t turns = 5'000'000;
    double best = 0;
    for (int run = 0; run < 10; ++run) {
      const double start = now_ns();
      tenon_bench_work(turns);
      best = std::max(best, static_cast<double>(turns) * 1e6 / (now_ns() - start));
    }
    return best;
  }();
  return found;
}

std::string on(const Networks* networks, uint32_t rank) {
  return networks == nullptr ? "" : networks->name(rank);
}

// On its processor, in its network.
Peer::Command placed(Peer::Command command, const Networks* networks, uint32_t rank) {
  Peer::Command out;
  if (networks != nullptr) out = {"ip", "netns", "exec", networks->name(rank)};
  out.insert(out.end(), {"taskset", "-c", std::to_string(rank)});
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

}  // namespace

Course::Course(const Shape& shape, double backward_ms) {
  std::string folder = (std::filesystem::temp_directory_path() / "tenon-course-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) std::perror("bench overlap");
  file_ = folder + "/" + shape.name;
  double all = 0;
  for (const Parameter& parameter : shape.parameters) all += parameter.work;
  const double turns = backward_ms * turns_per_ms();
  std::ofstream file(file_);
  file << "forward 0 " << std::llround(turns / 2) << '\n';
  for (const Parameter& parameter : shape.parameters)
    file << parameter.name << ' ' << parameter.elements << ' ' << std::llround(turns * parameter.work / all)
         << '\n';
}

Course::~Course() {
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(file_).parent_path(), ignored);
}

Crew Crew::ours(std::string name, const Course& course, const Networks* networks,
                const std::vector<std::string>& options) {
  std::vector<Peer::Command> commands;
  std::vector<Peer::Settings> settings;
  const std::string meeting = Ranks::meeting();
  for (uint32_t rank = 0; rank < size; ++rank) {
    Peer::Command command{BENCH_RANK, course.file()};
    if (networks != nullptr)
      command.insert(command.end(), {"host=" + on(networks, rank), "interface=" + Networks::address(rank)});
    command.insert(command.end(), options.begin(), options.end());
    commands.push_back(placed(std::move(command), networks, rank));
    settings.push_back({{"TENON_RANK", std::to_string(rank)},
                        {"TENON_SIZE", std::to_string(size)},
                        {"TENON_STORE", "file://" + meeting}});
  }
  return {std::move(name), commands, settings, meeting};
}

Crew Crew::torch(const Course& course, const Networks* networks) {
  std::vector<Peer::Command> commands;
  std::vector<Peer::Settings> settings;
  const std::string meeting = Ranks::meeting();
  for (uint32_t rank = 0; rank < size; ++rank) {
    commands.push_back(placed(Peer::python(BENCH_PEER, {course.file(), BENCH_WORK}), networks, rank));
    settings.push_back({{"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", std::to_string(size)},
                        {"OVERLAP_MEETING", meeting + "/store"},
                        {"GLOO_SOCKET_IFNAME", networks == nullptr ? "lo" : on(networks, rank)},
                        // Its memory stays with it, since fresh pages cost more than most of what it does.
                        {"MALLOC_MMAP_MAX_", "0"},
                        {"MALLOC_TRIM_THRESHOLD_", "68719476736"}});
  }
  return {"torch DDP, gloo", commands, settings, meeting};
}

Crew Crew::bare(const Course& course, const Networks& networks) {
  std::vector<Peer::Command> commands;
  for (uint32_t rank = 0; rank < size; ++rank)
    commands.push_back(placed({BENCH_BARE, course.file(), std::to_string(rank), Networks::address(rank),
                               Networks::address(1 - rank)},
                              &networks, rank));
  Crew out{"bare sockets", commands, std::vector<Peer::Settings>(size), ""};
  out.is_limit_ = true;
  return out;
}

void Crew::prepare() {
  const std::vector<double> said = ranks_->figures("prepare", 2);
  if (said.empty()) return;
  alone_ns_ = said[0];
  predicted_ns_ = said[1];
}

void Crew::step() {
  const std::vector<double> said = ranks_->figures("step", 2);
  if (said.empty()) return;
  steps.push_back(said[0] / 1e6);
  exposed.push_back(std::max(said[0] - alone_ns_, 0.0) / 1e6);
  if (predicted_ns_ > 0) off.push_back(std::abs(predicted_ns_ - said[1]) / said[1] * 100);
}

}  // namespace bench
