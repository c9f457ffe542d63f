// SPDX-License-Identifier: Apache-2.0
// crew.hpp: the two ranks of one rule, and where they stand.
//
// Invariant: all crews of a contest do the same work for the same gradients, on the same wire; only when and how gradients leave
// differs.
#pragma once

#include "../../support/networks.hpp"
#include "../ranks.hpp"
#include "shapes.hpp"

#include <string>
#include <vector>

namespace bench {

// A shape with its work in turns of the processor, in a file that ranks read; it goes with this.
class Course {
 public:
  // `backward_ms` of computing backward, half as much forward. [one thread; blocks]
  Course(const Shape& shape, double backward_ms);
  Course(const Course&) = delete;
  Course& operator=(const Course&) = delete;
  ~Course();
  const std::string& file() const noexcept { return file_; }

 private:
  std::string file_;
};

class Crew {
 public:
  // Ours by options as "NAME=VALUE"; torch's DistributedDataParallel over Gloo. `networks`: one host for each rank; null: both on
  // this one, over shared memory (torch: over loopback). [one thread; blocks]
  static Crew ours(std::string name, const Course& course, const tenon::test::Networks* networks,
                   const std::vector<std::string>& options = {});
  static Crew torch(const Course& course, const tenon::test::Networks* networks);
  // The limit: the same bytes by sockets alone, which sum nothing (bare.cpp). [one thread; blocks]
  static Crew bare(const Course& course, const tenon::test::Networks& networks);

  const std::string& name() const noexcept { return name_; }
  bool is_limit() const noexcept { return is_limit_; }
  const std::string& why() const noexcept { return ranks_->why(); }
  // Brings it to its pace: plans by measured times, or buckets as it rebuilds them. [one thread; blocks]
  void prepare();
  // One step, whose figures are kept, in ms of the rank that takes longest. [one thread; blocks]
  void step();

  std::vector<double> steps{}, exposed{};
  std::vector<double> off{};  // % by which the prediction of backward and its sums was wrong; ours only

 private:
  Crew(std::string name, const std::vector<Peer::Command>& commands,
       const std::vector<Peer::Settings>& settings, std::string meeting)
      : name_(std::move(name)), ranks_(std::make_unique<Ranks>(commands, settings, std::move(meeting))) {}

  std::string name_;
  std::unique_ptr<Ranks> ranks_;
  double alone_ns_ = 0, predicted_ns_ = 0;
  bool is_limit_ = false;
};

}  // namespace bench
