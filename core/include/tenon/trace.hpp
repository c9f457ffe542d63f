// SPDX-License-Identifier: Apache-2.0
// trace.hpp: what ran when on the devices of a run, as data: written, read back, put together from several ranks, added up.
//
//   auto run = TN_TRY(tenon::Trace::read({"rank0.json", "rank1.json"}));
//   std::fputs(tenon::summarize(run).text().c_str(), stdout);    // exposed communication, overlap, buckets
//
// `Timeline` measures one. The file is Chrome's trace-event JSON, which ui.perfetto.dev opens; `tenon trace` makes a page of it.
// Invariant: begin ≤ end, every lane that an event names exists, and reading what was written gives the same data.
#pragma once

#include <tenon/export.hpp>
#include <tenon/result.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

enum class TraceKind : uint8_t {
  kernel,
  copy,        // fills, too
  collective,  // a group of collectives is one
  wait,        // for another stream
  host         // on the host's thread
};
// "kernel". [any-thread; does not block; cannot fail]
TN_API std::string_view name(TraceKind kind) noexcept;

// Where events stand: one stream of one rank.
struct TraceLane {
  uint32_t rank = 0;
  std::string device{};  // "cpu:0"; empty for the host
  std::string stream{};
  friend bool operator==(const TraceLane&, const TraceLane&) = default;
};

struct TraceEvent {
  uint32_t lane = 0;
  TraceKind kind = TraceKind::kernel;
  std::string name{};
  int64_t begin_ns = 0, end_ns = 0;  // of the trace's clock
  uint64_t bytes = 0;
  std::optional<uint32_t> bucket{};  // of a plan of communication
  double predicted_ns = 0;           // how long it was to take; 0: nobody said
  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

struct TN_API Trace {
  std::vector<TraceLane> lanes{};
  std::vector<TraceEvent> events{};
  std::string clock{};               // whose monotonic clock its times are of; "utc": the time of day
  int64_t utc_ns = 0;                // what makes a time of that clock one of the day
  uint64_t dropped = 0;              // events that were not kept
  std::vector<std::string> notes{};  // how it was put together, where that matters

  // Chrome's trace-event JSON, an event a line: ranks are processes, lanes are threads.
  // [any-thread; does not block; cannot fail]
  std::string json() const;
  // What `json` gives. TN_INVALID with line, key and remedy for anything else; `file` is named in it.
  // [any-thread; does not block; may fail]
  static Result<Trace> parse(std::string_view text, std::string_view file = "trace");
  // Replaces the file. [any-thread; may block; may fail]
  Status write(const std::string& file) const;
  // All `files` as one, on one clock: that of their host, or the time of day where there are several hosts, which a note
  // tells. TN_NOT_FOUND; TN_INVALID as `parse`, and when two files have the same rank. [any-thread; may block; may fail]
  static Result<Trace> read(std::span<const std::string> files);
  static Result<Trace> read(std::initializer_list<std::string> files) {
    return read(std::span(files.begin(), files.size()));
  }
};

// Times of one rank, or the sums of all. Each is how long at least one such event was on its way.
struct TraceTotals {
  uint32_t rank = 0;
  double wall_ns = 0;     // from the first event of a device to the end of the last
  double compute_ns = 0;  // kernels
  double copy_ns = 0;
  double communication_ns = 0;  // collectives
  double exposed_ns = 0;        // communication while no kernel of this rank ran
  double wait_ns = 0;
  double busy_ns = 0;  // kernels, copies or collectives

  // Of the communication, how much kernels cover; 1 where there is none. [any-thread; does not block; cannot fail]
  double overlap() const noexcept { return communication_ns > 0 ? 1 - exposed_ns / communication_ns : 1; }
  double busy() const noexcept { return wall_ns > 0 ? busy_ns / wall_ns : 0; }
};

// What the collectives of one bucket and one name took, over all steps and ranks: in sharded mode a bucket is summed and gathered.
struct TraceBucket {
  uint32_t bucket = 0;
  std::string name{};
  uint64_t bytes = 0;
  uint32_t count = 0;
  double predicted_ns = 0;  // median of those that have one; 0: none has
  double least_ns = 0, median_ns = 0, most_ns = 0;
};

struct TN_API TraceSummary {
  std::vector<TraceTotals> ranks{};    // by rank
  TraceTotals all{};                   // sums
  std::vector<TraceBucket> buckets{};  // by number, then by name
  std::vector<std::string> notes{};    // the trace's, and of what was dropped
  // Two tables and the notes. [any-thread; does not block; cannot fail]
  std::string text() const;
};
// Adds `trace` up; events of the host count in nothing. [any-thread; does not block; cannot fail]
TN_API TraceSummary summarize(const Trace& trace);

// A piece of time.
struct TraceInterval {
  int64_t begin_ns = 0, end_ns = 0;
  friend bool operator==(const TraceInterval&, const TraceInterval&) = default;
};
// When communication of `rank` was exposed, in order, apart from each other. [any-thread; does not block; cannot fail]
TN_API std::vector<TraceInterval> exposed_communication(const Trace& trace, uint32_t rank);

}  // namespace tenon
