// SPDX-License-Identifier: Apache-2.0
// sync_state.hpp: what a GradientSync holds. Its planning is in sync_plan.cpp, its steps are in gradient_sync.cpp.
//
// Invariant: which step is measured and when a plan is made follow from counts that all ranks share, so they take part in
// every exchange together.
#pragma once

#include <tenon/gradient_sync.hpp>

#include "base/text.hpp"
#include "overlap/agree.hpp"
#include "overlap/average.hpp"
#include "overlap/issuer.hpp"
#include "overlap/measure.hpp"
#include "overlap/shards.hpp"
#include "overlap/sparse_lane.hpp"
#include "overlap/sums.hpp"

namespace tenon {

struct GradientSync::State {
  State(Device on, Communicator among, const OverlapOptions& overlap, SyncOptions settings)
      : device(std::move(on)),
        comm(std::move(among)),
        asked(overlap),
        options(std::move(settings)),
        timeline(options.timeline) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Status open(std::span<const Gradient> parameters);
  Status share_arrivals();
  Result<CommPlan> first_plan(const OverlapOptions& options) const;
  Status find_costs(uint64_t bytes);
  Status find_company(uint64_t bytes);
  void keep_routes_there_are();
  HierarchyOptions grouping(uint64_t bytes) const;
  Result<overlap::Lane> another_lane(uint32_t number);
  Result<bool> adopt(Result<CommPlan> planned);
  Result<bool> replan(bool judged);
  Result<bool> begin(Stream& on, Backward how);
  Status send(const Contribution& mine);
  Status finish(Stream& stream, const Contribution& mine);
  Status divide(Stream& stream);
  Status tell(uint32_t i, const Point& when, const tn_span* from);
  Status bring_rows(uint32_t i, const tn_span& indices, const tn_span& values);
  Status arrive(uint32_t i, const Point& when, const tn_span& from);
  std::string called(uint32_t i) const { return "parameter " + base::quoted(step.gradients[i].name); }
  Result<bool> join(Stream& stream);
  Status check_sum(const tn_span& numbers, DType dtype) const;
  Status sum(Stream& stream, const tn_span& numbers, DType dtype);
  Status release(bool now);
  Status gather(Stream& updated);
  Result<CommTail::Reading> totals(Stream& stream);
  Status refuse_unless(bool running) const;
  Status refuse_unless_sharded(const char* call) const;
  Status refuse_ungathered() const;
  Status refuse_sent() const;
  Status check_await(uint32_t bucket) const;
  Status let_go();
  Status follow(Stream& stream);
  bool is_measured() const noexcept;
  // Whether buckets leave between sums: one rank has nobody to keep an order with.
  bool is_ordered() const noexcept { return options.sums && comm.size() > 1; }

  // A failure that leaves this rank out of step with the others is remembered.
  Status kept(Status status) {
    if (!status.ok() && broken.ok()) broken = Status(status.error());
    return status;
  }

  Device device;
  Communicator comm;
  const OverlapOptions asked;
  const SyncOptions options;
  Timeline timeline;
  StepProfile step{};
  CommTarget target{};
  overlap::Basis basis{};
  std::vector<overlap::Lane> lanes{};
  CommPlan plan{};
  Buffer arena{};
  overlap::Averaging averaging{};
  overlap::Issuer issuer{};
  overlap::Shards shards{};
  overlap::SparseLane sparse{};
  overlap::Sums sums{};
  overlap::Arrivals arrivals{};
  Stream compute{}, reader{}, updater{};  // of the last begin, of the last finish, of the last gather
  Point done{};                           // the averages, or zeros of a new arena, are there
  Status broken{};
  uint64_t steps = 0;            // that were sent
  overlap::CopyTotals copied{};  // by issuers before this one
  bool running = false, measured = false;
  bool sent = false;        // the backward that runs, by `send`
  bool ungathered = false;  // sharded mode: the last step is finished, and its updates have not gone to all
};

}  // namespace tenon
