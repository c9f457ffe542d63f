// SPDX-License-Identifier: Apache-2.0
// layers.hpp: a course as ranks read it: lines "NAME ELEMENTS TURNS" in the order of the parameters, of which the first is
// "forward 0 TURNS".
//
// Invariant: every contestant's ranks read it here, so all of them do the same work for the same gradients.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace bench {

struct Layer {
  std::string name{};
  uint64_t elements = 0, turns = 0;
};

struct Layers {
  uint64_t forward_turns = 0;
  std::vector<Layer> all{};  // none: there is no such file, or it is no course
};

inline Layers read_layers(const std::string& path) {
  Layers out;
  std::ifstream file(path);
  for (Layer layer; file >> layer.name >> layer.elements >> layer.turns;) {
    if (layer.name == "forward")
      out.forward_turns = layer.turns;
    else
      out.all.push_back(layer);
  }
  return out;
}

}  // namespace bench
