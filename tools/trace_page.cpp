// SPDX-License-Identifier: Apache-2.0
// trace_page.cpp: the data of the page, and the page around it.
//
// Invariant: sums come from `summarize` alone; the page adds nothing up. Times are ns since the run's first event.
#include "trace_page.hpp"

#include "timeline/page.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

namespace tenon::tool {

namespace {

using Json = nlohmann::ordered_json;

// Each name once, by its number.
class Names {
 public:
  size_t number(const std::string& name) {
    const auto [at, fresh] = numbers_.emplace(name, numbers_.size());
    if (fresh) names_.push_back(name);
    return at->second;
  }
  const Json& all() const { return names_; }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  Json names_ = Json::array();
};

int64_t begin_of(const Trace& trace) {
  int64_t first = trace.events.empty() ? 0 : trace.events.front().begin_ns;
  for (const TraceEvent& event : trace.events) first = std::min(first, event.begin_ns);
  return first;
}

// The numbers of the events of each lane, by begin.
std::vector<std::vector<uint32_t>> events_by_lane(const Trace& trace) {
  std::vector<std::vector<uint32_t>> out(trace.lanes.size());
  for (uint32_t i = 0; i < trace.events.size(); ++i) out[trace.events[i].lane].push_back(i);
  for (auto& events : out)
    std::stable_sort(events.begin(), events.end(), [&](uint32_t a, uint32_t b) {
      return trace.events[a].begin_ns < trace.events[b].begin_ns;
    });
  return out;
}

Json lane_of(const Trace& trace, uint32_t number, const std::vector<uint32_t>& order, size_t run,
             int64_t begin, Names& names) {
  const TraceLane& lane = trace.lanes[number];
  Json events = Json::array();
  std::set<int> kinds;
  int64_t end = 0, longest = 0;
  for (const uint32_t i : order) {
    const TraceEvent& event = trace.events[i];
    const int64_t length = event.end_ns - event.begin_ns;
    const int kind = static_cast<int>(event.kind);
    const int64_t bucket = event.bucket ? static_cast<int64_t>(*event.bucket) : -1;
    for (const int64_t number_of : {event.begin_ns - begin, length}) events.push_back(number_of);
    events.push_back(kind);
    events.push_back(names.number(event.name));
    events.push_back(event.bytes);
    events.push_back(bucket);
    events.push_back(event.predicted_ns);
    kinds.insert(kind);
    end = std::max(end, event.end_ns - begin);
    longest = std::max(longest, length);
  }
  return {{"run", run},     {"rank", lane.rank}, {"device", lane.device}, {"stream", lane.stream},
          {"kinds", kinds}, {"end", end},        {"longest", longest},    {"events", std::move(events)}};
}

// By rank, then as they came.
void add_lanes(const Trace& trace, size_t run, int64_t begin, Names& names, Json& out) {
  const auto events = events_by_lane(trace);
  std::vector<uint32_t> order(trace.lanes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return trace.lanes[a].rank < trace.lanes[b].rank; });
  for (const uint32_t lane : order) out.push_back(lane_of(trace, lane, events[lane], run, begin, names));
}

Json totals_of(const TraceTotals& totals) {
  return {{"rank", totals.rank},          {"wall", totals.wall_ns},
          {"compute", totals.compute_ns}, {"communication", totals.communication_ns},
          {"exposed", totals.exposed_ns}, {"overlap", totals.overlap()},
          {"copy", totals.copy_ns},       {"wait", totals.wait_ns},
          {"busy", totals.busy()}};
}

Json bucket_of(const TraceBucket& bucket) {
  return {{"bucket", bucket.bucket},
          {"name", bucket.name},
          {"bytes", bucket.bytes},
          {"count", bucket.count},
          {"predicted", bucket.predicted_ns},
          {"median", bucket.median_ns},
          {"least", bucket.least_ns},
          {"most", bucket.most_ns}};
}

Json run_of(const TraceRun& run, int64_t begin) {
  const TraceSummary sums = summarize(run.trace);
  Json out{{"name", run.name}, {"all", totals_of(sums.all)}, {"notes", sums.notes}};
  out["ranks"] = out["buckets"] = Json::array();
  out["exposed"] = Json::object();
  for (const TraceTotals& totals : sums.ranks) {
    out["ranks"].push_back(totals_of(totals));
    Json& pieces = out["exposed"][std::to_string(totals.rank)] = Json::array();
    for (const TraceInterval& piece : exposed_communication(run.trace, totals.rank)) {
      pieces.push_back(piece.begin_ns - begin);
      pieces.push_back(piece.end_ns - begin);
    }
  }
  for (const TraceBucket& bucket : sums.buckets) out["buckets"].push_back(bucket_of(bucket));
  return out;
}

Json data_of(const std::vector<TraceRun>& runs) {
  Names names;
  Json lanes = Json::array(), told = Json::array(), files = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    const int64_t begin = begin_of(runs[i].trace);
    add_lanes(runs[i].trace, i, begin, names, lanes);
    told.push_back(run_of(runs[i], begin));
    for (const std::string& file : runs[i].files) files.push_back(file);
  }
  return {{"files", files}, {"runs", told}, {"lanes", lanes}, {"names", names.all()}};
}

}  // namespace

std::string trace_page(const std::vector<TraceRun>& runs) {
  const std::string data = data_of(runs).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string inside;  // of <script>, where "</script>" and "<!--" would end or change it
  inside.reserve(data.size());
  for (const char c : data) inside += c == '<' ? std::string("\\u003c") : std::string(1, c);
  const std::string_view page = page_template(), place = "@TRACE@";
  const size_t at = page.find(place);
  return std::string(page.substr(0, at)) + inside + std::string(page.substr(at + place.size()));
}

}  // namespace tenon::tool
