// SPDX-License-Identifier: Apache-2.0
// What the host draws for images, and what is refused. That devices make the right pixels of it is integration_loader's.
#include "loader/image.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace tenon;
using loader::Image;

namespace {

Dataset photos(std::vector<int64_t> dims = {3, 8, 6}, DType dtype = u8) {
  return {.samples = 10, .tensors = {{"label", {i32, {}}}, {"image", {dtype, std::move(dims)}}}};
}

Image made(const ImageOptions& options, uint64_t batch = 2, uint64_t seed = 1) {
  auto image = Image::make(photos(), {.batch = batch, .seed = seed, .image = options});
  REQUIRE_MESSAGE(image.ok(), image.message());
  return std::move(image).take();
}

// Rows and columns of one place, as drawn.
struct Drawn {
  std::vector<int32_t> rows, columns;
  friend auto operator<=>(const Drawn&, const Drawn&) = default;
};

Drawn drawn(const Image& image, uint64_t place, uint64_t sample, uint64_t epoch) {
  std::vector<std::byte> pixels(image.pixel_bytes());
  std::vector<int32_t> rows(image.row_bytes() / 4), columns(image.column_bytes() / 4);
  const Image::Inputs inputs{pixels.data(), rows.data(), columns.data()};
  image.prepare(inputs);
  image.draw(inputs, place, sample, epoch);
  const size_t tall = rows.size() / 2, wide = columns.size() / 2;
  const auto part = [](const std::vector<int32_t>& all, size_t from, size_t count) {
    return std::vector<int32_t>(all.begin() + static_cast<ptrdiff_t>(from),
                                all.begin() + static_cast<ptrdiff_t>(from + count));
  };
  return {part(rows, place * tall, tall), part(columns, place * wide, wide)};
}

void refused(const Dataset& data, const ImageOptions& options, const char* words) {
  const auto image = Image::make(data, {.batch = 2, .image = options});
  CHECK(image.code() == TN_INVALID);
  CHECK_MESSAGE(image.message().find(words) != std::string_view::npos, image.message());
}

}  // namespace

TEST_CASE("image: what is cut from the middle starts there, behind the samples before it") {
  const Image image = made({.height = 4, .width = 2});
  // Planes of 8 x 6; the second sample begins at entry 3 · 48.
  CHECK(drawn(image, 0, 5, 0) == Drawn{{12, 18, 24, 30}, {2, 3}});
  CHECK(drawn(image, 1, 5, 0) == Drawn{{156, 162, 168, 174}, {2, 3}});
}

TEST_CASE("image: rows and columns outside stand for the fill, behind the last pixel") {
  const Image image = made({.border = 1, .fill = 9, .height = 10, .width = 8});
  const int32_t outside = 2 * 3 * 48;
  CHECK(drawn(image, 0, 0, 0).rows == std::vector<int32_t>{outside, 0, 6, 12, 18, 24, 30, 36, 42, outside});
  CHECK(drawn(image, 0, 0, 0).columns == std::vector<int32_t>{outside, 0, 1, 2, 3, 4, 5, outside});
  std::vector<std::byte> pixels(image.pixel_bytes());
  std::vector<int32_t> rows(image.row_bytes() / 4), columns(image.column_bytes() / 4);
  image.prepare({pixels.data(), rows.data(), columns.data()});
  CHECK(pixels.size() == outside + 1);
  CHECK(pixels.back() == std::byte{9});
  CHECK(rows == std::vector<int32_t>(20, outside));
}

TEST_CASE("image: a mirrored image has its columns counted backwards") {
  CHECK(drawn(made({.flip = 1}), 0, 3, 0).columns == std::vector<int32_t>{5, 4, 3, 2, 1, 0});
}

TEST_CASE("image: draws follow from seed, epoch and sample, and not from the place") {
  const ImageOptions options{.border = 4, .random_crop = true, .flip = 0.5};
  const Image image = made(options), other = made(options, 2, 2);
  int epochs = 0, samples = 0, seeds = 0;
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const Drawn one = drawn(image, 0, sample, 3);
    CHECK(one == drawn(image, 0, sample, 3));
    CHECK(one.columns == drawn(image, 1, sample, 3).columns);
    epochs += one != drawn(image, 0, sample, 4);
    samples += one != drawn(image, 0, sample + 1, 3);
    seeds += one != drawn(other, 0, sample, 3);
  }
  CHECK(epochs > 40);
  CHECK(samples > 40);
  CHECK(seeds > 40);
}

TEST_CASE("image: every place is cut out some time, and the share that is mirrored is as asked") {
  const Image image = made({.border = 1, .random_crop = true, .flip = 0.25});
  std::set<Drawn> seen;
  int mirrored = 0;
  for (uint64_t sample = 0; sample < 4000; ++sample) {
    const Drawn one = drawn(image, 0, sample, 0);
    mirrored += one.columns[2] > one.columns[3];
    seen.insert(one);
  }
  CHECK(seen.size() == 3 * 3 * 2);
  CHECK(mirrored > 900);  // 1,000 are expected, with a deviation of 27; the seed is fixed
  CHECK(mirrored < 1100);
}

TEST_CASE("image: where nothing is cut out or mirrored there is no table, and no rows and columns") {
  const Image image = made({.channels = 4, .dtype = bf16});
  CHECK_FALSE(image.gathers());
  CHECK(image.pixel_bytes() == 2 * 3 * 48);
  CHECK(image.row_bytes() + image.column_bytes() == 0);
  CHECK(image.output().dims == std::vector<int64_t>{2, 4, 8, 6});
  CHECK(image.output().dtype == bf16);
}

TEST_CASE("image: hwc results are said by strides") {
  const Image image = made({.to = ImageLayout::hwc, .channels = 4});
  CHECK(image.output().dims == std::vector<int64_t>{2, 4, 8, 6});
  CHECK(image.output().strides == std::vector<int64_t>{8 * 6 * 4, 1, 6 * 4, 4});
}

TEST_CASE("image: what cannot be is refused by name and value") {
  refused(photos(), {.tensor = "imag"}, "samples have no tensor called 'imag' (did you mean 'image'?)");
  refused(photos({3, 8, 6}, f32), {}, "tensor 'image' is f32 with 3 dims; an image is u8 with 3");
  refused(photos({8, 6}), {}, "is u8 with 2 dims");
  refused(photos({3, 0, 6}), {}, "has no pixels");
  refused(photos(), {.border = -1}, "border is -1");
  refused(photos(), {.height = 9}, "what is cut out is 9 x 6, and the image with its border 8 x 6");
  refused(photos(), {.width = -3}, "what is cut out is 8 x -3");
  refused(photos(), {.flip = 1.5}, "flip is 1.5");
  refused(photos(), {.mean = {1, 2}}, "mean has 2 numbers, and an image has 3 channels");
  refused(photos(), {.deviation = {1, 0, 1}}, "a deviation is 0");
  refused(photos(), {.scale = std::numeric_limits<double>::infinity()}, "scale is not finite");
  refused(photos(), {.channels = -1}, "channels is -1");
  refused(photos(), {.dtype = f64}, "dtype is f64; f32, f16 or bf16 will do");
  refused(photos({3, 20'000, 20'000}), {.flip = 1}, "take a smaller batch");
}
