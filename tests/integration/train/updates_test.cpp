// SPDX-License-Identifier: Apache-2.0
// updates_test.cpp: updates that start bucket by bucket give the bits of those that wait for all gradients, whatever the buckets, the
// optimizer and the device; they do start early; and what makes them wait is named.
#include "integration/overlap/model.hpp"
#include "integration/train/model.hpp"

#include <doctest/doctest.h>

#include <array>
#include <mutex>

using namespace train_test;
using overlap_test::crowds;
using overlap_test::eager_target;
using overlap_test::expect;
using overlap_test::open_cpu;
using overlap_test::Rank;
using overlap_test::together;

namespace {

constexpr int64_t own_rows = 2;  // samples of a rank and step

struct Course {
  std::string name;
  Strategy strategy{};
  Optimizer optimizer{.op = Op::adam, .rate = 0.02};
  int64_t hidden = 5;
  double clip_norm = 0;
  double latency_ns = 10;  // of each bucket, for the planner
};

Course evenly(std::string name) {
  Course out{.name = std::move(name)};
  out.strategy.uneven_batches = false;
  return out;
}

Result<Executor> opened(Rank& r, const Course& course, const Timeline& timeline = {}) {
  TrainingOptions options = course.strategy.training();
  options.optimizer = course.optimizer;
  options.clip_norm = course.clip_norm;
  options.ranks = r.size;
  const TrainingGraph step = TN_TRY(training_graph(network(own_rows, course.hidden), "loss", options));
  return Executor::open(step, r.device, course.strategy, r.comm,
                        {.timeline = timeline, .target = eager_target(course.latency_ns)});
}

// The hash of the plan of communication that holds.
std::string plan_of(const Executor& executor) {
  const std::string text = executor.explain();
  constexpr std::string_view before = ", plan ";
  return text.substr(text.find(before) + before.size(), 16);
}

Status take_steps(Executor& executor, Rank& r, uint64_t steps) {
  for (uint64_t i = 0; i < steps; ++i) {
    const Samples given = samples(own_rows, r.size * i + r.rank);
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
  }
  return executor.sync();
}

// Every rank's weights and states after some steps, summed in an order that buckets do not change. `plans`: rank 0's first and last.
std::vector<Everything> taught(const Device& device, uint32_t size, const Course& course, uint64_t steps,
                               std::array<std::string, 2>* plans = nullptr) {
  std::vector<Everything> out(size);
  std::mutex mutex;
  together(device, size,
           [&](Rank& r) -> Status {
             Executor executor = TN_TRY(opened(r, course));
             const std::string first = plan_of(executor);
             TN_TRY(begin(executor, 1 + r.rank));
             TN_TRY(executor.share());
             TN_TRY(take_steps(executor, r, steps));
             const Everything found = TN_TRY(everything(executor));
             if (r.rank == 0 && plans != nullptr) *plans = {first, plan_of(executor)};
             const std::lock_guard lock(mutex);
             out[r.rank] = found;
             return {};
           },
           {.deterministic = true});
  return out;
}

std::vector<Everything> taught_waiting(const Device& device, uint32_t size, Course course, uint64_t steps) {
  course.strategy.enable_backward_optimizer_op_deps = true;
  return taught(device, size, course, steps);
}

std::vector<Course> courses() {
  std::vector<Course> out;
  Course many = evenly("a bucket for each gradient, three streams, updates in parts");
  many.strategy.bucket_mode = BucketRule::per_tensor;
  many.strategy.nccl_comm_num = 3;
  many.hidden = 20'000;
  out.push_back(many);
  Course apart = evenly("each update alone, nothing in place");
  apart.strategy.enable_auto_fusion = apart.strategy.fuse_all_optimizer_ops = false;
  apart.strategy.enable_inplace = false;
  apart.optimizer.op = Op::sgd;
  out.push_back(apart);
  Course measured = evenly("planned anew, each update alone, by hand");
  measured.strategy.warm_up_steps = 2;
  measured.strategy.measure_every = 3;
  measured.strategy.fuse_all_optimizer_ops = false;
  measured.strategy.capture = false;
  measured.optimizer.op = Op::momentum;
  out.push_back(measured);
  Course again = evenly("planned anew, in pieces, captured");
  again.strategy.warm_up_steps = 2;
  again.strategy.measure_every = 4;
  again.strategy.partition_mb = 1;
  again.strategy.fuse_grad_max_layers = 2;
  again.hidden = 60'000;
  out.push_back(again);
  Course documents = evenly("as the documents cut, the host waiting for each");
  documents.strategy.bucket_mode = BucketRule::documents;
  documents.strategy.fuse_grad_max_layers = 1;
  documents.strategy.sync_nccl_allreduce = true;
  documents.strategy.fuse_all_optimizer_ops = false;
  documents.optimizer.op = Op::momentum;
  out.push_back(documents);
  Course one = evenly("all at once after backward");
  one.strategy.bucket_mode = BucketRule::none;
  one.optimizer.op = Op::adamw;
  out.push_back(one);
  return out;
}

}  // namespace

TEST_CASE("updates: bucket by bucket, weights and states have the bits of updates that wait for all") {
  const Device device = open_cpu();
  for (const Course& course : courses()) {
    for (const uint32_t size : crowds()) {
      CAPTURE(course.name);
      CAPTURE(size);
      const std::vector<Everything> found = taught(device, size, course, 9);
      CHECK(!found[0].empty());
      CHECK(found[0] == found[size - 1]);
      CHECK(found == taught_waiting(device, size, course, 9));
    }
  }
}

TEST_CASE("updates: behind another plan they wait for the buckets of that one") {
  const Device device = open_cpu();
  int changed = 0;
  // One of these is long beside the arrivals that are predicted and short beside those that are measured, or the other way round.
  for (const double latency_ns : {1e2, 1e3, 1e4, 3e4, 1e5, 3e5, 1e6}) {
    CAPTURE(latency_ns);
    Course course = evenly("planned anew");
    course.strategy.warm_up_steps = 1;
    course.strategy.fuse_all_optimizer_ops = false;
    course.hidden = 3'000;
    course.latency_ns = latency_ns;
    std::array<std::string, 2> plans;
    const std::vector<Everything> found = taught(device, 2, course, 6, &plans);
    changed += plans[0] != plans[1];
    CHECK(found == taught_waiting(device, 2, course, 6));
  }
  CHECK(changed > 0);
  MESSAGE("plans that changed: ", changed, " of 7");
}

TEST_CASE("updates: a division by the number of ranks has the bits of one by what they tell") {
  const Device device = open_cpu();
  for (const double clip_norm : {0.0, 0.2}) {
    for (const uint32_t size : {2u, 4u}) {
      Course even = evenly("even"), told{.name = "told"};
      even.clip_norm = told.clip_norm = clip_norm;
      const std::vector<Everything> found = taught(device, size, even, 9);
      CHECK(!found[0].empty());
      CHECK(found == taught(device, size, told, 9));
    }
  }
}

TEST_CASE("updates: on a device that runs nothing before somebody demands it, they have the same bits") {
  auto runtime = comm_test::runtime({{"sim.profile", "plain"}});
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  const auto device = runtime->device("sim");
  REQUIRE_MESSAGE(device.ok(), device.message());
  for (const bool captured : {true, false}) {
    Course course = evenly("simulated");
    course.strategy.bucket_mode = BucketRule::per_tensor;
    course.strategy.nccl_comm_num = 2;
    course.strategy.fuse_all_optimizer_ops = false;
    course.strategy.capture = captured;
    course.strategy.warm_up_steps = 2;
    const std::vector<Everything> found = taught(*device, 2, course, 7);
    CHECK(!found[0].empty());
    CHECK(found == taught_waiting(*device, 2, course, 7));
  }
}

TEST_CASE("updates: each of what makes them wait is named, and without any they are in parts") {
  struct Told {
    std::string line;
    Course course;
  };
  std::vector<Told> all;
  const auto add = [&](std::string line) -> Course& {
    all.push_back({"updates  " + std::move(line) + "\n", evenly("")});
    all.back().course.strategy.fuse_all_optimizer_ops = false;
    return all.back().course;
  };
  add("in 4 parts, each behind its own buckets");
  add("wait for all gradients: possibly uneven batches").strategy.uneven_batches = true;
  add("wait for all gradients: clipping by global norm").clip_norm = 1;
  add("wait for all gradients: clipping by global norm").strategy.clip_global_norm = true;
  Strategy& scaled = add("wait for all gradients: loss scaling").strategy;
  scaled.amp = true;
  scaled.amp_dtype = f16;
  scaled.custom_white_list = {"mul"};
  add("wait for all gradients: enable_backward_optimizer_op_deps")
      .strategy.enable_backward_optimizer_op_deps = true;
  add("in one part, behind all gradients: more launches would not pay").strategy.fuse_all_optimizer_ops =
      true;
  for (const Told& told : all) {
    together(2, [&](Rank& r) -> Status {
      Executor executor = TN_TRY(opened(r, told.course));
      const std::string text = executor.explain();
      return expect(text.find(told.line) != std::string::npos, told.line + "is not in\n" + text);
    });
  }
}

TEST_CASE("updates: large ones are fused in parts, in the order in which gradients come") {
  together(2, [](Rank& r) -> Status {
    Course course = evenly("large");
    course.hidden = 200'000;
    Executor executor = TN_TRY(opened(r, course));
    std::vector<std::string> first;  // of each launch of updates
    for (const FusionGroup& group : executor.plan().cut().groups) {
      const Graph::Node& node = executor.plan().graph().nodes()[group.nodes.front()];
      if (node.op == Op::adam) first.push_back(executor.plan().graph().values()[node.inputs[0]].name);
    }
    const std::string text = executor.explain();
    TN_TRY(expect(first.size() > 1 && first.front().starts_with("fc2.") && first.back().starts_with("fc1."),
                  text));
    return expect(text.find("updates  in " + std::to_string(first.size()) + " parts") != std::string::npos,
                  text);
  });
}

TEST_CASE("updates: those of early buckets run while the last one is on the wire, and else none does") {
  constexpr uint64_t steps = 12;
  for (const bool wait : {false, true}) {
    together(2, [&](Rank& r) -> Status {
      Timeline timeline = TN_TRY(Timeline::create(r.device, {.rank = r.rank}));
      Course course = evenly("traced");
      course.strategy.enable_backward_optimizer_op_deps = wait;
      course.strategy.bucket_mode = BucketRule::per_tensor;
      course.strategy.fuse_all_optimizer_ops = false;
      course.strategy.warm_up_steps = 0;
      course.hidden = 100'000;  // the last gradient takes much longer to send than the first is to update by
      Executor executor = TN_TRY(opened(r, course, timeline));
      TN_TRY(begin(executor, 1));
      TN_TRY(executor.sync());
      static_cast<void>(timeline.take());
      TN_TRY(take_steps(executor, r, steps));
      const Trace trace = timeline.take();
      const auto last = static_cast<uint32_t>(executor.figures().all_reduces - 1);
      std::vector<TraceEvent> sent, updates;
      std::vector<uint64_t> waits(last + 1);
      for (const TraceEvent& event : trace.events) {
        if (event.kind == TraceKind::collective && event.bucket == last) sent.push_back(event);
        if (event.name == "adam fc2.b.update") updates.push_back(event);
        const bool here = trace.lanes[event.lane].stream == "compute";
        if (here && event.kind == TraceKind::wait && event.bucket) ++waits[*event.bucket];
      }
      TN_TRY(expect(last == 3 && sent.size() == steps && updates.size() == steps, "other events"));
      uint64_t early = 0;
      for (uint64_t i = 0; i < steps; ++i) early += updates[i].end_ns < sent[i].end_ns;
      TN_TRY(expect((early > 0) == !wait, std::to_string(early) + " updates were early"));
      // The last of a stream is waited for once more, by what ends the step.
      const std::vector<uint64_t> by_bucket{steps, steps, steps, 2 * steps}, at_once{0, 0, 0, steps};
      return expect(waits == (wait ? at_once : by_bucket), "other waits");
    });
  }
}
