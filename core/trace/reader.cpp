// SPDX-License-Identifier: Apache-2.0
// reader.cpp: a trace from its file.
//
// Invariant: a file is data, never trusted: what is not exactly what the writer writes is refused, with its line.
#include <tenon/trace.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "trace/format.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <map>

namespace tenon {
namespace {

using base::JsonReader, base::Keys;
using Names = std::span<const std::string_view>;

constexpr std::string_view foreign_lacks = "tenon.trace";
constexpr double most_us = 9e12;                          // beyond it a double has no whole nanoseconds
constexpr int64_t latest_ns = 4'000'000'000'000'000'000;  // the sum of two does not overflow

// A row of traceEvents, with all keys that one may have.
struct Row {
  uint64_t line = 0;
  std::string name{}, category{}, phase{};
  int64_t process = 0, thread = 0;
  double start_us = -1, duration_us = -1;
  std::string label{}, device{};  // from here on: args
  int64_t bytes = 0, bucket = -1;
  double predicted_ns = 0;
};

// An event whose lane may be named further down.
struct Unplaced {
  uint64_t line = 0;
  int64_t process = 0, thread = 0;
};

class Reading {
 public:
  explicit Reading(std::string_view text) : reader_(text) {}
  Result<Trace> run();

 private:
  Status top(size_t place);
  Status other(size_t place);
  Status event();
  Status value(size_t place, Row& row);
  Status argument(size_t place, Row& row);
  Status add(Row&& row);
  Status add_lane(Row&& row);
  Status add_event(Row&& row);
  Status place_events();
  static Status wrong(uint64_t line, const std::string& why) {
    return {TN_INVALID, "line " + std::to_string(line) + ": " + why};
  }

  JsonReader reader_;
  Trace out_{};
  std::string format_{};
  int64_t origin_ns_ = 0;
  std::vector<Unplaced> unplaced_{};  // one for each event
  std::map<std::pair<int64_t, int64_t>, uint32_t> lanes_{};
};

constexpr std::array<std::string_view, 3> top_keys{"displayTimeUnit", "otherData", "traceEvents"};
constexpr std::array<std::string_view, 7> other_keys{"format", "generator", "clock", "origin_ns",
                                                     "utc_ns", "dropped",   "notes"};
constexpr std::array<std::string_view, 8> event_keys{"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"};
constexpr std::array<std::string_view, 5> argument_keys{"name", "device", "bytes", "bucket", "predicted_ns"};

Result<Trace> Reading::run() {
  Keys keys("the file", top_keys);
  TN_TRY(reader_.object(
      [&](const std::string& key) -> Status { return top(TN_TRY(keys.place(reader_, key))); }));
  TN_TRY(reader_.end());
  if (format_.empty()) return Status(TN_INVALID, "otherData has no format: write the file again");
  if (!keys.has(2)) return Status(TN_INVALID, "there is no traceEvents: write the file again");
  TN_TRY(place_events());
  return std::move(out_);
}

Status Reading::top(size_t place) {
  if (place == 0) return reader_.string().ok() ? Status() : reader_.wrong("displayTimeUnit is a string");
  if (place == 2) return reader_.array([&] { return event(); });
  Keys keys("otherData", other_keys);
  return reader_.object(
      [&](const std::string& key) -> Status { return other(TN_TRY(keys.place(reader_, key))); });
}

Status Reading::other(size_t place) {
  switch (place) {
    case 0:
      format_ = TN_TRY(reader_.string());
      return format_ == trace::format
                 ? Status()
                 : reader_.wrong("format " + base::quoted(format_) + " is not '" +
                                 std::string(trace::format) + "': use the tenon that wrote it");
    case 1:
      TN_TRY(reader_.string());
      return {};
    case 2:
      out_.clock = TN_TRY(reader_.string());
      return {};
    case 3:
      origin_ns_ = TN_TRY(reader_.integer());
      return {};
    case 4:
      out_.utc_ns = TN_TRY(reader_.integer());
      return {};
    case 5: {
      const int64_t dropped = TN_TRY(reader_.integer());
      if (dropped < 0) return reader_.wrong("dropped is a count, not " + std::to_string(dropped));
      out_.dropped = static_cast<uint64_t>(dropped);
      return {};
    }
    default:
      return reader_.array([&]() -> Status {
        out_.notes.push_back(TN_TRY(reader_.string()));
        return {};
      });
  }
}

Status Reading::event() {
  Row row{.line = reader_.line()};
  Keys keys("an event", event_keys);
  TN_TRY(reader_.object(
      [&](const std::string& key) -> Status { return value(TN_TRY(keys.place(reader_, key)), row); }));
  for (const size_t needed : {0u, 2u, 3u, 4u, 7u})
    if (!keys.has(needed)) return wrong(row.line, "the event lacks " + base::quoted(event_keys[needed]));
  if (row.phase == "X")
    for (const size_t needed : {1u, 5u, 6u})
      if (!keys.has(needed)) return wrong(row.line, "the event lacks " + base::quoted(event_keys[needed]));
  return add(std::move(row));
}

Status Reading::value(size_t place, Row& row) {
  switch (place) {
    case 0:
      row.name = TN_TRY(reader_.string());
      return {};
    case 1:
      row.category = TN_TRY(reader_.string());
      return {};
    case 2:
      row.phase = TN_TRY(reader_.string());
      return {};
    case 3:
      row.process = TN_TRY(reader_.integer());
      return {};
    case 4:
      row.thread = TN_TRY(reader_.integer());
      return {};
    case 5:
      row.start_us = TN_TRY(reader_.number());
      return {};
    case 6:
      row.duration_us = TN_TRY(reader_.number());
      return {};
    default:
      break;
  }
  Keys keys("args", argument_keys);
  return reader_.object(
      [&](const std::string& key) -> Status { return argument(TN_TRY(keys.place(reader_, key)), row); });
}

Status Reading::argument(size_t place, Row& row) {
  switch (place) {
    case 0:
      row.label = TN_TRY(reader_.string());
      return {};
    case 1:
      row.device = TN_TRY(reader_.string());
      return {};
    case 2:
      row.bytes = TN_TRY(reader_.integer());
      return row.bytes >= 0 ? Status() : reader_.wrong("bytes is " + std::to_string(row.bytes) + ", below 0");
    case 3:
      row.bucket = TN_TRY(reader_.integer());
      return row.bucket >= 0 && row.bucket < UINT32_MAX
                 ? Status()
                 : reader_.wrong("bucket is " + std::to_string(row.bucket) + ", not a number from 0 to 2^32");
    default:
      row.predicted_ns = TN_TRY(reader_.number());
      return row.predicted_ns >= 0 ? Status() : reader_.wrong("predicted_ns is below 0");
  }
}

Status Reading::add(Row&& row) {
  if (row.process < 0 || row.process > UINT32_MAX)
    return wrong(row.line, "pid is the rank, from 0 to 2^32, not " + std::to_string(row.process));
  if (row.phase == "X") return add_event(std::move(row));
  if (row.phase != "M")
    return wrong(row.line, "ph is " + base::quoted(row.phase) + ": only 'X' and 'M' are read");
  if (row.name == "thread_name") return add_lane(std::move(row));
  return row.name == "process_name" ? Status()
                                    : wrong(row.line, "metadata " + base::quoted(row.name) +
                                                          ": only process_name and thread_name are read");
}

Status Reading::add_lane(Row&& row) {
  const auto number = static_cast<uint32_t>(out_.lanes.size());
  if (!lanes_.emplace(std::pair(row.process, row.thread), number).second)
    return wrong(row.line, "pid " + std::to_string(row.process) + " has tid " + std::to_string(row.thread) +
                               " twice: give each lane its own");
  out_.lanes.push_back({.rank = static_cast<uint32_t>(row.process),
                        .device = std::move(row.device),
                        .stream = std::move(row.label)});
  return {};
}

Status Reading::add_event(Row&& row) {
  constexpr std::array kinds{TraceKind::kernel, TraceKind::copy, TraceKind::collective, TraceKind::wait,
                             TraceKind::host};
  std::array<std::string_view, kinds.size()> names{};
  size_t kind = kinds.size();
  for (size_t i = 0; i < kinds.size(); ++i)
    if ((names[i] = name(kinds[i])) == row.category) kind = i;
  if (kind == kinds.size()) {
    const std::vector<std::string> known(names.begin(), names.end());
    return wrong(row.line, "cat " + base::quoted(row.category) + base::did_you_mean(row.category, names) +
                               " is none of " + base::join(known, ", "));
  }
  if (!(row.start_us >= 0 && row.start_us <= most_us && row.duration_us >= 0 && row.duration_us <= most_us))
    return wrong(row.line, "ts and dur are microseconds from 0 to 9e12");
  const int64_t begin_ns = std::llround(row.start_us * 1000);
  unplaced_.push_back({row.line, row.process, row.thread});
  out_.events.push_back({.kind = kinds[kind],
                         .name = std::move(row.name),
                         .begin_ns = begin_ns,
                         .end_ns = begin_ns + std::llround(row.duration_us * 1000),
                         .bytes = static_cast<uint64_t>(row.bytes),
                         .bucket = {},
                         .predicted_ns = row.predicted_ns});
  if (row.bucket >= 0) out_.events.back().bucket = static_cast<uint32_t>(row.bucket);
  return {};
}

Status Reading::place_events() {
  for (const int64_t time : {origin_ns_, out_.utc_ns})
    if (time > latest_ns || time < -latest_ns)
      return {TN_INVALID, "origin_ns or utc_ns is " + std::to_string(time) +
                              ", which no clock tells: write the file again"};
  for (size_t i = 0; i < unplaced_.size(); ++i) {
    const Unplaced& at = unplaced_[i];
    const auto found = lanes_.find({at.process, at.thread});
    if (found == lanes_.end())
      return wrong(at.line, "no thread_name tells of pid " + std::to_string(at.process) + ", tid " +
                                std::to_string(at.thread) + ": add one");
    out_.events[i].lane = found->second;
    out_.events[i].begin_ns += origin_ns_;
    out_.events[i].end_ns += origin_ns_;
  }
  return {};
}

}  // namespace

Result<Trace> Trace::parse(std::string_view text, std::string_view file) {
  if (text.find(foreign_lacks) == std::string_view::npos)
    return Status(TN_INVALID,
                  std::string(file) +
                      " is no trace that Timeline::write or `tenon trace` wrote: open it at ui.perfetto.dev");
  auto read = Reading(text).run();
  if (read.ok()) return read;
  return Status(read.code(), std::string(file) + ": " + std::string(read.message()));
}

}  // namespace tenon
