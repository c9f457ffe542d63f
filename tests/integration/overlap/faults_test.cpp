// SPDX-License-Identifier: Apache-2.0
// faults_test.cpp: ranks that do not do the same, and calls that cannot be: named errors, on all ranks, never a hang.
#include "model.hpp"

#include <doctest/doctest.h>

using namespace overlap_test;

namespace {

constexpr Timeout patience = std::chrono::seconds(10);

using Change = std::function<void(std::vector<Gradient>&, OverlapOptions&, SyncOptions&)>;

// What creation says on each of three ranks, of which rank 2 brings something else.
std::vector<std::string> told(const Device& device, const Change& change) {
  std::vector<std::string> out(3);
  together(device, 3,
           [&](Rank& r) -> Status {
             std::vector<Gradient> model = parameters({100, 200, 300});
             OverlapOptions overlap;
             SyncOptions options;
             if (r.rank == 2) change(model, overlap, options);
             const auto made = GradientSync::create(r.device, r.comm, model, overlap, options);
             out[r.rank] = made.message();
             return expect(made.code() == TN_MISMATCH || (r.rank == 2 && !made.ok()),
                           "not refused as expected: " + out[r.rank]);
           },
           {.timeout = patience});
  return out;
}

bool names(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("faults: a rank with another model is named on all ranks, with both sides") {
  const Device device = open_cpu();
  for (const std::string& message : told(device, [](auto&model, auto&, auto&) { model[1].elements = 201; })) {
    CHECK_MESSAGE(names(message, "rank 0 has gradient 1 'fc1.weight', f32, 200 elements"), message);
    CHECK_MESSAGE(names(message, "rank 2 has gradient 1 'fc1.weight', f32, 201 elements"), message);
  }
  for (const std::string& message : told(device, [](auto&model, auto&, auto&) { model.pop_back(); }))
    CHECK_MESSAGE(names(message, "rank 0 has gradient 2 'fc2.weight'"), message);
  for (const std::string& message : told(device, [](auto&model, auto&, auto&) { model[0].name = "head"; }))
    CHECK_MESSAGE(names(message, "rank 2 has gradient 0 'head'"), message);
}

TEST_CASE("faults: a rank with other options is named on all ranks") {
  const Device device = open_cpu();
  for (const std::string& message :
       told(device, [](auto&, auto&overlap, auto&) { overlap.nccl_comm_num = 2; }))
    CHECK_MESSAGE(names(message, "rank 2 has the count of streams 2"), message);
  for (const std::string& message :
       told(device, [](auto&, auto&, auto& options) { options.warm_up_steps = 9; }))
    CHECK_MESSAGE(names(message, "warm_up_steps 9"), message);
  // Whose first plans are the same, while arrivals are not known.
  for (const std::string& message :
       told(device, [](auto&, auto&overlap, auto&) { overlap.mode = BucketRule::ddp; }))
    CHECK_MESSAGE(names(message, "rank 2 has streams to choose from: 1"), message);
  for (const std::string& message :
       told(device, [](auto&, auto&, auto& options) { options.target.flows = 2; }))
    CHECK_MESSAGE(names(message, "rank 2 has streams to choose from: 1"), message);
}

TEST_CASE("faults: a rank that cannot plan tells the others why") {
  const Device device = open_cpu();
  const auto sparse = told(device, [](auto& model, auto&, auto&) { model[1].sparse = true; });
  for (const std::string& message : sparse) CHECK_MESSAGE(names(message, "'fc1.weight' is sparse"), message);
  const auto twice = told(device, [](auto& model, auto&, auto&) { model[1].name = model[0].name; });
  for (const std::string& message : twice) CHECK_MESSAGE(names(message, "'fc0.weight'"), message);
}

TEST_CASE("faults: a rank that stops is named by the others, in time, and so at every later call") {
  std::atomic<int> told_so{0};
  together(3,
           [&](Rank& r) -> Status {
             GradientSync sync =
                 TN_TRY(GradientSync::create(r.device, r.comm, arriving(parameters({100, 100, 100})),
                                             {.fuse_grad_max_layers = 1, .nccl_comm_num = 2},
                                             {.warm_up_steps = 0, .target = eager_target()}));
             TN_TRY(sync.begin(r.stream));
             if (r.rank == 2) {
               TN_TRY(sync.ready(2));  // and no more
               while (told_so < 2) std::this_thread::yield();
               return {};
             }
             for (const uint32_t i : {2u, 1u, 0u}) TN_TRY(sync.ready(i));
             TN_TRY(sync.finish(r.stream));
             const Status late = r.stream.sync();
             ++told_so;
             TN_TRY(expect(late.code() == TN_TIMEOUT && names(std::string(late.message()), "rank 2"),
                           "expected a timeout that names rank 2, got: " + std::string(late.message())));
             const auto again = sync.begin(r.stream);
             return expect(again.code() == TN_TIMEOUT, "it goes on: " + std::string(again.message()));
           },
           {.timeout = std::chrono::milliseconds(500)});
}

TEST_CASE("faults: calls that cannot be are refused by name, and the step goes on") {
  together(2, [](Rank& r) -> Status {
    GradientSync sync =
        TN_TRY(GradientSync::create(r.device, r.comm, parameters({10, 20}), {}, {.target = eager_target()}));
    const Buffer other = TN_TRY(r.buffer(44));
    const auto refused = [](const Status& status, const std::string& part) {
      return expect(status.code() == TN_INVALID && names(std::string(status.message()), part),
                    "not refused as expected: " + std::string(status.message()));
    };
    TN_TRY(refused(sync.ready(0), "call begin"));
    TN_TRY(refused(sync.finish(r.stream), "call begin"));
    for (int step = 0; step < 2; ++step) {
      TN_TRY(sync.begin(r.stream));
      auto twice = sync.begin(r.stream);
      TN_TRY(refused(Status(twice.error()), "call finish"));
      TN_TRY(r.stream.upload(sync.gradient(0), std::vector<float>(10, 2.0f)));
      TN_TRY(sync.ready(0));
      TN_TRY(refused(sync.ready(0), "'fc0.weight' was ready before"));
      TN_TRY(refused(sync.ready(2), "no parameter 2"));
      TN_TRY(refused(sync.bring(1, other), "'fc1.weight' has a gradient of 80 bytes, not 44"));
      TN_TRY(refused(sync.finish(r.stream, {.samples = UINT64_MAX}), "at most"));
      TN_TRY(refused(sync.finish(r.stream, {.found_inf = other}), "one f32"));
      TN_TRY(sync.finish(r.stream));
      std::vector<float> mean(10);
      TN_TRY(r.stream.download(mean, sync.gradient(0)));
      TN_TRY(r.stream.sync());
      TN_TRY(expect(mean[9] == 2, "the mean is " + std::to_string(mean[9])));
    }
    return expect(sync.gradient(2).bytes == 0, "there is a third gradient");
  });
}
