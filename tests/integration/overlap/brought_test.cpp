// SPDX-License-Identifier: Apache-2.0
// brought_test.cpp: gradients that a framework keeps elsewhere: one kernel takes a bucket's in, one takes them back.
#include "model.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

// A framework's own memory, in which gradients stand behind each other.
struct Framework {
  Buffer memory{};
  std::vector<tn_span> gradients{};

  static Result<Framework> make(Rank& r, const std::vector<Gradient>& model) {
    Framework out;
    std::vector<uint64_t> offsets;
    uint64_t at = 8;  // a multiple of each type, of no device's alignment
    for (const Gradient& gradient : model) {
      offsets.push_back(at);
      at += (bytes(gradient.dtype, gradient.elements) + 7) / 8 * 8 + 8;
    }
    out.memory = TN_TRY(r.buffer(at));
    for (size_t i = 0; i < model.size(); ++i)
      out.gradients.push_back(TN_TRY(out.memory.slice(offsets[i], bytes(model[i].dtype, model[i].elements))));
    return out;
  }
};

uint64_t bytes_of(const std::vector<Gradient>& model) {
  uint64_t all = 0;
  for (const Gradient& gradient : model) all += bytes(gradient.dtype, gradient.elements);
  return all;
}

std::vector<Gradient> mixed_model() {
  std::vector<Gradient> model = parameters({1'000, 3, 500, 64, 7});
  model[1].dtype = bf16;
  model[3].dtype = f64;
  model[4].dtype = f16;
  return model;
}

// One step in which parameters of `brought` come from elsewhere and the rest lies in its slots; then all are compared.
Status step(Rank& r, GradientSync& sync, const std::vector<Gradient>& model, Framework& own,
            const std::vector<bool>& brought, std::mt19937_64& random) {
  std::vector<std::vector<std::byte>> sums;
  TN_TRY(sync.begin(r.stream));
  for (uint32_t i = 0; i < model.size(); ++i) {
    sums.push_back(random_gradient(random, model[i].dtype, model[i].elements));
    TN_TRY(r.stream.upload(brought[i] ? own.gradients[i] : sync.gradient(i), sums[i]));
    TN_TRY(brought[i] ? sync.bring(i, own.gradients[i]) : sync.ready(i));
  }
  TN_TRY(sync.finish(r.stream));
  for (uint32_t i = 0; i < model.size(); ++i) {
    const std::vector<std::byte> mean =
        TN_TRY(reference(r, model[i].dtype, sums[i], static_cast<float>(r.size)));
    TN_TRY(r.expect(brought[i] ? own.gradients[i] : sync.gradient(i), mean, model[i].name));
  }
  return {};
}

}  // namespace

TEST_CASE("brought: what a bucket brings goes in by one launch, and back by one") {
  together(3,
           [](Rank& r) -> Status {
             std::mt19937_64 random(r.rank);
             const std::vector<Gradient> model = mixed_model();
             Framework own = TN_TRY(Framework::make(r, model));
             GradientSync sync =
                 TN_TRY(GradientSync::create(r.device, r.comm, model, {.mode = BucketRule::none},
                                             {.average = Average::ranks, .target = eager_target()}));
             for (uint64_t i = 1; i <= 6; ++i) {
               TN_TRY(step(r, sync, model, own, std::vector<bool>(model.size(), true), random));
               TN_TRY(expect(sync.copied_bytes() == 2 * i * bytes_of(model),
                             std::to_string(sync.copied_bytes()) + " bytes were copied"));
               TN_TRY(expect(sync.copy_launches() == 2 * i,
                             std::to_string(sync.copy_launches()) + " launches copied them"));
             }
             return {};
           },
           {.deterministic = true});
}

TEST_CASE("brought: it may be another set in each step, and what lies in its slot is not copied") {
  together(2,
           [](Rank& r) -> Status {
             std::mt19937_64 random(r.rank);
             const std::vector<Gradient> model = mixed_model();
             Framework own = TN_TRY(Framework::make(r, model));
             GradientSync sync = TN_TRY(GradientSync::create(
                 r.device, r.comm, model, {.fuse_grad_max_layers = 2, .nccl_comm_num = 2},
                 {.average = Average::ranks, .warm_up_steps = 2, .target = eager_target()}));
             uint64_t expected = 0;
             for (int i = 0; i < 8; ++i) {
               std::vector<bool> brought;  // each rank has its own
               for (const Gradient& gradient : model) {
                 brought.push_back(random() % 2 == 0);
                 if (brought.back()) expected += 2 * bytes(gradient.dtype, gradient.elements);
               }
               TN_TRY(step(r, sync, model, own, brought, random));
             }
             return expect(
                 sync.copied_bytes() == expected,
                 std::to_string(sync.copied_bytes()) + " bytes were copied, not " + std::to_string(expected));
           },
           {.deterministic = true});
}

TEST_CASE("brought: a gradient in the host's memory is copied by itself") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync = TN_TRY(GradientSync::create(r.device, r.comm, parameters({100, 20}),
                                                    {.mode = BucketRule::none}, {.target = eager_target()}));
    std::vector<float> large(100, static_cast<float>(r.rank)), small(20, 4.0f);
    TN_TRY(sync.begin(r.stream));
    TN_TRY(sync.bring(0, Stream::host_span(large.data(), 400)));
    TN_TRY(sync.bring(1, Stream::host_span(small.data(), 80)));
    TN_TRY(sync.finish(r.stream));
    TN_TRY(r.stream.sync());
    TN_TRY(expect(large[99] == 0.5f && small[0] == 4, "the mean is " + std::to_string(large[99])));
    return expect(sync.copied_bytes() == 960 && sync.copy_launches() == 4, "they were counted otherwise");
  });
}

TEST_CASE("brought: bytes that no element can lie at are refused, and the step goes on") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({10}), {}, {.target = eager_target()}));
    const Buffer own = TN_TRY(r.buffer(64));
    TN_TRY(sync.begin(r.stream));
    const Status odd = sync.bring(0, TN_TRY(own.slice(6, 40)));
    TN_TRY(expect(odd.code() == TN_INVALID &&
                      odd.message() == "parameter 'fc0.weight' has a gradient that lies 2 bytes past a "
                                       "multiple of 4: bring it at one",
                  "not refused as expected: " + std::string(odd.message())));
    TN_TRY(sync.bring(0, TN_TRY(own.slice(4, 40))));
    TN_TRY(sync.finish(r.stream));
    return r.stream.sync();
  });
}
