// SPDX-License-Identifier: Apache-2.0
// row.hpp: how every suite measures, and the one form in which it tells.
//
// Invariant: run i of ours stands beside run i of the peer's, taken in turn, so a machine that slows down slows both.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline constexpr int runs = 25;

inline double now_ns() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(time).count();
}

// The time of one `body()`, over `count` of them.
template <class Body>
double time_of(uint64_t count, Body&& body) {
  const double start = now_ns();
  for (uint64_t i = 0; i < count; ++i) body();
  return (now_ns() - start) / static_cast<double>(count);
}

// A peer that is measured beside the others in the same runs.
struct Rival {
  std::string peer{};
  std::vector<double> theirs{};
  std::string why{};  // it has no figures
};

struct Row {
  std::string name, peer{}, unit = "ns";
  std::vector<double> ours{}, theirs{};
  std::string why_no_peer{};
  double bytes = 0;     // of what it reads and writes, each once; 0: not told
  double limit = 0;     // what this machine can do, measured in the same run; 0: none
  bool median = false;  // the figure is the median of the runs, not the fastest
  std::vector<Rival> rivals{};
};

// Measures both in turn, after one run of each to warm up.
template <class Ours, class Theirs>
Row against(std::string name, std::string peer, uint64_t count, Ours&& ours, Theirs&& theirs) {
  Row row{.name = std::move(name), .peer = std::move(peer)};
  time_of(count, ours);
  time_of(count, theirs);
  for (int run = 0; run < runs; ++run) {
    row.ours.push_back(time_of(count, ours));
    row.theirs.push_back(time_of(count, theirs));
  }
  return row;
}

template <class Ours>
Row alone(std::string name, uint64_t count, Ours&& ours) {
  Row row{.name = std::move(name)};
  time_of(count, ours);
  for (int run = 0; run < runs; ++run) row.ours.push_back(time_of(count, ours));
  return row;
}

// Prints the row as one line of JSON, without its rivals. [one thread]
void print(const Row& row);
// Prints what the reader of a report has to know: versions, settings.
void note(const std::string& words);
// Prints that a row could not be measured, and why.
void left_out(const std::string& name, const std::string& why);

}  // namespace bench
