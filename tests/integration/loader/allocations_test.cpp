// SPDX-License-Identifier: Apache-2.0
// allocations_test.cpp: once its epochs run, a loader allocates nothing: every operator new of every thread is counted.
#include "integration/loader/world.hpp"
#include "support/counted_new.hpp"

using namespace tenon;
using namespace tenon::test;

TEST_CASE(
    "allocations: a steady state allocates nothing, with images or without, shuffled anew in each epoch") {
  World w;
  for (const bool images : {false, true}) {
    LoaderOptions options{.batch = 8, .seed = 1, .depth = 3, .workers = 3};
    if (images)
      options.image =
          ImageOptions{.border = 2, .random_crop = true, .flip = 0.5, .channels = 4, .dtype = bf16};
    const Dataset data = must(memory_dataset({{"image", {u8, {3, 8, 8}}, std::vector<std::byte>(100 * 192)},
                                              {"label", {i32, {}}, std::vector<std::byte>(400)}}));
    Loader loader = must(Loader::open(w.device, data, options));
    uint64_t fewest = UINT64_MAX;
    // Of three times the least: where a device falls further behind than ever, what is on its way may need more room once.
    for (int time = 0; time < 4; ++time) {
      const uint64_t before = allocations;
      for (int i = 0; i < 50; ++i) {
        auto batch = loader.next(w.stream);
        if (!batch.ok()) must(std::move(batch).failure());
      }
      must(w.stream.sync());
      if (time > 0) fewest = std::min<uint64_t>(fewest, allocations - before);
    }
    CHECK(fewest == 0);
  }
}
