// SPDX-License-Identifier: Apache-2.0
// summary.cpp: what a trace adds up to, and that in words.
#include "base/text.hpp"
#include "trace/intervals.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <span>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

using trace::length_ns, trace::united, trace::without;
using Pieces = std::vector<TraceInterval>;

constexpr size_t kinds = 5;

// The events of one rank by kind.
struct OfRank {
  std::array<Pieces, kinds> by_kind{};
  const Pieces& of(TraceKind kind) const { return by_kind[static_cast<size_t>(kind)]; }
};

std::map<uint32_t, OfRank> by_rank(const Trace& trace) {
  std::map<uint32_t, OfRank> out;
  for (const TraceEvent& event : trace.events)
    out[trace.lanes[event.lane].rank].by_kind[static_cast<size_t>(event.kind)].push_back(
        {event.begin_ns, event.end_ns});
  for (auto& [rank, events] : out)
    for (Pieces& pieces : events.by_kind) pieces = united(std::move(pieces));
  return out;
}

Pieces together(const OfRank& events, std::initializer_list<TraceKind> wanted) {
  Pieces all;
  for (const TraceKind kind : wanted) all.insert(all.end(), events.of(kind).begin(), events.of(kind).end());
  return united(std::move(all));
}

Pieces exposed_of(const OfRank& events) {
  return without(events.of(TraceKind::collective), events.of(TraceKind::kernel));
}

TraceTotals totals_of(uint32_t rank, const OfRank& events) {
  const Pieces busy = together(events, {TraceKind::kernel, TraceKind::copy, TraceKind::collective});
  const Pieces all =
      together(events, {TraceKind::kernel, TraceKind::copy, TraceKind::collective, TraceKind::wait});
  return {.rank = rank,
          .wall_ns = all.empty() ? 0 : static_cast<double>(all.back().end_ns - all.front().begin_ns),
          .compute_ns = length_ns(events.of(TraceKind::kernel)),
          .copy_ns = length_ns(events.of(TraceKind::copy)),
          .communication_ns = length_ns(events.of(TraceKind::collective)),
          .exposed_ns = length_ns(exposed_of(events)),
          .wait_ns = length_ns(events.of(TraceKind::wait)),
          .busy_ns = length_ns(busy)};
}

void add(TraceTotals& sum, const TraceTotals& one) {
  sum.wall_ns += one.wall_ns;
  sum.compute_ns += one.compute_ns;
  sum.copy_ns += one.copy_ns;
  sum.communication_ns += one.communication_ns;
  sum.exposed_ns += one.exposed_ns;
  sum.wait_ns += one.wait_ns;
  sum.busy_ns += one.busy_ns;
}

// Of numbers that there are; of an even count the mean of the two in the middle.
double median(std::vector<double>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  const size_t half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
}

std::vector<TraceBucket> buckets_of(const Trace& trace) {
  struct Times {
    uint64_t bytes = 0;
    std::vector<double> actual{}, predicted{};
  };
  std::map<std::pair<uint32_t, std::string_view>, Times> found;
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceKind::collective || !event.bucket) continue;
    Times& times = found[{*event.bucket, event.name}];
    times.bytes = std::max(times.bytes, event.bytes);
    times.actual.push_back(static_cast<double>(event.end_ns - event.begin_ns));
    if (event.predicted_ns > 0) times.predicted.push_back(event.predicted_ns);
  }
  std::vector<TraceBucket> out;
  for (auto& [key, times] : found) {
    TraceBucket told{.bucket = key.first,
                     .name = std::string(key.second),
                     .bytes = times.bytes,
                     .count = static_cast<uint32_t>(times.actual.size()),
                     .median_ns = median(times.actual)};
    told.least_ns = times.actual.front();
    told.most_ns = times.actual.back();
    if (!times.predicted.empty()) told.predicted_ns = median(times.predicted);
    out.push_back(told);
  }
  return out;
}

// Right-aligned cells, and words behind them; "µ" takes two bytes and one column.
std::string row(std::initializer_list<std::string> cells, const std::string& words = "") {
  std::string out;
  for (const std::string& cell : cells) {
    const auto length = static_cast<size_t>(
        std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    const size_t width = out.empty() ? 6 : 14;
    if (!out.empty()) out += ' ';
    out += std::string(width - std::min(width, length), ' ') + cell;
  }
  return out + (words.empty() ? "" : "  ") + words + "\n";
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

std::string line_of(const std::string& who, const TraceTotals& t) {
  const auto time = base::time_in_words;
  return row({who, time(t.wall_ns), time(t.compute_ns), time(t.communication_ns), time(t.exposed_ns),
              t.communication_ns > 0 ? percent(t.overlap()) : "-", time(t.copy_ns), time(t.wait_ns),
              percent(t.busy())});
}

std::string line_of(const TraceBucket& b) {
  const auto time = base::time_in_words;
  return row(
      {std::to_string(b.bucket), base::bytes_in_words(b.bytes), std::to_string(b.count),
       b.predicted_ns > 0 ? time(b.predicted_ns) : "-", time(b.median_ns),
       b.predicted_ns > 0 ? percent(b.median_ns / b.predicted_ns) : "-", time(b.least_ns), time(b.most_ns)},
      base::printable(b.name, 40));
}

}  // namespace

TraceSummary summarize(const Trace& trace) {
  TraceSummary out;
  for (const auto& [rank, events] : by_rank(trace)) {
    out.ranks.push_back(totals_of(rank, events));
    add(out.all, out.ranks.back());
  }
  out.buckets = buckets_of(trace);
  out.notes = trace.notes;
  if (trace.dropped > 0)
    out.notes.push_back(base::counted(trace.dropped, "event") +
                        " dropped: keep more with TimelineOptions::events");
  return out;
}

std::string TraceSummary::text() const {
  std::string out =
      row({"rank", "wall", "compute", "communication", "exposed", "overlap", "copies", "waits", "busy"});
  for (const TraceTotals& totals : ranks) out += line_of(std::to_string(totals.rank), totals);
  if (ranks.size() > 1) out += line_of("all", all);
  if (!buckets.empty()) {
    out += "\n" + row({"bucket", "bytes", "times", "predicted", "median", "of predicted", "least", "most"},
                      "collective");
    for (const TraceBucket& bucket : buckets) out += line_of(bucket);
  }
  for (const std::string& note : notes) out += "\nnote: " + note;
  return notes.empty() ? out : out + "\n";
}

std::vector<TraceInterval> exposed_communication(const Trace& trace, uint32_t rank) {
  const auto ranks = by_rank(trace);
  const auto found = ranks.find(rank);
  return found == ranks.end() ? Pieces{} : exposed_of(found->second);
}

}  // namespace tenon
