// SPDX-License-Identifier: Apache-2.0
// sums_test.cpp: batch norms over all ranks whose sums go through the order of the buckets: right, in one order, never stuck.
#include "batch_norm.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"

#include <doctest/doctest.h>

#include <mutex>

using namespace overlap_test;

namespace {

// What all ranks draw alike: a row of layers, and how many samples each rank has.
struct NormWorld {
  uint32_t ranks = 2, layers = 3, steps = 2;
  std::vector<int64_t> rows{};  // of each rank
  OverlapOptions overlap{};
  SyncOptions options{};
  WholeBatch reference{};
  WholeBatch::Numbers x{}, dy{};
  bool accumulates = false;  // a backward of no_sync before each that sends
};

NormWorld draw(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(random() % n); };
  NormWorld w;
  w.ranks = 2 + below(4);
  w.layers = 1 + below(6);
  w.steps = 1 + below(3);
  w.accumulates = below(3) == 0;
  w.overlap.mode = below(2) == 0 ? BucketRule::per_tensor : BucketRule::automatic;
  w.overlap.fuse_grad_max_layers = 1 + below(3);
  w.overlap.nccl_comm_num = below(3);
  w.overlap.sync_nccl_allreduce = below(6) == 0;
  w.options.warm_up_steps = below(3);
  w.options.target = eager_target();
  w.options.sums = true;
  std::normal_distribution<double> normal;
  const auto numbers = [&](size_t count, double around) {
    WholeBatch::Numbers out(count);
    for (double& x : out) x = static_cast<float>(normal(random) + around);
    return out;
  };
  size_t all = 0;
  for (uint32_t r = 0; r < w.ranks; ++r) all += static_cast<size_t>(w.rows.emplace_back(4 + below(20)));
  w.x = numbers(all * channels, 0.5);
  w.dy = numbers(all * channels, 0);
  for (uint32_t layer = 0; layer < w.layers; ++layer) {
    w.reference.scale.push_back(numbers(channels, 0));
    for (double& x : w.reference.scale.back()) x = static_cast<float>(1 + std::abs(x));  // none near zero
    w.reference.bias.push_back(numbers(channels, 0));
  }
  w.reference.run(w.x, w.dy);
  return w;
}

std::vector<float> narrow(const WholeBatch::Numbers& wide, size_t first, size_t count) {
  return {wide.begin() + static_cast<std::ptrdiff_t>(first),
          wide.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

// One rank's steps. Gradients are told of in an order and at moments of its own.
class NormTraining {
 public:
  NormTraining(Rank& r, const NormWorld& w, uint64_t seed) : r_(r), w_(w), random_(seed * 31 + r.rank) {
    for (uint32_t i = 0; i < r.rank; ++i) first_ += static_cast<size_t>(w.rows[i]) * channels;
  }

  Status run(SyncOptions options) {
    const int64_t rows = w_.rows[r_.rank];
    const size_t count = static_cast<size_t>(rows) * channels;
    kernels_ = TN_TRY(NormKernels::make(r_.device, rows));
    std::vector<Gradient> model;
    for (uint32_t layer = 0; layer < w_.layers; ++layer) {
      for (const char* part : {".scale", ".bias"})
        model.push_back({.name = "bn" + std::to_string(layer) + part, .elements = channels});
      norms_.push_back(TN_TRY(Norm::make(r_, rows, narrow(w_.reference.scale[layer], 0, channels),
                                         narrow(w_.reference.bias[layer], 0, channels))));
    }
    x_ = TN_TRY(r_.buffer(count * sizeof(float)));
    dy_ = TN_TRY(r_.buffer(count * sizeof(float)));
    TN_TRY(r_.stream.upload(x_, narrow(w_.x, first_, count)));
    TN_TRY(r_.stream.upload(dy_, narrow(w_.dy, first_, count)));
    GradientSync sync =
        TN_TRY(GradientSync::create(r_.device, r_.comm, arriving(model), w_.overlap, std::move(options)));
    for (uint32_t step = 0; step < w_.steps; ++step) {
      if (w_.accumulates) TN_TRY(pass(sync, Backward::no_sync));
      TN_TRY(pass(sync, Backward::sync));
      TN_TRY(compare(sync, count));
    }
    return r_.stream.sync();
  }

 private:
  // The last pass's gradients are those that leave: what would add up is overwritten.
  Status pass(GradientSync& sync, Backward how) {
    const Buffer* in = &x_;
    for (Norm& norm : norms_) {
      TN_TRY(norm.forward(kernels_, r_.stream, sync, *in));
      in = &norm.y;
    }
    TN_TRY(sync.begin(r_.stream, how));
    std::vector<uint32_t> untold;
    const Buffer* out = &dy_;
    for (uint32_t layer = w_.layers; layer-- > 0;) {
      TN_TRY(norms_[layer].backward(kernels_, r_.stream, sync, layer, *out));
      out = &norms_[layer].dx;
      untold.insert(untold.end(), {2 * layer, 2 * layer + 1});
      while (!untold.empty() && random_() % 3 != 0) TN_TRY(tell_one(sync, untold));
    }
    while (!untold.empty()) TN_TRY(tell_one(sync, untold));
    const bool sends = how == Backward::sync;
    return sync.finish(r_.stream, {.samples = sends ? static_cast<uint64_t>(w_.rows[r_.rank]) : 0});
  }

  Status tell_one(GradientSync& sync, std::vector<uint32_t>& untold) {
    std::swap(untold[random_() % untold.size()], untold.back());
    const uint32_t told = untold.back();
    untold.pop_back();
    return sync.ready(told);
  }

  Status compare(GradientSync& sync, size_t count) {
    TN_TRY(close(norms_.back().y, narrow(w_.reference.y, first_, count), 1, "y"));
    TN_TRY(close(norms_.front().dx, narrow(w_.reference.dx, first_, count), 1, "dx"));
    const double samples = static_cast<double>(w_.x.size()) / channels;
    for (uint32_t layer = 0; layer < w_.layers; ++layer) {
      const std::string name = "bn" + std::to_string(layer);
      TN_TRY(close(sync.gradient(2 * layer), narrow(w_.reference.d_scale[layer], 0, channels), samples,
                   name + ".scale"));
      TN_TRY(close(sync.gradient(2 * layer + 1), narrow(w_.reference.d_bias[layer], 0, channels), samples,
                   name + ".bias"));
    }
    return {};
  }

  Status close(const tn_span& span, const std::vector<float>& expected, double over,
               const std::string& what) {
    std::vector<float> found(expected.size());
    TN_TRY(r_.stream.download(found, span));
    TN_TRY(r_.stream.sync());
    for (size_t i = 0; i < found.size(); ++i) {
      const double wanted = static_cast<double>(expected[i]) / over;
      if (!(std::abs(static_cast<double>(found[i]) - wanted) <= 2e-3 * (1 + std::abs(wanted))))
        return Status(TN_INTERNAL, what + ", element " + std::to_string(i) + ": " + std::to_string(found[i]) +
                                       ", expected " + std::to_string(wanted));
    }
    return {};
  }

  Rank& r_;
  const NormWorld& w_;
  std::mt19937_64 random_;
  size_t first_ = 0;  // of this rank's numbers in the whole batch
  NormKernels kernels_{};
  std::vector<Norm> norms_{};
  Buffer x_{}, dy_{};
};

// Gradients of a size each, so that a bucket is known by its bytes.
std::vector<Gradient> twelve() {
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < 12; ++i) sizes.push_back(512 + 16 * i);
  return arriving(parameters(sizes));
}

// An all-reduce that writes down when it was issued.
CommHook noted(std::vector<std::string>& log) {
  const auto sum = [&log](Communicator& comm, Stream& stream, const tn_span& span, DType dtype) {
    log.push_back("bucket of " + std::to_string(span.bytes) + " bytes");
    return comm.all_reduce(stream, span, span, dtype);
  };
  return {.name = "noted", .all_reduce = sum};
}

// A step of two sums in forward and `sums` in backward, each before two gradients.
Status note_step(Rank& r, GradientSync& sync, const Buffer& numbers, std::vector<std::string>& log,
                 std::mt19937_64& random, uint32_t sums) {
  const auto sum = [&]() -> Status {
    TN_TRY(sync.sum(r.stream, numbers, f32));
    log.push_back("sum");
    return {};
  };
  for (int i = 0; i < 2; ++i) TN_TRY(sum());
  TN_TRY(sync.begin(r.stream));
  std::vector<uint32_t> untold;
  for (uint32_t i = sums; i-- > 0;) {
    TN_TRY(sum());
    untold.insert(untold.end(), {2 * i, 2 * i + 1});
    while (!untold.empty() && random() % 4 != 0) {
      std::swap(untold[random() % untold.size()], untold.back());
      TN_TRY(sync.ready(untold.back()));
      untold.pop_back();
    }
  }
  for (const uint32_t i : untold) TN_TRY(sync.ready(i));
  return sync.finish(r.stream);
}

}  // namespace

TEST_CASE("sums: batch norms over all ranks are those of the whole batch, forward and backward") {
  const Device device = open_cpu();
  const uint64_t first = test::seed();
  const auto rounds = test::full_or<uint64_t>("worlds", 6, 400);
  for (uint64_t round = 0; round < rounds; ++round) {
    std::mt19937_64 random(first + round);
    const NormWorld world = draw(random);
    CAPTURE(round);
    together(device, world.ranks,
             [&](Rank& r) { return NormTraining(r, world, first + round).run(world.options); });
  }
}

TEST_CASE("sums: every rank launches sums and buckets in one order, whatever order its gradients come in") {
  const Device device = open_cpu();
  const uint64_t first = test::seed();
  const auto rounds = test::full_or<uint64_t>("rounds", 4, 200);
  size_t between = 0;  // buckets that left before the last sum of their backward
  for (uint64_t round = 0; round < rounds; ++round) {
    const auto ranks = static_cast<uint32_t>(2 + round % 4);
    std::vector<std::vector<std::string>> logs(ranks);
    together(device, ranks, [&](Rank& r) -> Status {
      std::mt19937_64 random((first + round) * 17 + r.rank);
      const Buffer numbers = TN_TRY(r.buffer(64));
      TN_TRY(r.stream.fill(numbers));
      std::vector<std::string>& log = logs[r.rank];
      GradientSync sync = TN_TRY(GradientSync::create(
          r.device, r.comm, twelve(), {.fuse_grad_max_layers = 1, .nccl_comm_num = 2},
          {.warm_up_steps = 0, .target = eager_target(), .hook = noted(log), .sums = true}));
      for (int step = 0; step < 4; ++step) TN_TRY(note_step(r, sync, numbers, log, random, 6));
      return r.stream.sync();
    });
    for (const auto& log : logs) CHECK(log == logs[0]);
    REQUIRE(logs[0].size() == 4 * (2 + 6 + 12));
    for (size_t i = 2; i + 2 < logs[0].size(); ++i)
      between += logs[0][i] != "sum" && logs[0][i + 1] == "sum" && logs[0][i + 2] != "sum" ? 1 : 0;
  }
  CHECK(between > rounds);
}

TEST_CASE("sums: one rank has its own sums, and needs nobody") {
  together(1, [](Rank& r) -> Status {
    const Buffer numbers = TN_TRY(r.buffer(16));
    TN_TRY(r.stream.fill(numbers, 7, 4));
    std::vector<std::string> log;
    GradientSync sync = TN_TRY(
        GradientSync::create(r.device, r.comm, parameters(std::vector<uint64_t>(4, 10)), {}, {.sums = true}));
    std::mt19937_64 random(1);
    TN_TRY(note_step(r, sync, numbers, log, random, 2));
    std::vector<uint32_t> found(4);
    TN_TRY(r.stream.download(found, numbers));
    TN_TRY(r.stream.sync());
    return expect(found == std::vector<uint32_t>(4, 7), "another sum");
  });
}

TEST_CASE("sums: a rank that leaves one out is told of on all ranks, in time") {
  together(3,
           [](Rank& r) -> Status {
             const Buffer numbers = TN_TRY(r.buffer(64));
             TN_TRY(r.stream.fill(numbers));
             GradientSync sync = TN_TRY(GradientSync::create(
                 r.device, r.comm, arriving(parameters({100, 100})), {.fuse_grad_max_layers = 1},
                 {.warm_up_steps = 0, .target = eager_target(), .sums = true}));
             TN_TRY(sync.begin(r.stream));
             Status end = r.rank == 1 ? Status() : sync.sum(r.stream, numbers, f32);
             for (const uint32_t i : {1u, 0u}) {
               if (end.ok()) end = sync.ready(i);
             }
             if (end.ok()) end = sync.finish(r.stream);
             if (end.ok()) end = r.stream.sync();
             return expect(!end.ok(), "rank " + std::to_string(r.rank) + " knows of nothing");
           },
           {.timeout = std::chrono::seconds(3)});
}

TEST_CASE("sums: a call that cannot be is refused, and what all ranks must know is compared") {
  const Device device = open_cpu();
  together(device, 2, [](Rank& r) -> Status {
    const Buffer numbers = TN_TRY(r.buffer(64));
    GradientSync plain = TN_TRY(GradientSync::create(r.device, r.comm, parameters({10})));
    const Status without = plain.sum(r.stream, numbers, f32);
    TN_TRY(expect(without.code() == TN_INVALID && without.message().find("sums = true") != std::string::npos,
                  "without the option: " + std::string(without.message())));
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({10}), {}, {.sums = true}));
    const Status odd = sync.sum(r.stream, TN_TRY(numbers.slice(0, 6)), f32);
    TN_TRY(expect(odd.code() == TN_INVALID, "6 bytes of f32: " + std::string(odd.message())));
    const auto joined = sync.join(r.stream);
    TN_TRY(expect(joined.code() == TN_INVALID, "join: " + std::string(joined.message())));
    return sync.sum(r.stream, numbers, f32);  // it goes on
  });
  together(device, 2, [](Rank& r) -> Status {
    const auto made = GradientSync::create(r.device, r.comm, parameters({10}), {}, {.sums = r.rank == 1});
    return expect(made.code() == TN_MISMATCH && made.message().find("no sums") != std::string_view::npos,
                  "other options: " + std::string(made.message()));
  });
}
