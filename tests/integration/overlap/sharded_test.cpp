// SPDX-License-Identifier: Apache-2.0
// sharded_test.cpp: sharded mode: each rank updates its shards, and all parameters are those of the plain mode, bit for bit.
#include "support/full.hpp"
#include "support/seed.hpp"
#include "world.hpp"

#include <doctest/doctest.h>

#include <mutex>

using namespace overlap_test;

namespace {

constexpr double rate = 0.25;

// One step of a world: every shard holds averages of all ranks; where each shard's update is to take them over, each
// parameter becomes the average of its gradient, on every rank.
class Training {
 public:
  Training(Rank& r, const World& world, uint64_t seed) : r_(r), w_(world), random_(seed + r.rank) {}

  Status run() {
    GradientSync sync = TN_TRY(GradientSync::create(r_.device, r_.comm, w_.model, w_.overlap, w_.options));
    for (uint32_t step = 0; step < w_.steps; ++step) {
      TN_TRY(backward(sync));
      TN_TRY(average(sync));
      TN_TRY(check_shards(sync));
      for (const Shard& shard : sync.shards()) TN_TRY(r_.stream.copy(shard.parameter, shard.gradient));
      TN_TRY(sync.gather(r_.stream));
      TN_TRY(check_parameters(sync));
    }
    return expect(sync.copied_bytes() == 0, "bytes were copied to bring gradients together");
  }

 private:
  Status backward(GradientSync& sync) {
    TN_TRY(expect(!TN_TRY(sync.begin(r_.stream)), "gradients moved in sharded mode"));
    sums_.clear();
    for (const Gradient& gradient : w_.model)
      sums_.push_back(random_gradient(random_, gradient.dtype, gradient.elements));
    for (const uint32_t i : some_order(random_, w_.model.size())) {
      if (random_() % 8 == 0) {  // not used
        sums_[i].assign(sums_[i].size(), std::byte{0});
        continue;
      }
      TN_TRY(r_.stream.upload(sync.gradient(i), sums_[i]));
      TN_TRY(sync.ready(i));
    }
    return sync.finish(r_.stream, {.samples = r_.rank});
  }

  // What one all-reduce per tensor gives, divided as asked.
  Status average(GradientSync& sync) {
    const uint64_t samples = TN_TRY(sync.totals(r_.stream))
    .samples;
    TN_TRY(expect(samples == r_.size * (r_.size - 1) / 2, "samples are miscounted"));
    const bool by_ranks = w_.options.average == Average::ranks;
    const auto by = static_cast<float>(by_ranks ? r_.size : samples);
    means_.clear();
    for (size_t i = 0; i < sums_.size(); ++i)
      means_.push_back(TN_TRY(reference(r_, w_.model[i].dtype, sums_[i], by)));
    return {};
  }

  Status check_shards(GradientSync& sync) {
    for (const Shard& shard : sync.shards()) {
      const uint64_t width = bytes(shard.dtype, 1);
      for (const Shard::Part& part : shard.parts) {
        const auto first = means_[part.parameter].begin() + static_cast<std::ptrdiff_t>(part.first * width);
        const std::vector<std::byte> mean(first, first + static_cast<std::ptrdiff_t>(part.elements * width));
        tn_span at = shard.gradient;
        at.offset += part.at * width;
        at.bytes = mean.size();
        TN_TRY(r_.expect(at, mean, [&] {
          return "shard of " + w_.model[part.parameter].name + " of\n" + sync.plan().explain();
        }));
      }
    }
    return {};
  }

  Status check_parameters(GradientSync& sync) {
    for (const uint32_t i : some_order(random_, w_.model.size())) {
      TN_TRY(sync.await(r_.stream, i));
      TN_TRY(r_.expect(sync.parameter(i), means_[i],
                       [&] { return w_.model[i].name + " of\n" + sync.plan().explain(); }));
    }
    return {};
  }

  Rank& r_;
  const World& w_;
  std::mt19937_64 random_;
  std::vector<std::vector<std::byte>> sums_{}, means_{};
};

// parameter - rate · gradient, in place, over `count` elements.
Result<Kernel> sgd(Device& device, uint64_t count) {
  const TensorSpec spec{f32, {static_cast<int64_t>(count)}};
  FragmentBuilder f("sgd");
  const auto parameter = f.input(spec), gradient = f.input(spec);
  f.output(f.node(Op::add, {parameter, f.node(Op::scale, {gradient}, spec, {{"scale", -rate}})}, spec));
  f.alias(0, 0);
  const Fragment fragment = TN_TRY(f.build());
  return device.compile(fragment);
}

using Values = std::vector<std::vector<float>>;

// What rank `rank` finds in step `step` for a parameter with these values: it depends on all of them.
std::vector<float> gradient_of(const std::vector<float>& parameter, uint32_t rank, uint32_t step) {
  std::vector<float> out;
  for (size_t i = 0; i < parameter.size(); ++i)
    out.push_back(parameter[i] * (0.3f + static_cast<float>(rank)) +
                  static_cast<float>((i * 31 + step * 7 + rank) % 97) / 9.7f);
  return out;
}

Values first_values(const std::vector<Gradient>& model) {
  std::mt19937_64 random(5);
  Values out;
  for (const Gradient& parameter : model) {
    out.emplace_back();
    for (uint64_t k = 0; k < parameter.elements; ++k)
      out.back().push_back(std::uniform_real_distribution<float>(-1, 1)(random));
  }
  return out;
}

Status backward(Rank& r, GradientSync& sync, const Values& values, uint32_t step) {
  TN_TRY(sync.begin(r.stream));
  for (auto i = static_cast<uint32_t>(values.size()); i-- > 0;) {
    TN_TRY(r.stream.upload(sync.gradient(i), gradient_of(values[i], r.rank, step)));
    TN_TRY(sync.ready(i));
  }
  return sync.finish(r.stream, {.samples = 1 + r.rank});
}

Status read(Rank& r, const tn_span& from, std::vector<float>& to) {
  TN_TRY(r.stream.download(to, from));
  return r.stream.sync();
}

constexpr uint32_t training_steps = 5;

Result<Values> train_plain(Rank& r, const std::vector<Gradient>& model) {
  GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, model, {.fuse_grad_max_layers = 2},
                                                  {.warm_up_steps = 2, .target = eager_target()}));
  Values values = first_values(model);
  std::vector<Buffer> parameters;
  for (const std::vector<float>& value : values) {
    parameters.push_back(TN_TRY(r.buffer(value.size() * sizeof(float))));
    TN_TRY(r.stream.upload(parameters.back(), value));
  }
  for (uint32_t step = 0; step < training_steps; ++step) {
    TN_TRY(backward(r, sync, values, step));
    for (uint32_t i = 0; i < model.size(); ++i) {
      const Kernel update = TN_TRY(sgd(r.device, model[i].elements));
      TN_TRY(update.run(r.stream, {parameters[i], sync.gradient(i), parameters[i]}));
      TN_TRY(read(r, parameters[i], values[i]));
    }
  }
  return values;
}

Result<Values> train_sharded(Rank& r, const std::vector<Gradient>& model) {
  GradientSync sync = TN_TRY(GradientSync::create(
      r.device, r.comm, model, {.fuse_grad_max_layers = 2, .sharded = true}, {.target = eager_shards()}));
  Values values = first_values(model);
  for (uint32_t i = 0; i < model.size(); ++i) TN_TRY(r.stream.upload(sync.parameter(i), values[i]));
  for (uint32_t step = 0; step < training_steps; ++step) {
    TN_TRY(backward(r, sync, values, step));
    for (const Shard& shard : sync.shards()) {
      const Kernel update = TN_TRY(sgd(r.device, shard.parameter.bytes / sizeof(float)));
      TN_TRY(update.run(r.stream, {shard.parameter, shard.gradient, shard.parameter}));
    }
    TN_TRY(sync.gather(r.stream));
    for (uint32_t i = 0; i < model.size(); ++i) {
      TN_TRY(sync.await(r.stream, i));
      TN_TRY(read(r, sync.parameter(i), values[i]));
    }
  }
  return values;
}

}  // namespace

TEST_CASE(
    "sharded: shards hold the averages of one all-reduce per tensor, and gathers make parameters whole") {
  const uint64_t seed = tenon::test::seed();
  const auto worlds = tenon::test::full_or<uint64_t>("worlds", 6, tenon::test::under_tsan ? 200 : 1'000);
  const Device device = open_cpu();
  for (uint64_t i = 0; i < worlds; ++i) {
    std::mt19937_64 random(seed + i);
    World world = draw_world(random);
    world.overlap.sharded = true;
    world.options.target = eager_shards(random() % 2 == 0 ? 10 : 1e5);
    const auto size = static_cast<uint32_t>(2 + random() % 3);
    CAPTURE(i);
    together(device, size, [&](Rank& r) { return Training(r, world, seed + 1000 * i).run(); },
             {.deterministic = true});
  }
}

TEST_CASE("sharded: training gives the bits of the plain mode") {
  const std::vector<Gradient> model = parameters({1'000, 33, 5'000, 1, 640});
  together(3,
           [&](Rank& r) -> Status {
             const Values plain = TN_TRY(train_plain(r, model))
             , sharded = TN_TRY(train_sharded(r, model));
             TN_TRY(expect(plain != first_values(model), "nothing was learned"));
             return expect(plain == sharded, "the parameters differ");
           },
           {.deterministic = true});
}

TEST_CASE("sharded: every element is updated by one rank") {
  const std::vector<Gradient> model = parameters({700, 1, 64, 3'000, 17});
  std::mutex mutex;
  std::vector<std::vector<int>> owners;
  for (const Gradient& parameter : model) owners.emplace_back(parameter.elements);
  together(4, [&](Rank& r) -> Status {
    const GradientSync sync = TN_TRY(GradientSync::create(
        r.device, r.comm, model, {.fuse_grad_max_layers = 2, .sharded = true}, {.target = eager_shards()}));
    const std::lock_guard lock(mutex);
    for (const Shard& shard : sync.shards()) {
      TN_TRY(expect(shard.gradient.bytes == shard.parameter.bytes, "a shard has two sizes"));
      for (const Shard::Part& part : shard.parts) {
        TN_TRY(expect((part.at + part.elements) * 4 <= shard.parameter.bytes, "a part leaves its shard"));
        for (uint64_t k = 0; k < part.elements; ++k) ++owners[part.parameter][part.first + k];
      }
    }
    return {};
  });
  for (const std::vector<int>& parameter : owners) CHECK(parameter == std::vector<int>(parameter.size(), 1));
}

TEST_CASE("sharded: one rank updates everything, and costs that are not given are measured") {
  for (const uint32_t size : {1u, 2u}) {
    together(size, [](Rank& r) -> Status {
      GradientSync sync =
          TN_TRY(GradientSync::create(r.device, r.comm, parameters({50'000, 7}), {.sharded = true}));
      TN_TRY(expect(r.size == 1 || sync.plan().predicted().communication_ns > 0, "nothing was measured"));
      for (int step = 0; step < 3; ++step) {
        TN_TRY(sync.begin(r.stream));
        for (const uint32_t i : {1u, 0u}) {
          const std::vector<float> data(sync.gradient(i).bytes / 4, static_cast<float>(1 + r.rank));
          TN_TRY(r.stream.upload(sync.gradient(i), data));
          TN_TRY(sync.ready(i));
        }
        TN_TRY(sync.finish(r.stream));
        for (const Shard& shard : sync.shards()) TN_TRY(r.stream.copy(shard.parameter, shard.gradient));
        TN_TRY(sync.gather(r.stream));
        std::vector<float> found(50'000);
        TN_TRY(sync.await(r.stream, 0));
        TN_TRY(read(r, sync.parameter(0), found));
        const float mean = r.size == 1 ? 1.0f : 1.5f;
        TN_TRY(expect(found.front() == mean && found.back() == mean,
                      "the parameter is " + std::to_string(found.back())));
      }
      return {};
    });
  }
}

TEST_CASE("sharded: gradients from elsewhere and those of no_sync arrive in shards") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({100, 60}),
                                                    {.sharded = true}, {.target = eager_shards()}));
    const Buffer own = TN_TRY(r.buffer(400));
    TN_TRY(r.stream.upload(own, std::vector<float>(100, static_cast<float>(2 * r.rank))));
    for (const Backward how : {Backward::no_sync, Backward::sync}) {
      TN_TRY(sync.begin(r.stream, how));
      TN_TRY(r.stream.upload(sync.gradient(1), std::vector<float>(60, 8.0f)));
      TN_TRY(sync.ready(1));
      TN_TRY(sync.bring(0, own));
      TN_TRY(sync.finish(r.stream, {.samples = 2}));
    }
    for (const Shard& shard : sync.shards()) TN_TRY(r.stream.copy(shard.parameter, shard.gradient));
    TN_TRY(sync.gather(r.stream));
    for (const uint32_t i : {0u, 1u}) {
      std::vector<float> found(sync.parameter(i).bytes / 4);
      TN_TRY(sync.await(r.stream, i));
      TN_TRY(read(r, sync.parameter(i), found));
      TN_TRY(expect(found.back() == (i == 0 ? 0.25f : 2.0f), "found " + std::to_string(found.back())));
    }
    return expect(sync.copied_bytes() == 400, std::to_string(sync.copied_bytes()) + " bytes were copied");
  });
}

TEST_CASE("sharded: calls out of turn are refused by name, and the step goes on") {
  together(2, [](Rank& r) -> Status {
    const auto refused = [](const Status& status, const std::string& part) {
      return expect(status.code() == TN_INVALID && status.message().find(part) != std::string::npos,
                    "not refused as expected: " + std::string(status.message()));
    };
    GradientSync plain =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({10}), {}, {.target = eager_target()}));
    TN_TRY(refused(plain.gather(r.stream), "gather belongs to sharded mode: create it with sharded = true"));
    TN_TRY(refused(plain.await(r.stream, 0), "await belongs to sharded mode"));
    TN_TRY(expect(plain.parameter(0).bytes == 0 && plain.shards().empty(), "the plain mode has shards"));

    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({10}), {.sharded = true},
                                                    {.target = eager_shards()}));
    TN_TRY(refused(sync.gather(r.stream), "no step was finished"));
    for (int step = 0; step < 2; ++step) {
      TN_TRY(sync.await(r.stream, 0));
      TN_TRY(refused(sync.await(r.stream, 1), "no parameter 1"));
      TN_TRY(sync.begin(r.stream));
      TN_TRY(refused(sync.gather(r.stream), "call finish"));
      TN_TRY(sync.finish(r.stream));
      TN_TRY(refused(sync.await(r.stream, 0), "call gather"));
      TN_TRY(refused(Status(sync.begin(r.stream).error()), "call gather"));
      TN_TRY(refused(Status(sync.join(r.stream).error()), "call gather"));
      TN_TRY(sync.gather(r.stream));
      TN_TRY(refused(sync.gather(r.stream), "no step was finished since the last gather"));
    }
    return expect(sync.parameter(1).bytes == 0, "there is a second parameter");
  });
}

TEST_CASE("sharded: a rank that does not gather is named by the others, in time") {
  std::atomic<int> told{0};
  together(3,
           [&](Rank& r) -> Status {
             GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({100}),
                                                             {.sharded = true}, {.target = eager_shards()}));
             TN_TRY(sync.begin(r.stream));
             TN_TRY(sync.ready(0));
             TN_TRY(sync.finish(r.stream));
             TN_TRY(r.stream.sync());
             if (r.rank == 1) {
               while (told < 2) std::this_thread::yield();
               return {};
             }
             Status late = sync.gather(r.stream);
             if (late.ok()) late = sync.await(r.stream, 0);
             if (late.ok()) late = r.stream.sync();
             ++told;
             return expect(late.code() == TN_TIMEOUT && late.message().find("rank 1") != std::string::npos,
                           "expected a timeout that names rank 1, got: " + std::string(late.message()));
           },
           {.timeout = std::chrono::milliseconds(500)});
}
