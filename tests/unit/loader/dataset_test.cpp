// SPDX-License-Identifier: Apache-2.0
// Data sets in memory.
#include <tenon/loader.hpp>

#include <doctest/doctest.h>

using namespace tenon;

namespace {

std::vector<std::byte> counting(size_t count) {
  std::vector<std::byte> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i);
  return out;
}

void refused(std::vector<MemoryTensor> tensors, const char* words) {
  const auto made = memory_dataset(std::move(tensors));
  CHECK(made.code() == TN_INVALID);
  CHECK_MESSAGE(made.message().find(words) != std::string_view::npos, made.message());
}

}  // namespace

TEST_CASE("dataset: a sample of memory is its part of every tensor") {
  const auto made =
      memory_dataset({{"image", {u8, {2, 2}}, counting(12)}, {"label", {i32, {}}, counting(12)}});
  REQUIRE_MESSAGE(made.ok(), made.message());
  CHECK(made->samples == 3);
  REQUIRE(made->tensors.size() == 2);
  CHECK(made->tensors[1].name == "label");
  std::vector<std::byte> image(4), label(4);
  const std::span<std::byte> to[] = {image, label};
  REQUIRE(made->read(2, to).ok());
  CHECK(image == std::vector<std::byte>{std::byte{8}, std::byte{9}, std::byte{10}, std::byte{11}});
  CHECK(label == image);
}

TEST_CASE("dataset: bytes that are no whole number of samples, or of another number, are refused") {
  refused({}, "there is no tensor");
  refused({{"x", {f32, {2}}, counting(12)}},
          "tensor 'x' has 12 bytes, which are no whole number of samples of 8");
  refused({{"x", {f32, {2}}, {}}}, "tensor 'x' has 0 bytes");
  refused({{"x", {f32, {0}}, counting(4)}}, "a sample of tensor 'x' has no bytes");
  refused({{"x", {u8, {2}}, counting(12)}, {"y", {u8, {}}, counting(5)}},
          "tensor 'y' has 5 samples, tensor 'x' has 6");
}
