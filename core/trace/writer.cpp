// SPDX-License-Identifier: Apache-2.0
// writer.cpp: a trace as Chrome's trace-event JSON.
//
// Invariant: an event is one line, in the order of the trace, and times are whole nanoseconds.
#include <tenon/trace.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "trace/format.hpp"

#include <tenon/version.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

namespace tenon {
namespace {

using base::json_quoted;

// Microseconds with three digits behind the point.
std::string micros(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string meta(const char* what, uint32_t rank, size_t thread, const std::string& arguments) {
  return std::string("{\"name\":\"") + what + "\",\"ph\":\"M\",\"pid\":" + std::to_string(rank) +
         ",\"tid\":" + std::to_string(thread) + ",\"args\":{" + arguments + "}}";
}

std::string line_of(const TraceEvent& event, const TraceLane& lane, int64_t origin_ns) {
  std::string out =
      "{\"name\":" + json_quoted(event.name) + ",\"cat\":\"" + std::string(name(event.kind)) +
      "\",\"ph\":\"X\",\"pid\":" + std::to_string(lane.rank) + ",\"tid\":" + std::to_string(event.lane + 1) +
      ",\"ts\":" + micros(event.begin_ns - origin_ns) + ",\"dur\":" + micros(event.end_ns - event.begin_ns) +
      ",\"args\":{\"bytes\":" + std::to_string(event.bytes);
  if (event.bucket) out += ",\"bucket\":" + std::to_string(*event.bucket);
  if (event.predicted_ns > 0) out += ",\"predicted_ns\":" + number(event.predicted_ns);
  return out + "}}";
}

std::string head_of(const Trace& trace, int64_t origin_ns) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"format\":" + json_quoted(trace::format) +
                    ",\"generator\":\"libtenon " TENON_VERSION "\",\"clock\":" + json_quoted(trace.clock) +
                    ",\"origin_ns\":" + std::to_string(origin_ns) +
                    ",\"utc_ns\":" + std::to_string(trace.utc_ns) +
                    ",\"dropped\":" + std::to_string(trace.dropped);
  for (size_t i = 0; i < trace.notes.size(); ++i)
    out += (i == 0 ? ",\"notes\":[" : ",") + json_quoted(trace.notes[i]);
  return out + (trace.notes.empty() ? "" : "]") + "},\n\"traceEvents\":[";
}

}  // namespace

std::string Trace::json() const {
  int64_t origin_ns = events.empty() ? 0 : events.front().begin_ns;
  for (const TraceEvent& event : events) origin_ns = std::min(origin_ns, event.begin_ns);
  std::string out = head_of(*this, origin_ns);
  const char* between = "\n";
  const auto add = [&](const std::string& line) {
    out += between + line;
    between = ",\n";
  };
  std::map<uint32_t, bool> named;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const TraceLane& lane = lanes[i];
    if (named.emplace(lane.rank, true).second)
      add(meta("process_name", lane.rank, 0, "\"name\":\"rank " + std::to_string(lane.rank) + "\""));
    add(meta("thread_name", lane.rank, i + 1,
             "\"name\":" + json_quoted(lane.stream) + ",\"device\":" + json_quoted(lane.device)));
  }
  for (const TraceEvent& event : events) add(line_of(event, lanes[event.lane], origin_ns));
  return out + "\n]}\n";
}

Status Trace::write(const std::string& file) const { return base::write_file(file, json()); }

}  // namespace tenon
