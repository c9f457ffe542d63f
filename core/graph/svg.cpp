// SPDX-License-Identifier: Apache-2.0
// svg.cpp: a graph as a picture: nodes with the values they make, leaves, outputs, frames around nodes, lines between.
//
// A frame is laid out by itself and stands in the whole as one box; a line that enters or leaves it does so at a gate of its
// own. Invariant: every node, leaf and output is one rectangle, and whatever names hold the text is well-formed.
#include "base/svg.hpp"
#include "graph/layers.hpp"
#include "graph/state.hpp"
#include "graph/words.hpp"

#include <algorithm>

namespace tenon {
namespace {

using graph::LayerArrow;
using graph::LayerBox;
using graph::LayerPicture;
using graph::Point;
namespace svg = base::svg;

constexpr double letter = 7.3, line_height = 15, margin = 9;  // of 12 px monospace, a little wider than it is
constexpr double title_height = 18, frame_margin = 12, page_margin = 16;

constexpr const char* head =
    "<style>text{font:12px monospace;fill:#222}.op{font-weight:bold}.node{fill:#fff;stroke:#555}"
    ".input{fill:#e8f1fb;stroke:#5b8ab8}.param{fill:#e4e4e4;stroke:#888}.constant{fill:#f6f3e6;stroke:#"
    "b0a878}"
    ".output{fill:#e9f6ea;stroke:#4e9a57;stroke-width:2}.frame{fill:#fdf4e3;stroke:#d09a3a;stroke-dasharray:"
    "5 3}"
    ".title{fill:#95640a;paint-order:stroke;stroke:#fdf4e3;stroke-width:4px}.line{fill:none;stroke:#888}"
    "</style>\n<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" "
    "markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#888\"/></marker></defs>\n";

// A rectangle with lines of text.
struct Item {
  std::string kind{}, hint{};
  std::vector<std::string> lines{};
  uint32_t place = 0, box = 0;  // in which scene, as which of its boxes
};

// What is laid out together: the members and gates of a frame, or frames and all that is in none.
struct Scene {
  std::vector<LayerBox> boxes{};
  std::vector<LayerArrow> arrows{};
  std::map<std::pair<bool, uint32_t>, uint32_t> gates{};  // (leaving, value) → box
  LayerPicture picture{};
  Point origin{};

  uint32_t add(LayerBox box) {
    boxes.push_back(box);
    return static_cast<uint32_t>(boxes.size() - 1);
  }
  uint32_t lead(uint32_t from, uint32_t to, uint32_t value) {
    arrows.push_back({from, to, value});
    return static_cast<uint32_t>(arrows.size() - 1);
  }
  uint32_t gate(bool leaving, uint32_t value) {
    const auto [at, fresh] = gates.try_emplace({leaving, value}, 0);
    if (fresh) at->second = add({.last = leaving});
    return at->second;
  }
  Point corner(uint32_t box) const {
    return {origin.x + picture.corners[box].x, origin.y + picture.corners[box].y};
  }
};

// From what makes a value to what takes it: one arrow within a scene, or up to three across frames.
struct Line {
  uint32_t from = 0, to = 0, value = 0;  // items
  double port = 0.5;                     // where it ends, as a part of the width
  uint32_t leaves = TN_ABSENT, passes = TN_ABSENT, enters = TN_ABSENT;  // arrows
};

class Drawing {
 public:
  Drawing(const Graph::State& state, std::span<const Graph::Frame> frames)
      : state_(state), frames_(frames), scenes_(frames.size() + 1) {}

  std::string run() && {
    find_items();
    find_lines();
    for (uint32_t f = 0; f < frames_.size(); ++f) scenes_[f].picture = lay_out(scenes_[f]);
    for (uint32_t f = 0; f < frames_.size(); ++f) whole().boxes[f] = frame_box(f);
    whole().picture = lay_out(whole());
    whole().origin = {page_margin, page_margin};
    for (uint32_t f = 0; f < frames_.size(); ++f) {
      const Point corner = whole().corner(f);
      scenes_[f].origin = {corner.x + frame_margin, corner.y + title_height + frame_margin};
    }
    return page();
  }

 private:
  Scene& whole() { return scenes_.back(); }
  static LayerPicture lay_out(const Scene& scene) { return graph::lay_out(scene.boxes, scene.arrows); }
  bool is_empty(uint32_t frame) const { return scenes_[frame].boxes.empty(); }

  LayerBox frame_box(uint32_t f) const {
    if (is_empty(f)) return {};
    const LayerPicture& inside = scenes_[f].picture;
    const double title = letter * static_cast<double>(frames_[f].title.size());
    return {.width = std::max(inside.width, title) + 2 * frame_margin,
            .height = inside.height + title_height + 2 * frame_margin};
  }

  void add(Item item) {
    double width = 0;
    for (const std::string& line : item.lines)
      width = std::max(width, letter * static_cast<double>(line.size()));
    item.box =
        scenes_[item.place].add({.width = width + 2 * margin,
                                 .height = line_height * static_cast<double>(item.lines.size()) + margin});
    items_.push_back(std::move(item));
  }

  std::string words(uint32_t value) const {
    return state_.values[value].name + ": " + graph::words(state_.values[value].spec);
  }

  // Nodes first, so that a node's item has its index.
  void find_items() {
    const auto outside = static_cast<uint32_t>(frames_.size());
    std::vector<uint32_t> place(state_.nodes.size(), outside);
    for (uint32_t f = 0; f < outside; ++f) {
      whole().add({});
      for (const uint32_t node : frames_[f].nodes) {
        if (node < place.size() && place[node] == outside) place[node] = f;
      }
    }
    for (uint32_t i = 0; i < state_.nodes.size(); ++i) {
      const Graph::Node& node = state_.nodes[i];
      Item item{.kind = "node", .lines = {std::string(name(node.op))}, .place = place[i]};
      for (const uint32_t value : node.outputs) {
        if (value != TN_ABSENT) item.lines.push_back(words(value));
      }
      for (const Attribute& attribute : node.attributes)
        item.hint += attribute.name + "=" + graph::words(attribute.value) + " ";
      add(std::move(item));
    }
    made_by_.assign(state_.values.size(), TN_ABSENT);
    for (uint32_t i = 0; i < state_.values.size(); ++i) {
      const Graph::ValueInfo& info = state_.values[i];
      made_by_[i] = info.producer;
      if (info.role == Graph::Role::computed) continue;
      made_by_[i] = static_cast<uint32_t>(items_.size());
      const char* kind = info.role == Graph::Role::input   ? "input"
                         : info.role == Graph::Role::param ? "param"
                                                           : "constant";
      add({.kind = kind, .lines = {words(i)}, .place = outside});
    }
  }

  void find_lines() {
    for (uint32_t i = 0; i < state_.nodes.size(); ++i) {
      const std::vector<uint32_t>& inputs = state_.nodes[i].inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        const double port = static_cast<double>(k + 1) / static_cast<double>(inputs.size() + 1);
        if (inputs[k] != TN_ABSENT) draw_line(inputs[k], i, port);
      }
    }
    for (const Graph::Output& output : state_.outputs) {
      add({.kind = "output", .lines = {output.name}, .place = static_cast<uint32_t>(frames_.size())});
      draw_line(output.value, static_cast<uint32_t>(items_.size() - 1), 0.5);
    }
  }

  void draw_line(uint32_t value, uint32_t to_item, double port) {
    Line line{.from = made_by_[value], .to = to_item, .value = value, .port = port};
    const Item &from = items_[line.from], &to = items_[to_item];
    const auto outside = static_cast<uint32_t>(frames_.size());
    if (from.place == to.place) {
      line.passes = scenes_[from.place].lead(from.box, to.box, value);
    } else {
      Scene &source = scenes_[from.place], &target = scenes_[to.place];
      if (from.place != outside) line.leaves = source.lead(from.box, source.gate(true, value), value);
      if (to.place != outside) line.enters = target.lead(target.gate(false, value), to.box, value);
      line.passes = whole().lead(from.place != outside ? from.place : from.box,
                                 to.place != outside ? to.place : to.box, value);
    }
    lines_.push_back(line);
  }

  // ---- drawing ----

  static void follow(std::vector<Point>& way, const Scene& scene, uint32_t arrow) {
    for (const Point& point : scene.picture.ways[arrow])
      way.push_back({scene.origin.x + point.x, scene.origin.y + point.y});
  }

  // Down to where the layer of a box ends.
  static void leave_layer(std::vector<Point>& way, const Scene& scene, uint32_t box) {
    way.push_back({way.back().x, scene.origin.y + scene.picture.floors[box]});
  }

  std::vector<Point> way_of(const Line& line) {
    const Item &from = items_[line.from], &to = items_[line.to];
    const Scene &source = scenes_[from.place], &target = scenes_[to.place];
    const Point start = source.corner(from.box), end = target.corner(to.box);
    const LayerBox &first = source.boxes[from.box], &last = target.boxes[to.box];
    std::vector<Point> way{{start.x + first.width / 2, start.y + first.height}};
    leave_layer(way, source, from.box);
    if (line.leaves != TN_ABSENT) {
      follow(way, source, line.leaves);
      way.push_back(source.corner(source.gates.at({true, line.value})));
      leave_layer(way, whole(), from.place);
    }
    follow(way, from.place == to.place ? source : whole(), line.passes);
    if (line.enters != TN_ABSENT) {
      const Point gate = target.corner(target.gates.at({false, line.value}));
      way.push_back({gate.x, whole().corner(to.place).y});
      way.push_back(gate);
      follow(way, target, line.enters);
    }
    way.push_back({end.x + line.port * last.width, end.y});
    return way;
  }

  // Upright where nothing turns, and turning between layers.
  void path(const std::vector<Point>& way) {
    out_ += "<path class=\"line\" marker-end=\"url(#tip)\" d=\"M" + svg::figure(way[0].x) + " " +
            svg::figure(way[0].y);
    for (size_t i = 1; i < way.size(); ++i) {
      const Point &a = way[i - 1], &b = way[i];
      const std::string middle = svg::figure((a.y + b.y) / 2);
      if (a.x == b.x)
        out_ += "V" + svg::figure(b.y);
      else
        out_ += "C" + svg::figure(a.x) + " " + middle + " " + svg::figure(b.x) + " " + middle + " " +
                svg::figure(b.x) + " " + svg::figure(b.y);
    }
    out_ += "\"/>\n";
  }

  void rectangle(const std::string& kind, Point at, const LayerBox& box, const std::string& end) {
    out_ += svg::rectangle(kind, {at.x, at.y, box.width, box.height}, 4, end);
  }

  void write(const std::string& kind, Point at, const std::string& line) {
    out_ += svg::text(kind, at.x, at.y, svg::escaped(line));
  }

  void draw(const Item& item) {
    const Scene& scene = scenes_[item.place];
    const Point at = scene.corner(item.box);
    const std::string title = item.hint.empty() ? "" : "<title>" + svg::escaped(item.hint) + "</title>";
    rectangle(item.kind, at, scene.boxes[item.box], ">" + title + "</rect>\n");
    const char* kind = item.kind == "node" ? "op" : "value";
    Point foot{at.x + margin, at.y};
    for (const std::string& line : item.lines) {
      foot.y += line_height;
      write(kind, foot, line);
      kind = "value";
    }
  }

  std::string page() {
    const double width = whole().picture.width + 2 * page_margin,
                 height = whole().picture.height + 2 * page_margin;
    const std::string size = svg::figure(width) + " " + svg::figure(height);
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
           svg::figure(width) + "\" height=\"" + svg::figure(height) + "\">\n<title>" +
           svg::escaped(state_.name.empty() ? "graph" : state_.name) + "</title>\n" + head;
    out_ += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    for (uint32_t f = 0; f < frames_.size(); ++f) {
      if (!is_empty(f)) rectangle("frame", whole().corner(f), whole().boxes[f], "/>\n");
    }
    for (const Line& line : lines_) path(way_of(line));
    for (const Item& item : items_) draw(item);
    for (uint32_t f = 0; f < frames_.size(); ++f) {
      const Point at = whole().corner(f);
      if (!is_empty(f)) write("title", {at.x + frame_margin, at.y + title_height}, frames_[f].title);
    }
    return std::move(out_) + "</svg>\n";
  }

  const Graph::State& state_;
  const std::span<const Graph::Frame> frames_;
  std::vector<Scene> scenes_;  // of the frames, and the whole
  std::vector<Item> items_{};
  std::vector<Line> lines_{};
  std::vector<uint32_t> made_by_{};  // of a value, the item
  std::string out_{};
};

}  // namespace

std::string Graph::svg(std::span<const Frame> frames) const { return Drawing(*state_, frames).run(); }

}  // namespace tenon
