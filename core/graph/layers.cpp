// SPDX-License-Identifier: Apache-2.0
// layers.cpp: layers by longest path, an order in them by barycentres, and places by least squares.
//
// Invariant: an arrow over several layers is a chain of bends, one in each, which take part as boxes do: that is how a way
// finds room.
#include "graph/layers.hpp"

#include <algorithm>
#include <map>

namespace tenon::graph {
namespace {

constexpr double between_boxes = 22, between_bends = 10, between_layers = 34;
constexpr double straightness = 6;  // how much more a bend insists on its place than a box
constexpr double widest = 1800;     // of the boxes of one layer; more of them go down
constexpr int sweeps = 10;

// A box, or the bend of a line in a layer between its ends.
struct Slot {
  double width = 0;  // of a bend, and of a box that is a point, none
  double x = 0;      // of its middle
  bool bend = false;
  std::vector<uint32_t> above{}, below{};
};

class Layers {
 public:
  Layers(std::span<const LayerBox> boxes, std::span<const LayerArrow> arrows)
      : boxes_(boxes),
        arrows_(arrows),
        rank_(boxes.size(), 0),
        source_(boxes.size(), false),
        bends_(arrows.size()) {}

  LayerPicture run() && {
    descend();
    sink();
    for (const LayerBox& box : boxes_) slots_.push_back({.width = box.width});
    bend();
    order();
    place();
    return picture();
  }

 private:
  bool is_full(uint32_t layer, uint32_t box) {
    if (layer >= filled_.size()) filled_.resize(layer + 1, 0);
    return filled_[layer] > 0 && filled_[layer] + boxes_[box].width > widest;
  }

  void put(uint32_t box, uint32_t layer) {
    if (layer >= filled_.size()) filled_.resize(layer + 1, 0);
    rank_[box] = layer;
    filled_[layer] += boxes_[box].width;
  }

  void put_down(uint32_t box, uint32_t layer) {
    while (is_full(layer, box)) ++layer;
    put(box, layer);
  }

  // Every box that something leads to below the lowest that does, where there is room. In a cycle the first box counts as
  // reached.
  void descend() {
    std::vector<std::vector<uint32_t>> next(boxes_.size());
    std::vector<uint32_t> waiting(boxes_.size(), 0), ready;
    for (const LayerArrow& arrow : arrows_) {
      next[arrow.from].push_back(arrow.to);
      ++waiting[arrow.to];
    }
    std::vector<bool> reached(boxes_.size(), false);
    const auto reach = [&](uint32_t box) {
      if (!reached[box]) ready.push_back(box);
      reached[box] = true;
    };
    for (uint32_t box = 0; box < boxes_.size(); ++box) {
      source_[box] = waiting[box] == 0;
      if (source_[box]) reach(box);
    }
    for (uint32_t done = 0, oldest = 0; done < boxes_.size(); ++done) {
      while (done == ready.size()) reach(oldest++);
      const uint32_t box = ready[done];
      if (!source_[box]) put_down(box, rank_[box]);
      for (const uint32_t to : next[box]) {
        if (!reached[to]) rank_[to] = std::max(rank_[to], rank_[box] + 1);
        if (--waiting[to] == 0) reach(to);
      }
    }
  }

  // The last boxes below all others, and sources to what they lead to.
  void sink() {
    std::vector<uint32_t> first(boxes_.size(), UINT32_MAX);
    for (const LayerArrow& arrow : arrows_) first[arrow.from] = 0;
    uint32_t deepest = 0;
    for (uint32_t box = 0; box < boxes_.size(); ++box) {
      if (source_[box] && first[box] != 0) put_down(box, 0);  // leads nowhere
      if (!boxes_[box].last) deepest = std::max(deepest, rank_[box]);
    }
    for (uint32_t box = 0; box < boxes_.size(); ++box) {
      if (boxes_[box].last) rank_[box] = deepest + 1;
    }
    std::fill(first.begin(), first.end(), UINT32_MAX);
    for (const LayerArrow& arrow : arrows_) first[arrow.from] = std::min(first[arrow.from], rank_[arrow.to]);
    for (uint32_t box = 0; box < boxes_.size(); ++box) {
      if (!source_[box] || first[box] == UINT32_MAX) continue;
      uint32_t layer = std::max(first[box], 1u) - 1;
      while (layer > 0 && is_full(layer, box)) --layer;
      put(box, layer);
    }
  }

  void connect(uint32_t above, uint32_t below) {
    slots_[above].below.push_back(below);
    slots_[below].above.push_back(above);
  }

  // Gives every line its chain of bends, as long as its longest arrow, and every arrow its part of it.
  void bend() {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> chains;
    const auto layers = rank_.empty() ? 0 : *std::max_element(rank_.begin(), rank_.end()) + 1;
    rows_.resize(layers);
    for (uint32_t box = 0; box < boxes_.size(); ++box) rows_[rank_[box]].push_back(box);
    for (size_t i = 0; i < arrows_.size(); ++i) {
      const LayerArrow& arrow = arrows_[i];
      if (rank_[arrow.to] <= rank_[arrow.from]) continue;  // closes a cycle
      const uint32_t length = rank_[arrow.to] - rank_[arrow.from] - 1;
      std::vector<uint32_t>& chain = chains[{arrow.from, arrow.line}];
      while (chain.size() < length) {
        const auto slot = static_cast<uint32_t>(slots_.size());
        slots_.push_back({.bend = true});
        rows_[rank_[arrow.from] + 1 + chain.size()].push_back(slot);
        connect(chain.empty() ? arrow.from : chain.back(), slot);
        chain.push_back(slot);
      }
      bends_[i].assign(chain.begin(), chain.begin() + length);
      connect(length == 0 ? arrow.from : bends_[i].back(), arrow.to);
    }
  }

  // The mean of `of` over neighbours, or what it is here when there are none.
  template <class Of>
  double mean(const std::vector<uint32_t>& neighbours, double here, Of&& of) const {
    if (neighbours.empty()) return here;
    double sum = 0;
    for (const uint32_t slot : neighbours) sum += of(slot);
    return sum / static_cast<double>(neighbours.size());
  }

  void order() {
    std::vector<double> position(slots_.size()), key(slots_.size());
    const auto number = [&](const std::vector<uint32_t>& row) {
      for (size_t i = 0; i < row.size(); ++i) position[row[i]] = static_cast<double>(i);
    };
    for (const auto& row : rows_) number(row);
    const auto sort = [&](std::vector<uint32_t>& row, auto side) {
      for (const uint32_t slot : row)
        key[slot] = mean(slots_[slot].*side, position[slot], [&](uint32_t other) { return position[other]; });
      std::stable_sort(row.begin(), row.end(), [&](uint32_t a, uint32_t b) { return key[a] < key[b]; });
      number(row);
    };
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      for (auto row = rows_.begin(); row != rows_.end(); ++row) sort(*row, &Slot::above);
      for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) sort(*row, &Slot::below);
    }
  }

  double apart(uint32_t left, uint32_t right) const {
    const Slot &a = slots_[left], &b = slots_[right];
    return (a.width + b.width) / 2 + (a.width + b.width > 0 ? between_boxes : between_bends);
  }

  // The places nearest to the wanted ones (least squares) at which no two slots of a row touch: less the room to its left,
  // each place is at least the one before, and runs that are not take their mean.
  void settle(const std::vector<uint32_t>& row, const std::vector<double>& wanted) {
    struct Run {
      double sum = 0, weight = 0;
      size_t length = 0;
      double place() const { return sum / weight; }
    };
    std::vector<Run> runs;
    std::vector<double> room(row.size(), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) room[i] = room[i - 1] + apart(row[i - 1], row[i]);
      const double weight = slots_[row[i]].bend ? straightness : 1;
      runs.push_back({(wanted[i] - room[i]) * weight, weight, 1});
      while (runs.size() > 1 && runs[runs.size() - 2].place() > runs.back().place()) {
        const Run last = runs.back();
        runs.pop_back();
        runs.back() = {runs.back().sum + last.sum, runs.back().weight + last.weight,
                       runs.back().length + last.length};
      }
    }
    size_t i = 0;
    for (const Run& run : runs) {
      for (const size_t end = i + run.length; i < end; ++i) slots_[row[i]].x = run.place() + room[i];
    }
  }

  void place() {
    const auto x = [&](uint32_t slot) { return slots_[slot].x; };
    const auto pull = [&](const std::vector<uint32_t>& row, bool up, bool down) {
      std::vector<double> wanted;
      for (const uint32_t slot : row) {
        const Slot& s = slots_[slot];
        const double above = mean(s.above, s.x, x), below = mean(s.below, s.x, x);
        wanted.push_back(up && down && !s.above.empty() && !s.below.empty() ? (above + below) / 2
                         : up && !s.above.empty()                           ? above
                         : down                                             ? below
                                                                            : s.x);
      }
      settle(row, wanted);
    };
    for (const auto& row : rows_) settle(row, std::vector<double>(row.size(), 0));
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      for (auto row = rows_.begin(); row != rows_.end(); ++row) pull(*row, true, false);
      for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) pull(*row, false, true);
    }
    for (const auto& row : rows_) pull(row, true, true);
  }

  LayerPicture picture() {
    LayerPicture out{.corners = std::vector<Point>(boxes_.size()),
                     .floors = std::vector<double>(boxes_.size()),
                     .ways = std::vector<std::vector<Point>>(arrows_.size())};
    double left = slots_.empty() ? 0 : slots_.front().x, right = left;
    for (const Slot& slot : slots_) left = std::min(left, slot.x - slot.width / 2);
    std::vector<Point> span(slots_.size());  // of each slot, where its layer begins and ends
    for (const auto& row : rows_) {
      if (&row != &rows_.front()) out.height += between_layers;
      const double top = out.height;
      for (const uint32_t slot : row) {
        if (slot < boxes_.size()) out.height = std::max(out.height, top + boxes_[slot].height);
        right = std::max(right, slots_[slot].x + slots_[slot].width / 2);
      }
      for (const uint32_t slot : row) span[slot] = {top, out.height};
    }
    for (uint32_t box = 0; box < boxes_.size(); ++box) {
      out.corners[box] = {slots_[box].x - slots_[box].width / 2 - left, span[box].x};
      out.floors[box] = span[box].y;
    }
    for (size_t i = 0; i < arrows_.size(); ++i) {
      for (const uint32_t slot : bends_[i]) {
        const double x = slots_[slot].x - left;
        out.ways[i].push_back({x, span[slot].x});
        out.ways[i].push_back({x, span[slot].y});
      }
    }
    out.width = right - left;
    return out;
  }

  std::span<const LayerBox> boxes_;
  std::span<const LayerArrow> arrows_;
  std::vector<uint32_t> rank_;
  std::vector<bool> source_;                   // nothing leads to it
  std::vector<double> filled_{};               // of each layer, by boxes
  std::vector<Slot> slots_{};                  // boxes first
  std::vector<std::vector<uint32_t>> rows_{};  // of slots, from left to right
  std::vector<std::vector<uint32_t>> bends_;   // of each arrow
};

}  // namespace

LayerPicture lay_out(std::span<const LayerBox> boxes, std::span<const LayerArrow> arrows) {
  return Layers(boxes, arrows).run();
}

}  // namespace tenon::graph
