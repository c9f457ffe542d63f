// SPDX-License-Identifier: Apache-2.0
// shapes.cpp: the two models, layer by layer.
#include "shapes.hpp"

namespace bench {
namespace {

// What a batch norm or another pass over memory costs beside a product, for each element that it walks.
constexpr double walk = 64;

class Convolutions {
 public:
  explicit Convolutions(Shape& shape) : shape_(shape) {}

  void add(uint64_t from, uint64_t to, uint64_t kernel, uint64_t size) {
    const std::string name = "conv" + std::to_string(count_++);
    const double places = static_cast<double>(size * size);
    const uint64_t weights = from * to * kernel * kernel;
    shape_.parameters.push_back({name + ".weight", weights, static_cast<double>(weights) * places});
    for (const char* part : {".scale", ".bias"})
      shape_.parameters.push_back({name + part, to, walk * static_cast<double>(to) * places / 2});
  }

 private:
  Shape& shape_;
  uint32_t count_ = 0;
};

}  // namespace

Shape resnet50() {
  Shape out{.name = "resnet50"};
  Convolutions convolutions(out);
  convolutions.add(3, 64, 7, 112);
  uint64_t from = 64, width = 64, size = 56;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      convolutions.add(from, width, 1, size);
      convolutions.add(width, width, 3, size);
      convolutions.add(width, 4 * width, 1, size);
      if (block == 0) convolutions.add(from, 4 * width, 1, size);
      from = 4 * width;
    }
    width *= 2;
    size /= 2;
  }
  out.parameters.push_back({"linear.weight", from * 1000, static_cast<double>(from) * 1000});
  out.parameters.push_back({"linear.bias", 1000, walk * 1000});
  return out;
}

Shape decoder() {
  constexpr uint64_t width = 512, layers = 8, words = 8192;
  Shape out{.name = "transformer"};
  const auto add = [&](const std::string& name, uint64_t elements, bool product) {
    const auto count = static_cast<double>(elements);
    out.parameters.push_back({name, elements, product ? count : walk * count});
  };
  add("table.weight", words * width, false);
  for (uint64_t layer = 0; layer < layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    for (const char* part : {".norm1_scale", ".norm1_bias"}) add(name + part, width, false);
    add(name + ".qkv", 3 * width * width, true);
    add(name + ".out", width * width, true);
    for (const char* part : {".norm2_scale", ".norm2_bias"}) add(name + part, width, false);
    add(name + ".up", 4 * width * width, true);
    add(name + ".down", 4 * width * width, true);
  }
  for (const char* part : {"norm.scale", "norm.bias"}) add(part, width, false);
  // The table's lookup is cheap: its gradient is the last, and nothing hides it.
  out.parameters.front().work = walk;
  return out;
}

}  // namespace bench
