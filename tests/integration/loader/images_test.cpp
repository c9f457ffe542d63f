// SPDX-License-Identifier: Apache-2.0
// What a device makes of images is what the host makes of them, for every combination of options.
#include "integration/loader/images.hpp"

using namespace tenon;
using namespace tenon::test;

namespace {

// What is cut out.
enum class Cut { nothing, middle, anywhere, anywhere_with_border };

ImageOptions cut(Cut cut) {
  switch (cut) {
    case Cut::nothing:
      return {};
    case Cut::middle:
      return {.height = 4, .width = 4};
    case Cut::anywhere:
      return {.height = 3, .width = 4, .random_crop = true};
    case Cut::anywhere_with_border:
      return {.border = 2, .fill = 77, .random_crop = true};
  }
  return {};
}

template <class Visit>
void for_layouts(Visit&& visit) {
  for (const ImageLayout from : {ImageLayout::chw, ImageLayout::hwc}) {
    for (const ImageLayout to : {ImageLayout::chw, ImageLayout::hwc}) visit(from, to);
  }
}

}  // namespace

TEST_CASE("images: every combination of options gives the host's numbers, in one launch") {
  World w;
  for (const Cut part : {Cut::nothing, Cut::middle, Cut::anywhere, Cut::anywhere_with_border}) {
    for (const double flip : {0.0, 0.5}) {
      for (const int64_t channels : {1, 3}) {
        for (const int64_t least : {0, 4}) {
          for (const DType dtype : {f32, f16, bf16}) {
            for_layouts([&](ImageLayout from, ImageLayout to) {
              ImageOptions options = cut(part);
              options.from = from;
              options.to = to;
              options.flip = flip;
              options.channels = least;
              options.dtype = dtype;
              if (channels == 3) {
                options.mean = {0.485, 0.456, 0.406};
                options.deviation = {0.229, 0.224, 0.225};
              }
              Loader loader = must(Loader::open(w.device, photos(7, channels, from),
                                                {.batch = 3, .seed = 9, .depth = 1, .image = options}));
              CAPTURE(loader.explain());
              CHECK(wrong_numbers(w, loader, options, channels, 9) == 0);
              CHECK(loader.figures().launches == 1);
            });
          }
        }
      }
    }
  }
}

TEST_CASE(
    "images: what is drawn for a sample depends on neither ranks, workers nor depth, and is new in each "
    "epoch") {
  World w;
  const ImageOptions options{.border = 2, .random_crop = true, .flip = 0.5};
  const auto images = [&](LoaderOptions asked, uint64_t epoch) {
    asked.image = options;
    asked.seed = 4;
    asked.shuffle = false;  // so that epochs differ by what is drawn alone
    std::vector<float> out;
    for (asked.rank = 0; asked.rank < asked.ranks; ++asked.rank) {
      Loader loader = must(Loader::open(w.device, photos(12, 3, ImageLayout::chw), asked));
      must(loader.seek(epoch, 1));
      const auto part = download<float>(w.stream, must(loader.next(w.stream)).tensors()[1].span);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  };
  const auto one = images({.batch = 6}, 2);
  CHECK(one == images({.batch = 2, .ranks = 3, .depth = 4, .workers = 4}, 2));
  CHECK(one == images({.batch = 3, .ranks = 2, .depth = 1, .workers = 1}, 2));
  CHECK(one != images({.batch = 6}, 3));
}

TEST_CASE("images: short batches are prepared, too") {
  World w;
  const ImageOptions options{.to = ImageLayout::hwc, .border = 1, .random_crop = true};
  Loader loader = must(Loader::open(w.device, photos(4, 3, ImageLayout::chw),
                                    {.batch = 3, .uneven = Uneven::join, .image = options}));
  const Reference reference{options, 3, 0};
  static_cast<void>(must(loader.next(w.stream)));
  const Batch last = must(loader.next(w.stream));
  CHECK(last.samples() == 1);
  CHECK(last.tensors()[1].spec.dims == std::vector<int64_t>{1, 3, height, width});
  const auto labels = download<int32_t>(w.stream, last.tensors()[0].span);
  const auto image = download<float>(w.stream, last.tensors()[1].span);
  REQUIRE(image.size() == 3 * height * width);
  for (int64_t i = 0; i < height * width; ++i) {
    const auto [value, bound] = reference.at(static_cast<uint64_t>(labels[0]), 0, 1, i / width, i % width);
    CHECK(std::abs(static_cast<double>(image[static_cast<size_t>(i * 3 + 1)]) - value) <= bound);
  }
}

TEST_CASE("images: explained by what is cut out, drawn and made") {
  World w;
  Loader loader = must(Loader::open(w.device, photos(7, 3, ImageLayout::hwc),
                                    {.batch = 3,
                                     .image = ImageOptions{.from = ImageLayout::hwc,
                                                           .border = 2,
                                                           .random_crop = true,
                                                           .flip = 0.5,
                                                           .channels = 4,
                                                           .dtype = bf16}}));
  CHECK_HAS(loader.explain(),
            "image    7 x 5 from anywhere in 11 x 9, 0.5 of them mirrored, normalised, NHWC to NCHW, 3 to 4 "
            "channels, bf16, "
            "in one launch (");
}
