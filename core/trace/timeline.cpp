// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: pieces of work that wait for their times, and those that have them.
//
// A device keeps the times of some thousand values only, so they are fetched while work goes on: each piece that comes fetches
// up to two old ones of its stream. Invariant: nothing waits for work while it holds the lock.
#include <tenon/timeline.hpp>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "trace/clock.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace tenon {
namespace {

using trace::ClockPair;

// Work of one stream between two timed values; its name is one of the timeline's.
struct Piece {
  uint64_t begin = 0, end = 0;
  TraceKind kind = TraceKind::kernel;
  const std::string* name = nullptr;
  uint64_t bytes = 0;
  std::optional<uint32_t> bucket{};
  double predicted_ns = 0;
};

// A piece with its times: of the device's clock.
struct Measured {
  uint32_t lane = 0;
  Piece what{};
};

// A stream and its pieces that are on their way: a ring. The host's lane has no stream, and nothing is ever on its way there.
struct Lane {
  static constexpr size_t room = 1024;
  static constexpr size_t young =
      512;  // pieces that are not asked about yet: most devices are not as far behind
  Stream stream{};
  std::vector<Piece> ring{};
  size_t first = 0, count = 0;

  Point at(uint64_t value) const {
    return Point(detail::Ref<detail::StreamState>::share(stream.state()), value);
  }
  const Piece& oldest() const { return ring[first]; }
  const Piece& newest() const { return ring[(first + count - 1) % room]; }
  void push(const Piece& piece) { ring[(first + count++) % room] = piece; }
  void pop() {
    first = (first + 1) % room;
    --count;
  }
};

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
};

}  // namespace

struct Timeline::State {
  std::mutex mutex;
  Device device;
  Stream clock_stream;
  TimelineOptions options;
  ClockPair first{};

  std::vector<std::unique_ptr<Lane>> lanes;
  std::unordered_set<std::string, TextHash, std::equal_to<>> names;
  std::vector<Measured> events;  // a ring of options.events
  size_t oldest = 0;             // once it is full
  uint64_t dropped = 0;
  std::vector<std::string> notes;

  uint32_t lane_of(const Stream& stream);
  const std::string* known(std::string_view name);
  void drop();
  void keep(uint32_t lane, const Piece& piece);
  bool fetch(uint32_t lane);
  TraceEvent event_of(const Measured& event, const ClockPair& last) const;
  void give_up(Lane& lane, const Status& why);
  void add(const Stream& stream, Piece piece, std::string_view name);
  void add_host(Piece piece, std::string_view name);
  void finish();
  Trace take();
  Trace trace_of(const ClockPair& last);
};

void Timeline::State::drop() {
  const std::lock_guard lock(mutex);
  ++dropped;
}

uint32_t Timeline::State::lane_of(const Stream& stream) {
  for (size_t i = 0; i < lanes.size(); ++i)
    if (lanes[i]->stream.state() == stream.state()) return static_cast<uint32_t>(i);
  lanes.push_back(std::make_unique<Lane>());
  lanes.back()->stream = stream;
  if (stream) lanes.back()->ring.resize(Lane::room);
  return static_cast<uint32_t>(lanes.size() - 1);
}

const std::string* Timeline::State::known(std::string_view name) {
  const auto found = names.find(name);
  return found != names.end() ? &*found : &*names.emplace(name).first;
}

void Timeline::State::keep(uint32_t lane, const Piece& piece) {
  if (events.size() < options.events) {
    events.push_back({lane, piece});
    return;
  }
  events[oldest] = {lane, piece};
  oldest = (oldest + 1) % events.size();
  ++dropped;
}

// The stream failed: what it had not told will not be known.
void Timeline::State::give_up(Lane& lane, const Status& why) {
  dropped += lane.count;
  notes.push_back(std::string(lane.stream.name()) + " failed, with " + base::counted(lane.count, "event") +
                  " on the way: " + std::string(why.message()));
  lane.count = 0;
}

// Gives the oldest piece of `lane` its times when it is over; false: it is not, or there is none.
bool Timeline::State::fetch(uint32_t lane) {
  Lane& on = *lanes[lane];
  if (on.count == 0) return false;
  Piece piece = on.oldest();
  const auto reached = on.at(piece.end).reached();
  if (!reached.ok()) {
    give_up(on, Status(reached.error()));
    return false;
  }
  if (!*reached) return false;
  on.pop();
  const auto begin = on.at(piece.begin).timestamp(), end = on.at(piece.end).timestamp();
  if (!begin.ok() || !end.ok()) {  // more values were timed since than the device keeps
    ++dropped;
    return true;
  }
  piece.begin = *begin;
  piece.end = std::max(*begin, *end);
  keep(lane, piece);
  return true;
}

void Timeline::State::add(const Stream& stream, Piece piece, std::string_view name) {
  const std::lock_guard lock(mutex);
  const uint32_t lane = lane_of(stream);
  for (int i = 0; i < 2 && lanes[lane]->count >= Lane::young && fetch(lane); ++i) continue;
  if (lanes[lane]->count == Lane::room) {
    ++dropped;
    return;
  }
  piece.name = known(name);
  lanes[lane]->push(piece);
}

void Timeline::State::add_host(Piece piece, std::string_view name) {
  const std::lock_guard lock(mutex);
  piece.name = known(name);
  keep(lane_of(Stream()), piece);
}

// Waits for every piece, without the lock, and fetches its times.
void Timeline::State::finish() {
  std::vector<Point> newest;
  {
    const std::lock_guard lock(mutex);
    for (const auto& lane : lanes)
      if (lane->count > 0) newest.push_back(lane->at(lane->newest().end));
  }
  for (const Point& point : newest) static_cast<void>(point.sync());  // `fetch` finds what failed
  const std::lock_guard lock(mutex);
  for (uint32_t lane = 0; lane < lanes.size(); ++lane)
    while (fetch(lane)) continue;
}

Trace Timeline::State::take() {
  finish();
  const auto paired = trace::pair_clocks(clock_stream);
  const std::lock_guard lock(mutex);
  Trace out = trace_of(paired.ok() ? *paired : first);
  events.clear();
  notes.clear();
  oldest = 0;
  dropped = 0;
  const bool idle =
      std::all_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane->count == 0; });
  if (idle) lanes.clear();  // lets their streams go
  return out;
}

Trace Timeline::State::trace_of(const ClockPair& last) {
  Trace out{
      .clock = trace::host_clock(), .utc_ns = trace::utc_offset_ns(), .dropped = dropped, .notes = notes};
  for (const auto& lane : lanes) {
    const bool host = !lane->stream;
    out.lanes.push_back({.rank = options.rank,
                         .device = host ? std::string() : device.name(),
                         .stream = host ? std::string("host") : std::string(lane->stream.name())});
  }
  out.events.reserve(events.size());
  for (size_t i = 0; i < events.size(); ++i)
    out.events.push_back(event_of(events[(oldest + i) % events.size()], last));
  return out;
}

TraceEvent Timeline::State::event_of(const Measured& event, const ClockPair& last) const {
  const Piece& what = event.what;
  const bool host = !lanes[event.lane]->stream;  // by the host's clock already
  const auto on_host = [&](uint64_t ns) {
    return host ? static_cast<int64_t>(ns) : trace::host_time(ns, first, last);
  };
  const int64_t begin = on_host(what.begin);
  return {.lane = event.lane,
          .kind = what.kind,
          .name = *what.name,
          .begin_ns = begin,
          .end_ns = std::max(begin, on_host(what.end)),
          .bytes = what.bytes,
          .bucket = what.bucket,
          .predicted_ns = what.predicted_ns};
}

Result<Timeline> Timeline::create(Device& device, TimelineOptions options) {
  if (options.events == 0)
    return Status(TN_INVALID, "a timeline that keeps 0 events keeps nothing: keep 1 or more");
  auto state = std::make_shared<State>();
  state->device = device;
  state->options = options;
  state->clock_stream = TN_TRY(device.stream({.name = "timeline clock"}));
  auto clocks = trace::pair_clocks(state->clock_stream);
  if (clocks.code() == TN_UNSUPPORTED)
    return Status(TN_UNSUPPORTED,
                  "device '" + device.name() +
                      "' takes no timestamps, so nothing can be measured on it: leave the timeline off");
  state->first = TN_TRY(std::move(clocks));
  state->events.reserve(options.events);
  return Timeline(std::move(state));
}

Result<Point> Timeline::begin(Stream& stream) {
  if (state_ == nullptr) return Point();
  auto point = stream.record(Timed::yes);
  if (point.code() != TN_NO_MEMORY) return point;
  state_->drop();
  return Point();
}

Status Timeline::end(Stream& stream, const Point& begin, const Work& work) {
  if (state_ == nullptr || begin.stream_state() == nullptr) return {};
  const auto end = stream.record_value(Timed::yes);
  if (end.code() == TN_NO_MEMORY) {
    state_->drop();
    return {};
  }
  if (!end.ok()) return Status(end.error());
  state_->add(stream,
              {.begin = begin.value(),
               .end = *end,
               .kind = work.kind,
               .bytes = work.bytes,
               .bucket = work.bucket,
               .predicted_ns = work.predicted_ns},
              work.name);
  return {};
}

uint64_t Timeline::host_ns() noexcept { return base::now_ns(); }

void Timeline::end_host(uint64_t begin_ns, const Work& work) {
  state_->add_host({.begin = begin_ns,
                    .end = base::now_ns(),
                    .kind = TraceKind::host,
                    .bytes = work.bytes,
                    .bucket = work.bucket,
                    .predicted_ns = work.predicted_ns},
                   work.name);
}

Trace Timeline::take() { return state_ == nullptr ? Trace() : state_->take(); }

Status Timeline::write(const std::string& file) { return state_ == nullptr ? Status() : take().write(file); }

}  // namespace tenon
