// SPDX-License-Identifier: Apache-2.0
// tuning.cpp: the options, memory to run on, and the clock.
#include "tuning.hpp"

#include <tenon/device.h>
#include <tenon/author/text.hpp>

#include <algorithm>
#include <chrono>

namespace tenon::cuda {

namespace {

constexpr double most_runs = 20;

class Trials {
 public:
  Trials(const Gpu& gpu, double share_ms) : context_(gpu.context()), share_ms_(share_ms) {}
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;
  // What was enqueued works on the memory that ends with this.
  ~Trials() {
    if (stream_ == nullptr) return;
    context_->driver().cuStreamSynchronize(stream_);
    context_->driver().cuStreamDestroy(stream_);
  }

  Status prepare(const author::FragmentView& fragment, uint64_t workspace_bytes) {
    TN_CUDA_IN(*context_, cuStreamCreateWithPriority, &stream_, CU_STREAM_NON_BLOCKING, 0);
    for (uint32_t i = 0; i < fragment.binding_count(); ++i)
      places_.push_back(TN_TRY(take(fragment.binding(i).extent_bytes())));
    workspace_ = TN_TRY(take(workspace_bytes));
    begin_ = TN_TRY(context_->events().take(true));
    end_ = TN_TRY(context_->events().take(true));
    return {};
  }

  // In nanoseconds. The first run warms up and says how many fit the trial's share of the budget.
  Result<double> run(const Trial& trial) {
    const double first = TN_TRY(time(trial, 1));
    const auto runs = static_cast<int>(std::clamp(share_ms_ / std::max(first, 1e-3) - 1, 1.0, most_runs));
    const double all = TN_TRY(time(trial, runs));
    return 1e6 * all / runs;
  }

 private:
  Result<CUdeviceptr> take(uint64_t bytes) {
    if (bytes == 0) return CUdeviceptr{0};
    storage_.push_back(TN_TRY(map_pages(context_, bytes, TN_MEMORY_ALIGNMENT)));
    const CUdeviceptr at = storage_.back()->address();
    TN_CUDA_IN(*context_, cuMemsetD8Async, at, 0, bytes, stream_);
    return at;
  }

  // In milliseconds.
  Result<double> time(const Trial& trial, int runs) {
    TN_CUDA_IN(*context_, cuEventRecord, begin_.native(), stream_);
    for (int i = 0; i < runs; ++i) TN_TRY(trial.run(stream_, places_, workspace_));
    TN_CUDA_IN(*context_, cuEventRecord, end_.native(), stream_);
    TN_TRY(outlast(*context_, end_));
    float spent = 0;
    TN_CUDA_IN(*context_, cuEventElapsedTime, &spent, begin_.native(), end_.native());
    return static_cast<double>(spent);
  }

  const std::shared_ptr<Context> context_;
  const double share_ms_;
  std::vector<std::unique_ptr<Storage>> storage_{};
  std::vector<CUdeviceptr> places_{};
  CUdeviceptr workspace_ = 0;
  EventRef begin_{}, end_{};
  CUstream stream_ = nullptr;
};

}  // namespace

Result<Effort> Effort::of(const author::Host& host) {
  Effort out;
  const char* const word = host.option("search");
  const std::string_view effort = word == nullptr ? "" : word;
  if (word != nullptr && effort != "off" && effort != "quick" && effort != "full") {
    return Status(TN_INVALID, author::text("option 'search' of plugin 'cuda' is '", effort,
                                           "': it must be off, quick or full"));
  }
  out.is_off = effort == "off";
  if (effort == "quick") out.unasked_ms = 250;
  if (effort == "full") out.unasked_ms = 10'000;
  out.most_workspace =
      static_cast<uint64_t>(TN_TRY(host.integer("workspace_limit", INT64_MAX, 0, INT64_MAX)));
  return out;
}

Result<Fastest> fastest_of(const Gpu& gpu, const author::FragmentView& fragment,
                           const std::vector<Trial>& trials, double budget_ms) {
  const Context& context = *gpu.context();
  const Relaxed relaxed(context.driver());
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double, std::milli>(budget_ms);
  uint64_t workspace = 0;
  for (const Trial& trial : trials) workspace = std::max(workspace, trial.workspace_bytes);
  Trials all(gpu, budget_ms / static_cast<double>(trials.size()));
  const Status ready = all.prepare(fragment, workspace);
  Fastest best;
  if (ready.code() == TN_NO_MEMORY) return best;
  if (!ready.ok()) return Status(ready.error());
  for (size_t i = 0; i < trials.size(); ++i) {
    const Result<double> ns = all.run(trials[i]);
    TN_TRY(context.alive());
    if (ns.ok() && (best.cost_ns == 0 || *ns < best.cost_ns)) best = {.index = i, .cost_ns = *ns};
    if (std::chrono::steady_clock::now() > until) break;
  }
  return best;
}

}  // namespace tenon::cuda
