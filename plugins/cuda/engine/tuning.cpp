// SPDX-License-Identifier: Apache-2.0
// tuning.cpp: memory to run on, and the clock.
#include "tuning.hpp"

#include <tenon/device.h>

#include <algorithm>
#include <chrono>

namespace tenon::cuda {

namespace {

constexpr double most_runs = 20;

class Trials {
 public:
  Trials(Problem& problem, double budget_ms)
      : problem_(problem), context_(*problem.handle()->gpu()->context()), budget_ms_(budget_ms) {}
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;
  // What was enqueued works on the memory that ends with this.
  ~Trials() {
    if (stream_ == nullptr) return;
    context_.driver().cuStreamSynchronize(stream_);
    context_.driver().cuStreamDestroy(stream_);
  }

  Status prepare(const std::vector<uint64_t>& bytes, uint64_t workspace_bytes) {
    TN_CUDA_IN(context_, cuStreamCreateWithPriority, &stream_, CU_STREAM_NON_BLOCKING, 0);
    for (const uint64_t size : bytes) places_.push_back(TN_TRY(take(size)));
    workspace_ = TN_TRY(take(workspace_bytes));
    begin_ = TN_TRY(context_.events().take(true));
    end_ = TN_TRY(context_.events().take(true));
    return {};
  }

  // The first run warms up and says how many fit the pick's share of the budget.
  Result<Pick> run(Pick pick, size_t count) {
    const double first = TN_TRY(time(pick, 1))
    , share = budget_ms_ / static_cast<double>(count);
    const auto runs = static_cast<int>(std::clamp(share / std::max(first, 1e-3) - 1, 1.0, most_runs));
    pick.cost_ns = 1e6 * TN_TRY(time(pick, runs))
    / runs;
    return pick;
  }

 private:
  Result<CUdeviceptr> take(uint64_t bytes) {
    if (bytes == 0) return CUdeviceptr{0};
    storage_.push_back(TN_TRY(map_pages(problem_.handle()->gpu()->context(), bytes, TN_MEMORY_ALIGNMENT)));
    const CUdeviceptr at = storage_.back()->address();
    TN_CUDA_IN(context_, cuMemsetD8Async, at, 0, bytes, stream_);
    return at;
  }

  // In milliseconds.
  Result<double> time(const Pick& pick, int runs) {
    TN_CUDA_IN(context_, cuEventRecord, begin_.native(), stream_);
    for (int i = 0; i < runs; ++i) TN_TRY(problem_.run(stream_, pick, places_.data(), workspace_));
    TN_CUDA_IN(context_, cuEventRecord, end_.native(), stream_);
    TN_CUDA_IN(context_, cuEventSynchronize, end_.native());
    float spent = 0;
    TN_CUDA_IN(context_, cuEventElapsedTime, &spent, begin_.native(), end_.native());
    return static_cast<double>(spent);
  }

  Problem& problem_;
  Context& context_;
  const double budget_ms_;
  std::vector<std::unique_ptr<Storage>> storage_{};
  std::vector<CUdeviceptr> places_{};
  CUdeviceptr workspace_ = 0;
  EventRef begin_{}, end_{};
  CUstream stream_ = nullptr;
};

}  // namespace

Result<Pick> fastest_of(const std::vector<Pick>& picks, Problem& problem, const std::vector<uint64_t>& bytes,
                        double budget_ms) {
  const Context& context = *problem.handle()->gpu()->context();
  const Relaxed relaxed(context.driver());
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(budget_ms);
  uint64_t workspace = 0;
  for (const Pick& pick : picks) workspace = std::max(workspace, pick.workspace_bytes);
  Trials trials(problem, budget_ms);
  const Status ready = trials.prepare(bytes, workspace);
  if (ready.code() == TN_NO_MEMORY) return picks.front();
  if (!ready.ok()) return Status(ready.error());
  Pick best = picks.front();
  for (const Pick& pick : picks) {
    const Result<Pick> timed = trials.run(pick, picks.size());
    TN_TRY(context.alive());
    if (timed.ok() && (best.cost_ns == 0 || timed->cost_ns < best.cost_ns)) best = *timed;
    if (std::chrono::steady_clock::now() > until) break;
  }
  return best;
}

}  // namespace tenon::cuda
