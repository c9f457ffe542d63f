// SPDX-License-Identifier: Apache-2.0
// layers.hpp: boxes and the arrows between them, laid out in layers from top to bottom. Geometry only.
//
// Invariant: no two boxes overlap, and an arrow's way leads past the boxes of the layers between its ends. Equal questions
// have equal answers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::graph {

struct Point {
  double x = 0, y = 0;
};

struct LayerBox {
  double width = 0, height = 0;
  bool last = false;  // stands below all others, in a layer of such
};

// Arrows that leave one box as the same line share their way as far as it is the same.
struct LayerArrow {
  uint32_t from = 0, to = 0;
  uint32_t line = 0;
};

struct LayerPicture {
  std::vector<Point> corners{};  // of each box, left and up
  std::vector<double> floors{};  // of each box: where its layer ends, so that arrows may turn
  std::vector<std::vector<Point>>
      ways{};  // of each arrow: what it passes between its ends, from top to bottom
  double width = 0, height = 0;
};

// A box without arrows to it stands just above the first that it leads to. An arrow that closes a cycle points upwards.
// [any-thread; does not block; cannot fail]
LayerPicture lay_out(std::span<const LayerBox> boxes, std::span<const LayerArrow> arrows);

}  // namespace tenon::graph
