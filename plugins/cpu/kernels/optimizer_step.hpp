// SPDX-License-Identifier: Apache-2.0
// optimizer_step.hpp: the elementwise work of many nodes in few parallel regions.
//
// A stage is work whose parts do not depend on one another; small tensors share a chunk, large ones are cut into several.
// Invariant: what a job computes does not depend on how it is cut, so any team gives the same bits.
#pragma once

#include "step.hpp"

#include <memory>

namespace tenon::cpu {

// One tensor's part of a stage.
class Job {
 public:
  virtual ~Job() = default;
  virtual uint64_t count() const noexcept { return 0; }
  // Once, before any element of its stage. [worker thread; does not block; cannot fail]
  virtual void prepare(const Run& /*run*/) const noexcept {}
  // Elements [begin, begin + n), n > 0. [worker threads, several at once; does not block; cannot fail]
  virtual void run(const Run& /*run*/, uint64_t /*begin*/, uint64_t /*n*/) const noexcept {}
};

class UpdateStep final : public Step {
 public:
  explicit UpdateStep(size_t stages) : stages_(stages) {}

  void add(size_t stage, std::unique_ptr<Job> job) { stages_[stage].jobs.push_back(std::move(job)); }
  // Cuts every stage for a team of `threads`; once, after the last job.
  void cut(unsigned threads);

  Status run(const Run& run) const override;
  std::string engine() const override { return "update"; }

 private:
  struct Piece {
    const Job* job;
    uint64_t begin, count;
  };
  struct Stage {
    std::vector<std::unique_ptr<Job>> jobs;
    std::vector<Piece> pieces;
    std::vector<size_t> chunks;  // where each begins among the pieces, and where the last ends
    uint64_t grain = 1;          // chunks that are worth another thread
  };
  static void cut(Stage& stage, unsigned threads);

  std::vector<Stage> stages_;
};

}  // namespace tenon::cpu
