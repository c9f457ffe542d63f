// SPDX-License-Identifier: Apache-2.0
// averages_test.cpp: averages are those of one all-reduce per tensor, bit for bit, whatever the plan and the order of arrival.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "world.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

// One rank's way through a world.
class Training {
 public:
  Training(Rank& r, const World& world, uint64_t seed) : r_(r), w_(world), random_(seed + r.rank) {}

  Status run() {
    GradientSync sync = TN_TRY(GradientSync::create(r_.device, r_.comm, w_.model, w_.overlap, w_.options));
    elsewhere_.resize(w_.model.size());
    for (uint32_t step = 0; step < w_.steps; ++step) {
      sums_.assign(w_.model.size(), {});
      uint64_t samples = 0;
      for (uint32_t pass = 0; pass < w_.passes; ++pass) {
        samples += random_() % 5;
        TN_TRY(backward(sync, pass, samples));
        samples_ = samples;
      }
      TN_TRY(compare(sync));
    }
    return r_.stream.sync();
  }

 private:
  Status backward(GradientSync& sync, uint32_t pass, uint64_t samples) {
    const bool last = pass + 1 == w_.passes;
    TN_TRY(sync.begin(r_.stream, last ? Backward::sync : Backward::no_sync));
    for (const uint32_t i : some_order(random_, w_.model.size())) {
      if (random_() % 8 == 0) continue;  // not used in this backward
      const std::vector<std::byte> found = random_gradient(random_, w_.model[i].dtype, w_.model[i].elements);
      // Where it adds up is the framework's affair: here the last one stays.
      sums_[i] = found;
      TN_TRY(tell(sync, i));
    }
    const uint64_t before = pass == 0 ? 0 : samples_;
    return sync.finish(r_.stream, {.samples = samples - before});
  }

  // In its slot, from another stream, or where the framework has it.
  Status tell(GradientSync& sync, uint32_t i) {
    switch (i % 5) {
      case 3: {
        if (!elsewhere_[i]) elsewhere_[i] = TN_TRY(r_.buffer(sums_[i].size()));
        TN_TRY(r_.stream.upload(elsewhere_[i], sums_[i]));
        return sync.bring(i, elsewhere_[i]);
      }
      case 4: {
        if (!other_) other_ = TN_TRY(r_.device.stream());
        TN_TRY(other_.wait(TN_TRY(r_.stream.record())));
        TN_TRY(other_.upload(sync.gradient(i), sums_[i]));
        return sync.ready(i, TN_TRY(other_.record()));
      }
      default:
        TN_TRY(r_.stream.upload(sync.gradient(i), sums_[i]));
        return sync.ready(i);
    }
  }

  Status compare(GradientSync& sync) {
    const uint64_t samples = TN_TRY(total_samples());
    const CommTail::Reading totals = TN_TRY(sync.totals(r_.stream));
    TN_TRY(expect(totals.samples == samples, "there are " + std::to_string(samples) + " samples, not " +
                                                 std::to_string(totals.samples)));
    const bool by_ranks = w_.options.average == Average::ranks;
    const auto by = static_cast<float>(by_ranks ? r_.size : std::max<uint64_t>(samples, 1));
    for (uint32_t i = 0; i < w_.model.size(); ++i) {
      const bool used = !sums_[i].empty();
      const DType dtype = w_.model[i].dtype;
      std::vector<std::byte> own =
          used ? sums_[i] : std::vector<std::byte>(bytes(dtype, w_.model[i].elements));
      const std::vector<std::byte> mean = TN_TRY(reference(r_, dtype, own, by));
      const bool outside = i % 5 == 3 && used;
      TN_TRY(r_.expect(outside ? elsewhere_[i].span() : sync.gradient(i), mean,
                       [&] { return "parameter " + std::to_string(i) + " of\n" + sync.plan().explain(); }));
    }
    return {};
  }

  Result<uint64_t> total_samples() {
    const std::vector<double> own{static_cast<double>(samples_)};
    std::vector<double> sum(1);
    const Buffer buffer = TN_TRY(r_.buffer(8));
    TN_TRY(r_.stream.upload(buffer, own));
    TN_TRY(r_.comm.all_reduce(r_.stream, buffer, buffer, f64));
    TN_TRY(r_.stream.download(sum, buffer));
    TN_TRY(r_.stream.sync());
    return static_cast<uint64_t>(sum[0]);
  }

  Rank& r_;
  const World& w_;
  std::mt19937_64 random_;
  std::vector<std::vector<std::byte>> sums_{};  // empty: not used
  std::vector<Buffer> elsewhere_{};
  Stream other_{};
  uint64_t samples_ = 0;
};

}  // namespace

TEST_CASE("averages: they are those of one all-reduce per tensor, bit for bit") {
  const uint64_t seed = tenon::test::seed();
  const auto worlds = tenon::test::full_or<uint64_t>("worlds", 12, tenon::test::under_tsan ? 200 : 1'000);
  const Device device = open_cpu();
  for (uint64_t i = 0; i < worlds; ++i) {
    std::mt19937_64 random(seed + i);
    const World world = draw_world(random);
    const auto size = static_cast<uint32_t>(2 + random() % 4);
    CAPTURE(i);
    together(size, [&](Rank& r) { return Training(r, world, seed + 1000 * i).run(); },
             {.deterministic = true});
  }
}

TEST_CASE("averages: gradients of no_sync add up where they lie, and leave once") {
  together(2, [](Rank& r) -> Status {
    const auto model = parameters({100, 100});
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, model, {}, {.target = eager_target()}));
    const std::vector<float> once(100, static_cast<float>(1 + r.rank)),
        sum(100, static_cast<float>(2 + 2 * r.rank));
    TN_TRY(sync.clear(r.stream));
    for (const Backward how : {Backward::no_sync, Backward::sync}) {
      TN_TRY(sync.begin(r.stream, how));
      for (const uint32_t i : {0u, 1u}) {
        TN_TRY(r.stream.upload(sync.gradient(i), how == Backward::sync ? sum : once));
        TN_TRY(sync.ready(i));
      }
      TN_TRY(sync.finish(r.stream, {.samples = 3}));
    }
    std::vector<float> mean(100);
    TN_TRY(r.stream.download(mean, sync.gradient(1)));
    TN_TRY(r.stream.sync());
    TN_TRY(expect(mean[7] == 6.0f / 12.0f, "the mean is " + std::to_string(mean[7])));
    TN_TRY(expect(TN_TRY(sync.totals(r.stream)).samples == 12, "samples of both backwards count"));
    return expect(sync.copied_bytes() == 0 && sync.copy_launches() == 0,
                  "bytes were copied to bring gradients together");
  });
}

TEST_CASE("averages: a parameter that one rank, or none, uses contributes zeros, and the totals say so") {
  together(3, [](Rank& r) -> Status {
    const auto model = arriving(parameters({64, 64, 64}));
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, model, {.fuse_grad_max_layers = 1},
                                                    {.average = Average::ranks, .target = eager_target()}));
    const std::vector<float> three(64, 3.0f);
    for (int step = 0; step < 5; ++step) {
      TN_TRY(sync.begin(r.stream));
      for (const uint32_t i : {2u, 1u, 0u}) {
        if (i == 0 || (i == 1 && r.rank != 1)) continue;
        TN_TRY(r.stream.upload(sync.gradient(i), three));
        TN_TRY(sync.ready(i));
      }
      TN_TRY(sync.finish(r.stream));
      for (const uint32_t i : {0u, 1u, 2u}) {
        std::vector<float> mean(64);
        TN_TRY(r.stream.download(mean, sync.gradient(i)));
        TN_TRY(r.stream.sync());
        TN_TRY(expect(mean[63] == static_cast<float>(i == 2 ? 3 : i),
                      "parameter " + std::to_string(i) + " has " + std::to_string(mean[63])));
      }
      const CommTail::Reading totals = TN_TRY(sync.totals(r.stream));
      TN_TRY(expect(totals.ranks_using == std::vector<uint32_t>{0, 1, 3}, "the users are miscounted"));
    }
    return {};
  });
}

TEST_CASE("averages: a rank without samples takes part, and a number that is not finite is told to all") {
  together(3, [](Rank& r) -> Status {
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({10}), {}, {.target = eager_target()}));
    const Buffer found = TN_TRY(r.buffer(4));
    TN_TRY(r.stream.fill(found, std::bit_cast<uint32_t>(r.rank == 0 ? 1.0f : 0.0f), 4));
    TN_TRY(sync.begin(r.stream));
    if (r.rank != 2) {
      TN_TRY(r.stream.upload(sync.gradient(0), std::vector<float>(10, 4.0f)));
      TN_TRY(sync.ready(0));
    }
    TN_TRY(sync.finish(r.stream, {.samples = r.rank == 2 ? 0u : 8u, .found_inf = found}));
    std::vector<float> mean(10), by(1);
    TN_TRY(r.stream.download(mean, sync.gradient(0)));
    TN_TRY(r.stream.download(by, sync.divisor()));
    TN_TRY(r.stream.sync());
    TN_TRY(expect(mean[0] == 0.5f && by[0] == 16, "the mean is " + std::to_string(mean[0])));
    const CommTail::Reading totals = TN_TRY(sync.totals(r.stream));
    return expect(totals.samples == 16 && totals.ranks_with_inf == 1, "the totals are wrong");
  });
}
