// SPDX-License-Identifier: Apache-2.0
// resnet50.hpp: the parameters of ResNet-50 that several suites measure with.
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// The elements of its 161 parameters in order: 53 convolutions, each with a batch norm's scale and bias, and a linear layer.
inline std::vector<int64_t> resnet50_sizes() {
  std::vector<int64_t> out;
  const auto convolution = [&](int64_t from, int64_t to, int64_t kernel) {
    for (const int64_t elements : {from * to * kernel * kernel, to, to}) out.push_back(elements);
  };
  convolution(3, 64, 7);
  int64_t from = 64, width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      convolution(from, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (block == 0) convolution(from, 4 * width, 1);
      from = 4 * width;
    }
    width *= 2;
  }
  for (const int64_t elements : {from * 1000, int64_t{1000}}) out.push_back(elements);
  return out;
}

}  // namespace bench
