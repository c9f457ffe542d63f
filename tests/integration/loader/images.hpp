// SPDX-License-Identifier: Apache-2.0
// images.hpp: photos whose pixels follow from their place, and what the host makes of them.
#pragma once

#include "graph/number.hpp"
#include "integration/loader/world.hpp"
#include "loader/philox.hpp"

#include <cmath>
#include <utility>

namespace tenon::test {

inline constexpr int64_t height = 7, width = 5;

// Sample, channel, row and column give a pixel.
inline uint8_t pixel(uint64_t sample, int64_t c, int64_t y, int64_t x) {
  return static_cast<uint8_t>(
      loader::philox(sample, static_cast<uint64_t>(c), static_cast<uint64_t>(y * width + x))[0]);
}

inline Dataset photos(uint64_t samples, int64_t channels, ImageLayout layout) {
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
inline double precision(DType dtype) { return dtype == f32 ? 1e-7 : std::ldexp(1, dtype == bf16 ? -8 : -11); }

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
inline int wrong_numbers(World& w, Loader& loader, const ImageOptions& options, int64_t channels,
                         uint64_t seed) {
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

}  // namespace tenon::test
