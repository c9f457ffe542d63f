// SPDX-License-Identifier: Apache-2.0
// updates_test.cpp: updates that start bucket by bucket: each bucket's sums are there for who awaits them, while later ones are held
// up; and who may not await them is told why.
#include "model.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace overlap_test;

namespace {

constexpr uint32_t early = 1, late = 0;  // positions of gradients; the last in the list is ready first

const OverlapOptions each_alone{.mode = BucketRule::per_tensor};

SyncOptions by_bucket() {
  return {.average = Average::none, .warm_up_steps = 0, .uneven_batches = false, .target = eager_target()};
}

// Opened once, at the latest when it goes.
class Gate {
 public:
  ~Gate() { open(); }
  void open() {
    opened_ = true;
    opened_.notify_all();
  }
  void pass() const { opened_.wait(false); }

 private:
  std::atomic<bool> opened_{false};
};

// What all ranks bring for a gradient, and what comes of it: whole numbers, so sums are exact in any order.
std::vector<float> brought_by(uint32_t rank, uint32_t gradient, uint64_t elements) {
  return std::vector<float>(elements, static_cast<float>(10 * gradient + rank + 1));
}
std::vector<std::byte> summed(uint32_t ranks, uint32_t gradient, uint64_t elements) {
  float sum = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) sum += brought_by(rank, gradient, 1)[0];
  const std::vector<float> numbers(elements, sum);
  const auto* const bytes = reinterpret_cast<const std::byte*>(numbers.data());
  return {bytes, bytes + elements * sizeof(float)};
}

Status has_reason(const Status& refused, const std::string& part) {
  if (refused.code() != TN_INVALID) return Status(TN_INTERNAL, "not refused: " + part);
  const std::string text(refused.message());
  return expect(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE("updates: the sums of an early bucket are there while the last one is held up") {
  Gate gate;
  together(
      2,
      [&](Rank& r) -> Status {
        const std::vector<Gradient> model = arriving(parameters({300, 100}));
        GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, model, each_alone, by_bucket()));
        TN_TRY(expect(sync.plan().gate().empty() && sync.plan().buckets()[0].members[0].gradient == early,
                      [&] { return sync.plan().explain(); }));
        Stream held = TN_TRY(r.device.stream());
        TN_TRY(sync.begin(r.stream));
        TN_TRY(r.stream.upload(sync.gradient(early), brought_by(r.rank, early, 100)));
        TN_TRY(sync.ready(early));
        TN_TRY(r.stream.upload(sync.gradient(late), brought_by(r.rank, late, 300)));
        TN_TRY(held.wait(TN_TRY(r.stream.record())));
        if (r.rank == 1) TN_TRY(held.host_call([&] { gate.pass(); }));
        TN_TRY(sync.ready(late, TN_TRY(held.record())));
        TN_TRY(sync.send());
        TN_TRY(sync.await_bucket(r.stream, 0));
        Status found = r.expect(sync.gradient(early), summed(2, early, 100), "the early bucket");
        gate.open();
        TN_TRY(std::move(found));
        TN_TRY(sync.await_bucket(r.stream, 1));
        TN_TRY(r.expect(sync.gradient(late), summed(2, late, 300), "the late bucket"));
        TN_TRY(sync.finish(r.stream));
        const CommTail::Reading totals = TN_TRY(sync.totals(r.stream));
        return expect(totals.samples == 2 && totals.ranks_using == std::vector<uint32_t>{2, 2}, "totals");
      },
      {.timeout = std::chrono::seconds(60)});
}

TEST_CASE("updates: step after step, with pieces and plans that change, each bucket has its sums") {
  for (const uint32_t size : {1u, 2u, 3u}) {
    together(size, [&](Rank& r) -> Status {
      const std::vector<uint64_t> sizes{30, 700'000, 500, 4};
      SyncOptions options = by_bucket();
      options.warm_up_steps = 2;
      GradientSync sync = TN_TRY(
          GradientSync::create(r.device, r.comm, arriving(parameters(sizes)),
                               {.fuse_grad_max_layers = 2, .nccl_comm_num = 2, .partition_mb = 1}, options));
      for (int step = 0; step < 5; ++step) {
        TN_TRY(sync.begin(r.stream));
        for (const uint32_t i : {3u, 1u, 2u, 0u}) {
          TN_TRY(r.stream.upload(sync.gradient(i), brought_by(r.rank, i, sizes[i])));
          TN_TRY(sync.ready(i));
        }
        TN_TRY(sync.send());
        for (uint32_t bucket = 0; bucket < sync.plan().buckets().size(); ++bucket) {
          TN_TRY(sync.await_bucket(r.stream, bucket));
          for (const BucketMember& member : sync.plan().buckets()[bucket].members) {
            tn_span part = sync.gradient(member.gradient);
            part.offset += member.first;
            part.bytes = member.bytes;
            TN_TRY(r.expect(part, summed(size, member.gradient, member.bytes / sizeof(float)),
                            [&] { return sync.plan().explain(); }));
          }
        }
        TN_TRY(sync.finish(r.stream));
      }
      return {};
    });
  }
}

TEST_CASE("updates: in sharded mode a bucket's shard of this rank is there") {
  together(3, [](Rank& r) -> Status {
    const std::vector<uint64_t> sizes{300, 5'000, 40};
    SyncOptions options = by_bucket();
    options.target = overlap_test::eager_shards();
    OverlapOptions overlap = each_alone;
    overlap.sharded = true;
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, arriving(parameters(sizes)), overlap, options));
    for (int step = 0; step < 3; ++step) {
      TN_TRY(sync.begin(r.stream));
      for (const uint32_t i : {2u, 1u, 0u}) {
        TN_TRY(r.stream.upload(sync.gradient(i), brought_by(r.rank, i, sizes[i])));
        TN_TRY(sync.ready(i));
      }
      TN_TRY(sync.send());
      for (const Shard& shard : sync.shards()) {
        TN_TRY(sync.await_bucket(r.stream, shard.bucket));
        for (const Shard::Part& held : shard.parts) {
          tn_span part = shard.gradient;
          part.offset += held.at * sizeof(float);
          part.bytes = held.elements * sizeof(float);
          TN_TRY(r.expect(part, summed(r.size, held.parameter, held.elements), "a shard"));
        }
      }
      TN_TRY(sync.finish(r.stream));
      TN_TRY(sync.gather(r.stream));
    }
    return r.stream.sync();
  });
}

TEST_CASE("updates: who may not await a bucket, and what may not follow a send, is told") {
  together(1, [](Rank& r) -> Status {
    const auto made = [&](const SyncOptions& options) {
      return GradientSync::create(r.device, r.comm, arriving(parameters({8, 8})), each_alone, options);
    };
    GradientSync sync = TN_TRY(made(by_bucket()));
    TN_TRY(has_reason(sync.await_bucket(r.stream, 0), "no backward has begun"));
    TN_TRY(has_reason(sync.send(), "no backward has begun"));
    TN_TRY(sync.begin(r.stream));
    TN_TRY(has_reason(sync.await_bucket(r.stream, 0), "nothing was sent: call send"));
    TN_TRY(sync.ready(early));
    TN_TRY(has_reason(sync.send({.samples = UINT64_MAX}), "can be told"));
    TN_TRY(sync.send());
    TN_TRY(has_reason(sync.await_bucket(r.stream, 2), "there is no bucket 2: the plan has 2"));
    TN_TRY(sync.await_bucket(r.stream, 1));
    TN_TRY(has_reason(sync.send(), "this backward was sent"));
    TN_TRY(has_reason(sync.ready(late), "this backward was sent"));
    TN_TRY(has_reason(sync.clear(r.stream), "this backward was sent"));
    TN_TRY(has_reason(Status(sync.begin(r.stream).error()), "call finish"));
    TN_TRY(sync.finish(r.stream));
    TN_TRY(sync.begin(r.stream, Backward::no_sync));
    TN_TRY(sync.send());
    TN_TRY(has_reason(sync.await_bucket(r.stream, 0), "in a backward of sync"));
    TN_TRY(sync.finish(r.stream));

    SyncOptions divided = by_bucket(), gated = by_bucket();
    divided.average = Average::ranks;
    gated.clip_global_norm = true;
    for (const auto& [options, reason] :
         {std::pair(divided, "sums are divided in finish"), std::pair(gated, "clipping by global norm")}) {
      GradientSync other = TN_TRY(made(options));
      TN_TRY(other.begin(r.stream));
      TN_TRY(other.send());
      TN_TRY(has_reason(other.await_bucket(r.stream, 0), reason));
      TN_TRY(other.finish(r.stream));
    }
    return r.stream.sync();
  });
}

TEST_CASE("updates: a timeline has each wait for a bucket") {
  together(2, [](Rank& r) -> Status {
    SyncOptions options = by_bucket();
    Timeline timeline = TN_TRY(Timeline::create(r.device, {.rank = r.rank}));
    options.timeline = timeline;
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, arriving(parameters({300, 100})), each_alone, options));
    TN_TRY(sync.begin(r.stream));
    for (const uint32_t i : {early, late}) TN_TRY(sync.ready(i));
    TN_TRY(sync.send());
    for (const uint32_t bucket : {0u, 1u}) TN_TRY(sync.await_bucket(r.stream, bucket));
    TN_TRY(sync.finish(r.stream));
    const Trace trace = timeline.take();
    uint32_t waits[2] = {};
    for (const TraceEvent& event : trace.events) {
      const bool here = trace.lanes[event.lane].stream == "rank " + std::to_string(r.rank);
      if (here && event.kind == TraceKind::wait) ++waits[event.bucket.value_or(0)];
    }
    return expect(waits[0] == 1 && waits[1] == 2, "other waits than one each, and that of finish");
  });
}
