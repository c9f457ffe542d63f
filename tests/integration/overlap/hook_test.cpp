// SPDX-License-Identifier: Apache-2.0
// hook_test.cpp: communication hooks: what they are given, that all ranks run the same, and bf16 on the wire.
#include "support/seed.hpp"
#include "world.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace overlap_test;

namespace {

// Does what happens without a hook, and counts.
struct Plain {
  std::shared_ptr<uint64_t> calls = std::make_shared<uint64_t>(0), bytes = std::make_shared<uint64_t>(0);

  CommHook hook(std::string name = "plain") const {
    return {.name = std::move(name),
            .all_reduce = [*this](Communicator& comm, Stream& stream, const tn_span& gradients, DType dtype) {
              ++*calls;
              *bytes += gradients.bytes;
              return comm.all_reduce(stream, gradients, gradients, dtype);
            }};
  }
};

// One step of random numbers whose sums over all ranks, exact, are in `sums`, of their sizes in `sizes`.
struct Step {
  std::vector<std::vector<float>> own{};
  std::vector<std::vector<double>> sums{}, sizes{};
};

Step draw_step(const std::vector<Gradient>& model, uint64_t seed, uint32_t rank, uint32_t ranks) {
  Step out;
  for (const Gradient& gradient : model) {
    out.own.emplace_back(gradient.elements);
    out.sums.emplace_back(gradient.elements);
    out.sizes.emplace_back(gradient.elements);
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    std::mt19937_64 random(seed + r);
    std::uniform_real_distribution<double> mantissa(-1, 1), exponent(-20, 20);
    for (size_t i = 0; i < model.size(); ++i) {
      for (size_t k = 0; k < model[i].elements; ++k) {
        const auto x = static_cast<float>(mantissa(random) * std::exp2(exponent(random)));
        if (r == rank) out.own[i][k] = x;
        out.sums[i][k] += x;
        out.sizes[i][k] += std::abs(static_cast<double>(x));
      }
    }
  }
  return out;
}

// The worst error over Σ|x_r| of one compressed step; every sum has the same bits on all ranks.
Result<double> worst_error(Rank& r, GradientSync& sync, const std::vector<Gradient>& model,
                           const Step& step) {
  TN_TRY(sync.begin(r.stream));
  for (auto i = static_cast<uint32_t>(model.size()); i-- > 0;) {
    TN_TRY(r.stream.upload(sync.gradient(i), step.own[i]));
    TN_TRY(sync.ready(i));
  }
  TN_TRY(sync.finish(r.stream));
  double worst = 0;
  for (uint32_t i = 0; i < model.size(); ++i) {
    std::vector<float> found(model[i].elements), first(model[i].elements);
    TN_TRY(r.stream.download(found, sync.gradient(i)));
    const Buffer theirs = TN_TRY(r.buffer(found.size() * sizeof(float)));
    TN_TRY(r.stream.copy(theirs, sync.gradient(i)));
    TN_TRY(r.comm.broadcast(r.stream, theirs, f32, 0));
    TN_TRY(r.stream.download(first, theirs));
    TN_TRY(r.stream.sync());
    TN_TRY(expect(found == first, model[i].name + " has other bits than on rank 0"));
    for (size_t k = 0; k < found.size(); ++k)
      worst = std::max(worst, std::abs(found[k] - step.sums[i][k]) / step.sizes[i][k]);
  }
  return worst;
}

}  // namespace

TEST_CASE("hook: it is given every gradient and no more, and what it does is what counts") {
  const uint64_t seed = tenon::test::seed();
  const Device device = open_cpu();
  for (uint64_t i = 0; i < 4; ++i) {
    std::mt19937_64 random(seed + i);
    World world = draw_world(random);
    world.options.average = Average::samples;
    CAPTURE(i);
    together(device, 3,
             [&](Rank& r) -> Status {
               const Plain plain;
               SyncOptions options = world.options;
               options.hook = plain.hook();
               GradientSync sync =
                   TN_TRY(GradientSync::create(r.device, r.comm, world.model, world.overlap, options));
               std::mt19937_64 draw(seed + r.rank);
               for (int step = 0; step < 3; ++step) {
                 TN_TRY(sync.begin(r.stream));
                 *plain.calls = *plain.bytes = 0;
                 std::vector<std::vector<std::byte>> sums;
                 for (uint32_t k = 0; k < world.model.size(); ++k) {
                   sums.push_back(random_gradient(draw, world.model[k].dtype, world.model[k].elements));
                   TN_TRY(r.stream.upload(sync.gradient(k), sums[k]));
                   TN_TRY(sync.ready(k));
                 }
                 TN_TRY(sync.finish(r.stream, {.samples = 5}));
                 TN_TRY(expect(*plain.calls >= sync.plan().buckets().size(), "a bucket passed it by"));
                 TN_TRY(expect(*plain.bytes == sync.plan().tail().offset, "it was given other bytes"));
                 TN_TRY(expect(TN_TRY(sync.totals(r.stream)).samples == 15, "the tail is wrong"));
                 for (uint32_t k = 0; k < world.model.size(); ++k) {
                   const auto mean = TN_TRY(reference(r, world.model[k].dtype, sums[k], 15.0f));
                   TN_TRY(r.expect(sync.gradient(k), mean, world.model[k].name));
                 }
               }
               return {};
             },
             {.deterministic = true});
  }
}

TEST_CASE("hook: bf16 on the wire keeps its bound for any number of ranks, with the same bits on all") {
  const uint64_t seed = tenon::test::seed();
  const double bound = std::exp2(-7) * (1 + std::exp2(-7));
  const Device device = open_cpu();
  const std::vector<Gradient> model = parameters({3'000, 1, 129, 64});
  for (const uint32_t ranks : {1u, 2u, 3u, 4u}) {
    CAPTURE(ranks);
    together(device, ranks, [&](Rank& r) -> Status {
      GradientSync sync = TN_TRY(GradientSync::create(
          r.device, r.comm, model, {.fuse_grad_max_layers = 2, .nccl_comm_num = 2},
          {.average = Average::none, .target = eager_target(), .hook = bf16_compression(r.device)}));
      for (uint64_t step = 0; step < 3; ++step) {
        const Step numbers = draw_step(model, seed + 100 * step, r.rank, ranks);
        const double worst = TN_TRY(worst_error(r, sync, model, numbers));
        TN_TRY(expect(worst <= bound, "an error of " + std::to_string(worst) + " of the sum of sizes"));
        // It is rounded at all, unless there is nothing to send.
        TN_TRY(expect(ranks == 1 || worst > std::exp2(-12), "nothing was compressed"));
        TN_TRY(expect(TN_TRY(sync.totals(r.stream)).samples == ranks, "the tail was rounded"));
      }
      return {};
    });
  }
}

TEST_CASE("hook: gradients of other types than f32 go past bf16 as they are") {
  std::vector<Gradient> model = parameters({100, 50, 70});
  model[0].dtype = f64;
  model[1].dtype = f16;
  model[2].dtype = bf16;
  together(2,
           [&](Rank& r) -> Status {
             GradientSync sync = TN_TRY(GradientSync::create(
                 r.device, r.comm, model, {},
                 {.average = Average::ranks, .target = eager_target(), .hook = bf16_compression(r.device)}));
             std::mt19937_64 random(r.rank);
             TN_TRY(sync.begin(r.stream));
             std::vector<std::vector<std::byte>> sums;
             for (uint32_t i = 0; i < model.size(); ++i) {
               sums.push_back(random_gradient(random, model[i].dtype, model[i].elements));
               TN_TRY(r.stream.upload(sync.gradient(i), sums[i]));
               TN_TRY(sync.ready(i));
             }
             TN_TRY(sync.finish(r.stream));
             for (uint32_t i = 0; i < model.size(); ++i)
               TN_TRY(r.expect(sync.gradient(i), TN_TRY(reference(r, model[i].dtype, sums[i], 2.0f)),
                               model[i].name));
             return {};
           },
           {.deterministic = true});
}

TEST_CASE("hook: costs that are not given are those of the hook") {
  together(2, [](Rank& r) -> Status {
    const Plain plain;
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({5'000}), {}, {.hook = plain.hook()}));
    return expect(*plain.calls > 0, "something else was measured");
  });
}

TEST_CASE("hook: another hook on one rank, or none, is told to all") {
  const Device device = open_cpu();
  for (const bool none : {false, true}) {
    together(device, 2, [&](Rank& r) -> Status {
      const Plain plain;
      SyncOptions options;
      options.target = eager_target();
      if (r.rank == 0) options.hook = plain.hook("mine");
      if (r.rank == 1 && !none) options.hook = plain.hook("theirs");
      const auto made = GradientSync::create(r.device, r.comm, parameters({10}), {}, options);
      const std::string message(made.message());
      return expect(made.code() == TN_MISMATCH && message.find("hook 'mine'") != std::string::npos &&
                        message.find(none ? "no hook" : "hook 'theirs'") != std::string::npos,
                    "not refused as expected: " + message);
    });
  }
}

TEST_CASE("hook: what cannot be run is refused, and a hook's failure is the end") {
  together(2, [](Rank& r) -> Status {
    const Plain plain;
    const auto create = [&](const OverlapOptions& overlap, CommHook hook) {
      SyncOptions options;
      options.target = overlap.sharded ? eager_shards() : eager_target();
      options.hook = std::move(hook);
      return GradientSync::create(r.device, r.comm, parameters({10}), overlap, options);
    };
    const auto sharded = create({.sharded = true}, plain.hook());
    TN_TRY(expect(sharded.code() == TN_UNSUPPORTED && sharded.message().find("'plain'") != std::string::npos,
                  "not refused: " + std::string(sharded.message())));
    const auto empty = create({}, {.name = "empty"});
    TN_TRY(expect(empty.code() == TN_INVALID && empty.message().find("'empty'") != std::string::npos,
                  "not refused: " + std::string(empty.message())));
    const auto fails = [](Communicator&, Stream&, const tn_span&, DType) {
      return Status(TN_NO_MEMORY, "no room to compress in");
    };
    GradientSync sync = TN_TRY(create({}, {.name = "fails", .all_reduce = fails}));
    TN_TRY(sync.begin(r.stream));
    TN_TRY(sync.ready(0));
    const Status failed = sync.finish(r.stream);
    TN_TRY(expect(failed.code() == TN_NO_MEMORY, "it goes on: " + std::string(failed.message())));
    const auto again = sync.begin(r.stream);
    return expect(again.message() == "no room to compress in", "it is forgotten");
  });
}
