// SPDX-License-Identifier: Apache-2.0
// A device that does not prepare images in one launch does it in several: one whose kernels hold nine nodes.
#include "integration/loader/images.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// How many launches prepare these images; the numbers must be right all the same.
uint32_t launches(ImageLayout to) {
  device_under_test() = {.plugin = "sim", .profile = "plain"};
  World w({}, {{"sim.max_nodes", "9"}});
  const ImageOptions options{
      .to = to, .border = 2, .random_crop = true, .flip = 0.5, .channels = 4, .dtype = bf16};
  Loader loader =
      must(Loader::open(w.device, photos(7, 3, ImageLayout::chw), {.batch = 3, .image = options}));
  CHECK(wrong_numbers(w, loader, options, 3, 0) == 0);
  const uint32_t count = loader.figures().launches;
  CHECK_HAS(loader.explain(), "in " + std::to_string(count) + " launches: not in one, for ");
  CHECK_HAS(loader.explain(), "one kernel holds at most 9");
  return count;
}

}  // namespace

TEST_CASE("launches: a compiler that takes all but the table has two, and explain says why") {
  CHECK(launches(ImageLayout::chw) == 2);
}

TEST_CASE("launches: a compiler that takes less has as many as it needs") {
  CHECK(launches(ImageLayout::hwc) > 2);
}
