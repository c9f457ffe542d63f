// SPDX-License-Identifier: Apache-2.0
// What a device makes of images is what the host makes of them, for every combination of options.
#include "graph/number.hpp"
#include "integration/loader/world.hpp"
#include "loader/philox.hpp"

#include <cmath>

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int64_t height = 7, width = 5;

// Sample, channel, row and column give a pixel.
uint8_t pixel(uint64_t sample, int64_t c, int64_t y, int64_t x) {
  return static_cast<uint8_t>(
      loader::philox(sample, static_cast<uint64_t>(c), static_cast<uint64_t>(y * width + x))[0]);
}

Dataset photos(uint64_t samples, int64_t channels, ImageLayout layout) {
  const bool hwc = layout == ImageLayout::hwc;
  return {
      .samples = samples,
      .tensors = {{"label", {i32, {}}},
                  {"image",
                   {u8, hwc ? std::vector{height, width, channels} : std::vector{channels, height, width}}}},
      .read = [channels, hwc](uint64_t sample, Dataset::Bytes to) {
        const auto label = static_cast<int32_t>(sample);
        std::memcpy(to[0].data(), &label, sizeof label);
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t y = 0; y < height; ++y) {
            for (int64_t x = 0; x < width; ++x) {
              const int64_t at = hwc ? (y * width + x) * channels + c : (c * height + y) * width + x;
              to[1][static_cast<size_t>(at)] = std::byte{pixel(sample, c, y, x)};
            }
          }
        }
        return Status();
      }};
}

// Half of the last place, of one.
double precision(DType dtype) { return dtype == f32 ? 1e-7 : std::ldexp(1, dtype == bf16 ? -8 : -11); }

// The host's way: the definition of ImageOptions, one number at a time.
struct Reference {
  const ImageOptions& options;
  int64_t channels;
  uint64_t seed;

  int64_t tall() const { return options.height != 0 ? options.height : height; }
  int64_t wide() const { return options.width != 0 ? options.width : width; }

  // Of a sample's result: the number, and how far off it may be.
  std::pair<double, double> at(uint64_t sample, uint64_t epoch, int64_t c, int64_t y, int64_t x) const {
    if (c >= channels) return {0, 0};
    const auto draws = loader::philox(loader::key_of(seed, loader::Purpose::image), sample, epoch);
    const int64_t slack_y = height + 2 * options.border - tall(),
                  slack_x = width + 2 * options.border - wide();
    const int64_t top =
        options.random_crop ? loader::below(static_cast<uint32_t>(slack_y + 1), draws[0]) : slack_y / 2;
    const int64_t left =
        options.random_crop ? loader::below(static_cast<uint32_t>(slack_x + 1), draws[1]) : slack_x / 2;
    if (static_cast<double>(draws[2]) < options.flip * 4294967296.0) x = wide() - 1 - x;
    const int64_t from_y = top + y - options.border, from_x = left + x - options.border;
    const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
    const double raw = inside ? pixel(sample, c, from_y, from_x) : options.fill;
    const auto i = static_cast<size_t>(c);
    const double mean = options.mean.empty() ? 0 : options.mean[i];
    const double deviation = options.deviation.empty() ? 1 : options.deviation[i];
    const double value = (raw * options.scale - mean) / deviation;
    const double parts = (std::abs(raw * options.scale) + std::abs(mean)) / deviation;
    return {value, std::abs(value) * precision(options.dtype) + parts * 3e-7};
  }
};

// Two batches of three of seven samples, as one rank of one. Returns how many numbers are wrong.
int wrong_numbers(World& w, Loader& loader, const ImageOptions& options, int64_t channels, uint64_t seed) {
  const Reference reference{options, channels, seed};
  const int64_t tall = reference.tall(), wide = reference.wide(), deep = std::max(channels, options.channels);
  const bool hwc = options.to == ImageLayout::hwc;
  int wrong = 0;
  for (int i = 0; i < 2; ++i) {
    const Batch batch = must(loader.next(w.stream));
    const auto labels = download<int32_t>(w.stream, batch.tensors()[0].span);
    const auto& image = batch.tensors()[1];
    REQUIRE(image.spec.dims == std::vector{int64_t{3}, deep, tall, wide});
    REQUIRE(image.spec.dtype == options.dtype);
    const auto bytes = download<std::byte>(w.stream, image.span);
    const uint64_t each = bits(options.dtype) / 8;
    REQUIRE(bytes.size() == static_cast<uint64_t>(3 * deep * tall * wide) * each);
    for (int64_t n = 0; n < 3; ++n) {
      for (int64_t c = 0; c < deep; ++c) {
        for (int64_t y = 0; y < tall; ++y) {
          for (int64_t x = 0; x < wide; ++x) {
            const int64_t at =
                hwc ? ((n * tall + y) * wide + x) * deep + c : ((n * deep + c) * tall + y) * wide + x;
            const auto [value, bound] =
                reference.at(static_cast<uint64_t>(labels[static_cast<size_t>(n)]), batch.epoch(), c, y, x);
            wrong += !(std::abs(graph::read_element(options.dtype, &bytes[static_cast<size_t>(at) * each]) -
                                value) <= bound);
          }
        }
      }
    }
  }
  return wrong;
}

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

// How many launches prepare images where kernels hold `most` nodes; the numbers must be right all the same.
uint32_t launches_of_few_nodes(const std::string& most) {
  World w({}, {{"sim.max_nodes", most}});
  const ImageOptions options{.border = 2, .random_crop = true, .flip = 0.5, .channels = 4, .dtype = bf16};
  Loader loader =
      must(Loader::open(w.device, photos(7, 3, ImageLayout::chw), {.batch = 3, .image = options}));
  CHECK(wrong_numbers(w, loader, options, 3, 0) == 0);
  const uint32_t launches = loader.figures().launches;
  CHECK_HAS(loader.explain(), "in " + std::to_string(launches) + " launches: not in one, for ");
  CHECK_HAS(loader.explain(), "one kernel holds at most " + most);
  return launches;
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

// Each in a process of its own: the simulated device reads its options once.
TEST_CASE("images: a compiler that does not take all of it has two launches, and explain says why") {
  if (device_under_test().label() != "sim/plain")
    TENON_SKIP("sim/plain", "it is the device whose kernels can be told to hold few nodes");
  CHECK(launches_of_few_nodes("9") == 2);
}

TEST_CASE("images: a compiler that takes next to nothing has as many launches as it needs") {
  if (device_under_test().label() != "sim/plain")
    TENON_SKIP("sim/plain", "it is the device whose kernels can be told to hold few nodes");
  CHECK(launches_of_few_nodes("4") > 2);
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
