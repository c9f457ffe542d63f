// SPDX-License-Identifier: Apache-2.0
// panel.cpp: a crew that is measured on its devices' clocks, and its trace as one line of JSON.
#include "panel.hpp"

#include "../../support/temp_folder.hpp"
#include "../row.hpp"

#include <tenon/trace.hpp>

#include <algorithm>
#include <cstdio>

namespace bench {
namespace {

using tenon::Trace;
using tenon::TraceEvent;
using tenon::TraceKind;

constexpr int steps = 3;

// What is drawn of a lane: work in the order of its begin. Waits and the host's thread leave it empty.
std::vector<TraceEvent> work_of(const Trace& trace, uint32_t lane) {
  std::vector<TraceEvent> out;
  for (const TraceEvent& event : trace.events)
    if (event.lane == lane && event.kind != TraceKind::wait && event.kind != TraceKind::host)
      out.push_back(event);
  std::sort(out.begin(), out.end(),
            [](const TraceEvent& a, const TraceEvent& b) { return a.begin_ns < b.begin_ns; });
  return out;
}

void print(const std::string& picture, const std::string& title, const Trace& trace) {
  int64_t first = INT64_MAX;
  for (const TraceEvent& event : trace.events) first = std::min(first, event.begin_ns);
  const auto ms = [&](int64_t ns) { return static_cast<double>(ns - first) / 1e6; };
  std::printf("{\"picture\": \"%s\", \"title\": \"%s\", \"lanes\": [", picture.c_str(), title.c_str());
  const char* between = "";
  for (uint32_t lane = 0; lane < trace.lanes.size(); ++lane) {
    const auto events = work_of(trace, lane);
    if (events.empty()) continue;
    std::printf("%s{\"name\": \"%s\", \"events\": [", between, trace.lanes[lane].stream.c_str());
    for (size_t i = 0; i < events.size(); ++i)
      std::printf("%s[\"%s\", %.3f, %.3f]", i == 0 ? "" : ", ", std::string(name(events[i].kind)).c_str(),
                  ms(events[i].begin_ns), ms(events[i].end_ns));
    std::printf("]}");
    between = ", ";
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

// What rank 0 wrote about the last step.
tenon::Result<Trace> traced(const Course& course, const tenon::test::Networks* networks,
                            std::vector<std::string> options) {
  const tenon::test::TempFolder folder;
  options.push_back("timeline=" + folder / "step");
  Crew crew = Crew::ours("traced", course, networks, options);
  crew.prepare();
  for (int i = 0; i < steps; ++i) crew.step();
  if (!crew.why().empty()) return tenon::Status(TN_INTERNAL, crew.why());
  return Trace::read({folder / "step.rank0.json"});
}

}  // namespace

void panel(const std::string& picture, const std::string& title, const Course& course,
           const tenon::test::Networks* networks, std::vector<std::string> options) {
  const auto trace = traced(course, networks, std::move(options));
  if (!trace.ok()) return note(picture + ", " + title + ": " + trace.error().message);
  print(picture, title, *trace);
}

}  // namespace bench
