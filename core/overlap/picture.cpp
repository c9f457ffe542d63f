// SPDX-License-Identifier: Apache-2.0
// picture.cpp: the predicted step as lanes: computing above, one lane for each communication stream below.
#include "base/svg.hpp"
#include "base/text.hpp"
#include "overlap/state.hpp"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

namespace svg = base::svg;

// One thing that a lane does.
struct Bar {
  double start = 0, end = 0;
  std::string text{};
  const char* kind = "send";  // the class it is drawn in
};

struct Band {
  std::string name{};
  std::vector<Bar> bars{};
};

struct Picture {
  std::vector<Band> lanes{};
  double end = 0;
  double exposed_from = 0, exposed_to = 0;
};

Picture picture_of(const CommPlan& plan) {
  const StepProfile& step = plan.step();
  const CommPrediction& time = plan.predicted();
  const double backward = time.backward_ns;
  // The update is drawn where it ends; in between communication is exposed.
  const double forward = time.step_ns - step.forward_ns, update = forward - step.update_ns;
  Picture out{
      .end = std::max(time.step_ns, 1.0), .exposed_from = backward, .exposed_to = std::max(update, backward)};
  Band computing{.name = "compute"};
  computing.bars.push_back({.end = backward, .text = "backward", .kind = "compute"});
  if (step.update_ns > 0) computing.bars.push_back({update, forward, "update", "update"});
  if (step.forward_ns > 0) computing.bars.push_back({forward, time.step_ns, "next forward", "compute"});
  out.lanes.push_back(std::move(computing));
  for (uint32_t stream = 0; stream < plan.streams(); ++stream) {
    Band lane{.name = "stream " + std::to_string(stream)};
    for (size_t i = 0; i < plan.buckets().size(); ++i) {
      const Bucket& bucket = plan.buckets()[i];
      if (bucket.stream != stream) continue;
      lane.bars.push_back({bucket.start_ns, bucket.end_ns, std::to_string(i), "send"});
      if (plan.options().sharded)
        lane.bars.push_back({bucket.gather_start_ns, bucket.gather_end_ns, std::to_string(i), "gather"});
      out.end = std::max({out.end, bucket.end_ns, bucket.gather_end_ns});
    }
    out.lanes.push_back(std::move(lane));
  }
  return out;
}

constexpr const char* style = R"(<style>
  .panel { fill: #ffffff; stroke: #d0d7de } .lane { fill: #f3f5f8 }
  .compute { fill: #cfe0f5; stroke: #4a7ab5 } .update { fill: #dcd3ee; stroke: #7a5fae }
  .send { fill: #fbe3b6; stroke: #b9812a } .gather { fill: #cdebd6; stroke: #3d8b57 }
  .exposed { fill: #c2413b; opacity: 0.16 }
  text { fill: #1f2328; font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
  .mid { text-anchor: middle } .end { text-anchor: end } .dim { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .panel { fill: #12171e; stroke: #343b44 } .lane { fill: #1b222b }
    .compute { fill: #1f3a5a; stroke: #5d93d1 } .update { fill: #352a4d; stroke: #a58bd6 }
    .send { fill: #4a3812; stroke: #d2a04a } .gather { fill: #1a4029; stroke: #57b079 }
    text { fill: #e6edf3 } .dim { fill: #9aa4af }
  }
</style>
)";

constexpr double width = 980, left = 84, top = 34, lane_height = 34, bar_height = 24;

std::string drawn(const Bar& bar, double y, double scale) {
  const double x = left + bar.start * scale, w = std::max((bar.end - bar.start) * scale, 0.6);
  std::string out = svg::rectangle(bar.kind, {x, y, w, bar_height}, 2);
  if (w > 7.0 * static_cast<double>(bar.text.size()) + 4)
    out += svg::text("mid", x + w / 2, y + 16, bar.text);
  return out;
}

// As characters: a bar is its first letters, then its sign.
std::string line_of(const Band& lane, double end, size_t columns) {
  std::string line(columns, ' ');
  bool odd = false;
  for (const Bar& bar : lane.bars) {
    if (bar.end <= bar.start) continue;
    const double scale = static_cast<double>(columns) / end;
    const size_t from = std::min(static_cast<size_t>(bar.start * scale), columns - 1);
    const size_t to = std::clamp(static_cast<size_t>(std::lround(bar.end * scale)), from + 1, columns);
    odd = !odd;
    std::string body(to - from, odd ? '=' : '-');
    if (bar.text.size() + 1 < body.size()) body.replace(1, bar.text.size(), bar.text);
    line.replace(from, body.size(), body);
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::string CommPlan::timeline(uint32_t columns) const {
  const Picture picture = picture_of(*this);
  constexpr size_t names = 10;
  const size_t room = std::max<size_t>(columns, 40) - names;
  std::string out;
  for (const Band& lane : picture.lanes) {
    std::string line = lane.name;
    line.resize(names, ' ');
    out += line + line_of(lane, picture.end, room) + "\n";
  }
  out += "          0 … " + base::time_in_words(picture.end) + "; " +
         base::time_in_words(predicted().exposed_ns) + " exposed\n";
  return out;
}

std::string CommPlan::svg() const {
  const Picture picture = picture_of(*this);
  const double scale = (width - left - 16) / picture.end;
  const double bottom = top + lane_height * static_cast<double>(picture.lanes.size()), height = bottom + 28;
  const std::string title = summary() + "; " + base::time_in_words(predicted().exposed_ns) + " exposed";
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + svg::figure(width) + " " +
                    svg::figure(height) + "\" width=\"" + svg::figure(width) + "\" height=\"" +
                    svg::figure(height) + "\" role=\"img\">\n<title>" + title + "</title>\n" + style +
                    svg::rectangle("panel", {0.5, 0.5, width - 1, height - 1}, 8) +
                    svg::text("head", 14, 21, title);
  for (size_t i = 0; i < picture.lanes.size(); ++i) {
    const double y = top + lane_height * static_cast<double>(i);
    out += svg::rectangle("lane", {left, y, width - left - 16, bar_height}, 2) +
           svg::text("dim", 14, y + 16, picture.lanes[i].name);
    for (const Bar& bar : picture.lanes[i].bars) out += drawn(bar, y, scale);
  }
  if (picture.exposed_to > picture.exposed_from)
    out += svg::rectangle("exposed",
                          {left + picture.exposed_from * scale, top - 4,
                           (picture.exposed_to - picture.exposed_from) * scale, bottom - top},
                          2);
  return out + svg::text("dim", left, bottom + 12, "0") +
         svg::text("dim end", width - 16, bottom + 12, base::time_in_words(picture.end)) + "</svg>\n";
}

}  // namespace tenon
