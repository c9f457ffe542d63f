// SPDX-License-Identifier: Apache-2.0
// timeline_test.cpp: what a GradientSync does, as events: collectives, copies, and every wait with its stream, rank and bucket.
#include "model.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace overlap_test;

namespace {

constexpr uint32_t steps = 3;
const std::vector<uint64_t> sizes{100, 2'000, 30'000, 4};  // a bucket each

std::string called(uint32_t bucket) { return "bucket " + std::to_string(bucket); }

// Events of one kind, in one lane or ("") in all, and of one bucket where one is given.
std::vector<TraceEvent> found(const Trace& trace, TraceKind kind, const std::string& lane,
                              std::optional<uint32_t> bucket = {}) {
  std::vector<TraceEvent> out;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == kind && (lane.empty() || trace.lanes[event.lane].stream == lane) &&
        (!bucket || event.bucket == bucket))
      out.push_back(event);
  }
  return out;
}

// A rank's timeline of some steps in which `ready` tells of all gradients.
Result<Trace> traced(Rank& r, std::vector<Gradient> model, OverlapOptions overlap, SyncOptions options,
                     const std::function<Status(GradientSync&)>& ready, CommPlan* plan = nullptr) {
  Timeline timeline = TN_TRY(Timeline::create(r.device, {.rank = r.rank}));
  options.warm_up_steps = 0;
  options.timeline = timeline;
  overlap.fuse_grad_max_layers = 1;
  GradientSync sync =
      TN_TRY(GradientSync::create(r.device, r.comm, arriving(std::move(model)), overlap, std::move(options)));
  for (uint32_t step = 0; step < steps; ++step) {
    TN_TRY(sync.begin(r.stream));
    TN_TRY(ready(sync));
    TN_TRY(sync.finish(r.stream));
    if (!overlap.sharded) continue;
    TN_TRY(sync.gather(r.stream));
    for (uint32_t i = 0; i < sizes.size(); ++i) TN_TRY(sync.await(r.stream, i));
  }
  TN_TRY(r.stream.sync());
  if (plan != nullptr) *plan = sync.plan();
  return timeline.take();
}

Status tell_all(GradientSync& sync) {
  for (const uint32_t i : {3u, 2u, 1u, 0u}) TN_TRY(sync.ready(i));
  return {};
}

}  // namespace

TEST_CASE(
    "overlap timeline: a bucket waits for its gradients, and what comes after it waits for the bucket") {
  together(3, [](Rank& r) -> Status {
    CommPlan plan;
    const Trace trace = TN_TRY(
        traced(r, parameters(sizes), {.nccl_comm_num = 2}, {.target = eager_target()}, tell_all, &plan));
    TN_TRY(expect(plan.buckets().size() == sizes.size() && plan.streams() == 2, "another plan was expected"));
    const std::string compute = "rank " + std::to_string(r.rank);
    std::vector<uint32_t> last(plan.streams());
    for (uint32_t bucket = 0; bucket < plan.buckets().size(); ++bucket) {
      const std::string lane = "gradients " + std::to_string(plan.buckets()[bucket].stream);
      last[plan.buckets()[bucket].stream] = bucket;
      const auto waits = found(trace, TraceKind::wait, lane, bucket),
                 sent = found(trace, TraceKind::collective, lane, bucket);
      TN_TRY(expect(waits.size() == steps && sent.size() == steps, called(bucket) + " has other events"));
      for (uint32_t i = 0; i < steps; ++i) {
        TN_TRY(expect(waits[i].name == called(bucket) && sent[i].name == called(bucket), "another name"));
        TN_TRY(
            expect(waits[i].end_ns <= sent[i].begin_ns, called(bucket) + " left before its wait was over"));
        TN_TRY(expect(trace.lanes[waits[i].lane].rank == r.rank, "another rank"));
      }
    }
    for (const uint32_t bucket : last) {
      const auto waits = found(trace, TraceKind::wait, compute, bucket),
                 sent = found(trace, TraceKind::collective, "", bucket);
      TN_TRY(expect(waits.size() == steps, "the compute stream has other waits"));
      for (uint32_t i = 0; i < steps; ++i)
        TN_TRY(expect(waits[i].end_ns >= sent[i].end_ns, "computing went on before " + called(bucket)));
    }
    TN_TRY(
        expect(found(trace, TraceKind::kernel, compute).size() == steps, "averages are not one event each"));
    return expect(found(trace, TraceKind::wait, "").size() == steps * (sizes.size() + 2),
                  "there are more waits");
  });
}

TEST_CASE("overlap timeline: where the number of ranks divides, each bucket is divided behind its own sum") {
  together(2, [](Rank& r) -> Status {
    const Trace trace = TN_TRY(traced(r, parameters(sizes), {.nccl_comm_num = 2},
                                      {.average = Average::ranks, .target = eager_target()}, tell_all));
    const std::string compute = "rank " + std::to_string(r.rank);
    for (uint32_t bucket = 0; bucket < sizes.size(); ++bucket) {
      const auto sent = found(trace, TraceKind::collective, "", bucket),
                 divided = found(trace, TraceKind::kernel, compute, bucket);
      TN_TRY(expect(divided.size() == steps, called(bucket) + " is divided more or less often"));
      for (uint32_t i = 0; i < steps; ++i)
        TN_TRY(expect(divided[i].begin_ns >= sent[i].end_ns, called(bucket) + " was divided too soon"));
    }
    return {};
  });
}

TEST_CASE(
    "overlap timeline: where the host waits for a bucket, its thread has an event, which counts in no sum") {
  together(2, [](Rank& r) -> Status {
    const Trace trace = TN_TRY(
        traced(r, parameters(sizes), {.sync_nccl_allreduce = true}, {.target = eager_target()}, tell_all));
    for (uint32_t bucket = 0; bucket < sizes.size(); ++bucket) {
      const auto host = found(trace, TraceKind::host, "host", bucket),
                 sent = found(trace, TraceKind::collective, "", bucket);
      const bool last =
          bucket + 1 == sizes.size();  // for it the host also waits until the tail may be written
      TN_TRY(expect(host.size() == steps * (last ? 2 : 1), called(bucket) + " has other waits of the host"));
      for (uint32_t i = 0; i < steps; ++i)
        TN_TRY(expect(host[last ? 2 * i + 1 : i].end_ns >= sent[i].end_ns, "the host did not wait"));
      TN_TRY(expect(trace.lanes[host[0].lane].device.empty(), "the host is no device"));
    }
    Trace without = trace;
    std::erase_if(without.events, [](const TraceEvent& event) { return event.kind == TraceKind::host; });
    const TraceTotals with = summarize(trace).all, same = summarize(without).all;
    TN_TRY(expect(with.wall_ns == same.wall_ns && with.wait_ns == same.wait_ns &&
                      with.busy_ns == same.busy_ns && with.exposed_ns == same.exposed_ns,
                  "the host's waits count"));
    return expect(TN_TRY(Trace::parse(trace.json())).lanes == trace.lanes, "the lanes were not read back");
  });
}

TEST_CASE(
    "overlap timeline: rows are copied, gathered and divided, gradients from elsewhere are copied twice") {
  together(2, [](Rank& r) -> Status {
    std::vector<Gradient> model = parameters(sizes);
    model[1].sparse = true;
    model[1].row_elements = 20;
    model[1].most_rows = 5;
    const Buffer own = TN_TRY(r.buffer(30'000 * sizeof(float)));
    const Buffer rows = TN_TRY(r.buffer(5 * 20 * sizeof(float)));
    const Buffer indices = TN_TRY(r.buffer(5 * sizeof(int64_t)));
    for (const Buffer* buffer : {&own, &rows, &indices}) TN_TRY(r.stream.fill(*buffer));
    const Trace trace =
        TN_TRY(traced(r, model, {}, {.target = eager_target()}, [&](GradientSync& sync) -> Status {
          TN_TRY(sync.bring(2, own));
          TN_TRY(sync.bring_rows(1, indices, rows));
          for (const uint32_t i : {3u, 0u}) TN_TRY(sync.ready(i));
          return {};
        }));
    const auto named = [&](TraceKind kind, const std::string& name) {
      auto events = found(trace, kind, "");
      std::erase_if(events, [&](const TraceEvent& event) { return event.name != name; });
      return events;
    };
    const std::string table = "rows of fc1.weight";
    TN_TRY(expect(named(TraceKind::wait, "rows").size() == steps, "rows wait otherwise"));
    const auto gathered = named(TraceKind::collective, table), copied = named(TraceKind::copy, table);
    TN_TRY(expect(gathered.size() == steps && copied.size() == steps, "rows are sent otherwise"));
    const uint64_t block = 5 * (sizeof(int64_t) + 20 * sizeof(float));
    TN_TRY(expect(gathered[0].bytes == 2 * block && copied[0].bytes == block, "rows have other bytes"));
    TN_TRY(expect(!gathered[0].bucket, "rows are in no bucket"));
    TN_TRY(expect(named(TraceKind::kernel, table).size() == steps, "rows are divided otherwise"));
    std::map<std::string, uint64_t> brought;
    for (const TraceEvent& event : found(trace, TraceKind::copy, ""))
      if (event.bucket) brought[trace.lanes[event.lane].stream] += event.bytes;
    TN_TRY(expect(brought["gradients 0"] == steps * own.bytes(), "what was brought was not copied once"));
    return expect(brought["rank " + std::to_string(r.rank)] == steps * own.bytes(), "nor taken back once");
  });
}

TEST_CASE("overlap timeline: in sharded mode, who reads a parameter waits for the gather of its bucket") {
  together(2, [](Rank& r) -> Status {
    CommPlan plan;
    const Trace trace =
        TN_TRY(traced(r, parameters(sizes), {.sharded = true}, {.target = eager_shards()}, tell_all, &plan));
    size_t awaited = 0;
    for (const TraceEvent& event : found(trace, TraceKind::wait, "")) {
      if (event.name == "gather of bucket " + std::to_string(event.bucket.value_or(99))) ++awaited;
    }
    TN_TRY(expect(awaited == steps * sizes.size(), "there are other waits for gathers"));
    const auto updates = found(trace, TraceKind::wait, "gradients 0");
    const auto of_updates = std::count_if(updates.begin(), updates.end(),
                                          [](const TraceEvent& event) { return event.name == "updates"; });
    return expect(of_updates == steps, "gathers wait otherwise for updates");
  });
}
