// SPDX-License-Identifier: Apache-2.0
// world.hpp: data sets whose samples say which they are, and batches brought back to the host.
#pragma once

#include "integration/device.hpp"

#include <cstring>
#include <vector>

namespace tenon::test {

// The device under test, and the consumer's stream.
struct World {
  explicit World(std::vector<std::string> layers = {}, std::map<std::string, std::string> options = {})
      : runtime(open(std::move(layers), say_nothing, std::move(options))) {}

  Runtime runtime;
  Device device = target(runtime);
  Stream stream = must(device.stream());
};

// Sample i is "number" i32 {} = i and "half" f32 {3} = i / 2 three times.
inline Dataset numbered(uint64_t samples) {
  return {.samples = samples,
          .tensors = {{"number", {i32, {}}}, {"half", {f32, {3}}}},
          .read = [](uint64_t sample, Dataset::Bytes to) {
            const auto number = static_cast<int32_t>(sample);
            const float half = static_cast<float>(sample) / 2;
            const float halves[] = {half, half, half};
            std::memcpy(to[0].data(), &number, sizeof number);
            std::memcpy(to[1].data(), halves, sizeof halves);
            return Status();
          }};
}

template <class T>
std::vector<T> download(Stream& stream, const tn_span& span) {
  std::vector<T> out(span.bytes / sizeof(T));
  if (!out.empty()) must(stream.download(out, span));
  must(stream.sync());
  return out;
}

// The samples of a batch of `numbered`, all tensors of which must agree.
inline std::vector<int32_t> samples_of(Stream& stream, const Batch& batch) {
  REQUIRE(batch.tensors().size() == 2);
  const auto numbers = download<int32_t>(stream, batch.tensors()[0].span);
  const auto halves = download<float>(stream, batch.tensors()[1].span);
  REQUIRE(halves.size() == numbers.size() * 3);
  for (size_t i = 0; i < halves.size(); ++i) CHECK(halves[i] == static_cast<float>(numbers[i / 3]) / 2);
  return numbers;
}

}  // namespace tenon::test
