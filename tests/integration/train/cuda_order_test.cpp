// SPDX-License-Identifier: Apache-2.0
// cuda_order_test.cpp: whole training steps on the CUDA plugin, on a driver that runs what it may in the worst order.
//
// Two ranks of one device train a network by launches and by captured graphs, a bucket for each gradient, over three streams for
// communication. In every order that was allowed their weights are those of a driver that takes work as it comes, bit by bit.
// With one of the waits dropped by the driver they are not, or this test shows nothing.
#include "integration/overlap/model.hpp"
#include "integration/train/model.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <array>
#include <mutex>

using namespace train_test;
using overlap_test::eager_target;
using overlap_test::Rank;
using overlap_test::together;

namespace {

constexpr uint32_t size = 2;
constexpr int64_t batch = 4;  // of each rank
constexpr uint64_t steps = 6;

using Weights = std::array<Everything, size>;

// Settings of the driver for the next runtime, which opens the very same library. The context that the plugin keeps is taken from it.
void configure(const std::string& settings) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE((library != nullptr));
  const auto reset = reinterpret_cast<int (*)(int)>(dlsym(library, "cuDevicePrimaryCtxReset_v2"));
  REQUIRE((reset != nullptr));
  static_cast<void>(reset(0));
  const auto set = reinterpret_cast<int (*)(const char*)>(dlsym(library, "fakecuda_configure"));
  REQUIRE((set != nullptr));
  REQUIRE(set(settings.c_str()) == 0);
}

// Kernels are compiled once for all runtimes of this process.
const std::string& cache() {
  static const tenon::test::TempFolder folder;
  return folder.path();
}

struct Manner {
  bool capture = false;
  bool by_bucket = false;  // updates start so
  bool sharded = false;
};

Strategy way(const Manner& manner) {
  Strategy out;
  out.capture = manner.capture;
  out.sharded = manner.sharded;
  out.uneven_batches = out.fuse_all_optimizer_ops = !manner.by_bucket;
  out.bucket_mode = BucketRule::per_tensor;
  out.nccl_comm_num = 3;
  return out;
}

Status train(Rank& r, const Strategy& strategy, Everything& out) {
  TrainingOptions options = strategy.training();
  options.optimizer = {.op = Op::adam, .rate = 0.02};
  options.ranks = size;
  const TrainingGraph step = TN_TRY(training_graph(network(batch), "loss", options));
  Executor executor = TN_TRY(Executor::open(step, r.device, strategy, r.comm, {.target = eager_target()}));
  TN_TRY(begin(executor, 1 + r.rank));
  TN_TRY(executor.share());
  for (uint64_t i = 0; i < steps; ++i) {
    const Samples given = samples(batch, size * i + r.rank);
    TN_TRY(executor.run({fed("x", given.x), fed("y", given.y)}));
  }
  out = TN_TRY(everything(executor));
  return {};
}

Weights trained(const Manner& manner, const std::string& settings) {
  configure(settings);
  auto runtime =
      comm_test::runtime({{"cuda.cache", cache()}, {"cuda.cublaslt", "off"}, {"cuda.cudnn", "off"}});
  REQUIRE_MESSAGE(runtime.ok(), runtime.message());
  const auto device = runtime->device("cuda");
  REQUIRE_MESSAGE(device.ok(), device.message());
  Weights out;
  together(*device, size, [&](Rank& r) { return train(r, way(manner), out[r.rank]); });
  return out;
}

// Nothing runs early because this machine is busy.
std::string adversary(uint64_t seed) { return "idle_ms=1000,seed=" + std::to_string(seed); }

}  // namespace

TEST_CASE("cuda order: whole steps give the same weights in every order that was allowed") {
  const uint64_t first = tenon::test::seed() % 1'000'000;
  const int count = tenon::test::full_or("adversarial seeds", 10, 1000);
  int wrong = 0;
  const Manner manners[] = {{}, {.capture = true}, {.by_bucket = true}, {true, true}, {.sharded = true}};
  for (size_t i = 0; i < std::size(manners); ++i) {
    CAPTURE(manners[i].capture);
    CAPTURE(manners[i].by_bucket);
    CAPTURE(manners[i].sharded);
    const Weights meant = trained(manners[i], "");
    CHECK(!meant[0].empty());
    CHECK(meant[0] == meant[1]);
    // Each has its share of the seeds.
    for (uint64_t seed = first + i; seed < first + static_cast<uint64_t>(count); seed += std::size(manners)) {
      CAPTURE(seed);
      const bool right = trained(manners[i], adversary(seed)) == meant;
      CHECK(right);
      wrong += right ? 0 : 1;
    }
  }
  MESSAGE("order violations: ", wrong, " in ", count, " trainings of ", steps, " steps on ", size, " ranks");
}

TEST_CASE("cuda order: a wait that the driver drops spoils the weights in some order") {
  // Of some 170 waits; those before the first step are for what is over by itself, mostly.
  constexpr int first = 40, span = 120;
  constexpr uint64_t tries = 6;
  const int count = tenon::test::full_or("planted missing waits", 6, 40);
  const Weights meant = trained({}, "");
  int caught = 0;
  for (int plant = 0; plant < count; ++plant) {
    const std::string dropped = ",drop_wait=" + std::to_string(first + span * plant / count);
    bool seen = false;
    for (uint64_t seed = 1; seed <= tries && !seen; ++seed)
      seen = trained({}, adversary(seed) + dropped) != meant;
    caught += seen ? 1 : 0;
  }
  MESSAGE("planted missing waits found: ", caught, " of ", count);
  CHECK(caught >= count / 3);
}
