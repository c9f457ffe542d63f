// SPDX-License-Identifier: Apache-2.0
// shapes.hpp: backward passes as communication sees them: which gradients there are, and how long each takes to come.
//
// Invariant: the parameters are those of the model, in its order; backward finds their gradients in the reverse of it, and `work` is
// the arithmetic of each, so arrivals are spread as in a real step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct Parameter {
  std::string name{};
  uint64_t elements = 0;
  double work = 0;  // any unit: a share of all
};

struct Shape {
  std::string name{};
  std::vector<Parameter> parameters{};
};

// ResNet-50 on images of 224 × 224: 161 parameters, 102 MB; the last stages have most of the bytes and come first.
Shape resnet50();
// A decoder of 8 layers, 512 wide, with 8,192 words: 29 million parameters, 118 MB; its table comes last and is the largest.
Shape decoder();

}  // namespace bench
