// SPDX-License-Identifier: Apache-2.0
// hazards.cpp: clocks of streams, and the map from bytes to their last uses.
//
// Invariant: cells of a region are disjoint and cover only bytes that some operation used; a cell whose uses are all over
// may be dropped at any time, since nothing can conflict with it.
#include "layers/hazards.hpp"

#include <algorithm>
#include <utility>

namespace tenon::layers {
namespace {

uint64_t at(const std::vector<uint64_t>& clock, size_t slot) { return slot < clock.size() ? clock[slot] : 0; }

void raise(std::vector<uint64_t>& clock, size_t slot, uint64_t count) {
  if (clock.size() <= slot) clock.resize(slot + 1);
  clock[slot] = std::max(clock[slot], count);
}

}  // namespace

Hazards::Slot Hazards::add_stream() {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find(timelines_, false, &Timeline::used);
  const auto slot = static_cast<Slot>(free - timelines_.begin());
  if (free == timelines_.end()) timelines_.emplace_back();
  timelines_[slot].used = true;
  return slot;
}

void Hazards::remove_stream(Slot slot) {
  const std::lock_guard lock(mutex_);
  Timeline& timeline = timelines_[slot];
  finish({slot, timeline.count, timeline.past});
  const uint64_t count = timeline.count;  // goes on, so old uses stay older than the next stream's
  timeline = Timeline{};
  timeline.count = count;
}

void Hazards::recorded(Slot slot, uint64_t value) {
  const std::lock_guard lock(mutex_);
  Timeline& timeline = timelines_[slot];
  timeline.values[value] = {slot, timeline.count, timeline.past};
  timeline.newest = std::max(timeline.newest, value);
}

uint64_t Hazards::newest(Slot slot) const {
  const std::lock_guard lock(mutex_);
  return timelines_[slot].newest;
}

void Hazards::waited(Slot slot, Slot other, uint64_t value) {
  const std::lock_guard lock(mutex_);
  Timeline& to = timelines_[slot];
  Timeline& from = timelines_[other];
  if (from.promises.contains(value)) {
    Past past = to.past ? *to.past : Past{};
    past.promises.emplace_back(other, value);
    to.past = std::make_shared<const Past>(std::move(past));
    return;
  }
  const auto after = from.values.upper_bound(value);
  if (after != from.values.begin()) import(to, std::prev(after)->second);
}

void Hazards::reached(Slot slot, uint64_t value) {
  const std::lock_guard lock(mutex_);
  auto& values = timelines_[slot].values;
  const auto after = values.upper_bound(value);
  if (after == values.begin()) return;
  const auto newest = std::prev(after);
  finish(newest->second);
  values.erase(values.begin(), newest);
}

void Hazards::promised(Slot slot, uint64_t value) {
  const std::lock_guard lock(mutex_);
  timelines_[slot].promises.insert(value);
  timelines_[slot].newest = std::max(timelines_[slot].newest, value);
}

void Hazards::signalled(Slot slot, uint64_t value) {
  const std::lock_guard lock(mutex_);
  timelines_[slot].promises.erase(value);
}

Hazards::Moment Hazards::now(Slot slot) const {
  const std::lock_guard lock(mutex_);
  return {slot, timelines_[slot].count, timelines_[slot].past};
}

void Hazards::waited(Slot slot, const Moment& moment) {
  const std::lock_guard lock(mutex_);
  import(timelines_[slot], moment);
}

void Hazards::over(const Moment& moment) {
  const std::lock_guard lock(mutex_);
  finish(moment);
}

// Copies the past only when the moment adds something to it.
void Hazards::import(Timeline& timeline, const Moment& moment) {
  static const Past none;
  const Past& mine = timeline.past ? *timeline.past : none;
  const Past& theirs = moment.past ? *moment.past : none;
  bool news = at(mine.clock, moment.slot) < moment.count || !theirs.promises.empty();
  for (size_t slot = 0; !news && slot < theirs.clock.size(); ++slot)
    news = at(mine.clock, slot) < theirs.clock[slot];
  if (!news) return;
  Past joined = mine;
  for (size_t slot = 0; slot < theirs.clock.size(); ++slot) raise(joined.clock, slot, theirs.clock[slot]);
  raise(joined.clock, moment.slot, moment.count);
  for (const auto& promise : theirs.promises) {
    if (std::ranges::find(joined.promises, promise) == joined.promises.end())
      joined.promises.push_back(promise);
  }
  timeline.past = std::make_shared<const Past>(std::move(joined));
}

void Hazards::settle_promises(Timeline& timeline) {
  if (!timeline.past || timeline.past->promises.empty()) return;
  Past past = *timeline.past;
  std::erase_if(past.promises, [&](const auto& promise) {
    return !timelines_[promise.first].promises.contains(promise.second);
  });
  timeline.past = std::make_shared<const Past>(std::move(past));
}

void Hazards::finish(const Moment& moment) {
  raise(over_, moment.slot, moment.count);
  if (!moment.past) return;
  for (size_t slot = 0; slot < moment.past->clock.size(); ++slot)
    raise(over_, slot, moment.past->clock[slot]);
}

bool Hazards::over(const Touch& touch) const {
  return touch.operation == nullptr || touch.count <= at(over_, touch.slot);
}

bool Hazards::ordered(const Touch& before, Slot slot) const {
  if (over(before) || before.slot == slot) return true;
  const auto& past = timelines_[slot].past;
  return past && before.count <= at(past->clock, before.slot);
}

void Hazards::meet(const Touch& before, const Touch& now, std::vector<Conflict>& conflicts) const {
  if (before.unjudged || now.unjudged || ordered(before, now.slot)) return;
  for (const Conflict& known : conflicts) {
    if (known.earlier == before.operation && known.later_use.region == now.use.region) return;
  }
  conflicts.push_back({before.operation, before.use, now.use});
}

// Cuts cells so that none straddles `at`.
static void cut(auto& cells, uint64_t at) {
  auto next = cells.lower_bound(at);
  if (next == cells.begin()) return;
  const auto cell = std::prev(next);
  if (cell->second.end <= at) return;
  auto right = cell->second;
  cell->second.end = at;
  cells.emplace_hint(next, at, std::move(right));
}

void Hazards::read(Region& region, const Touch& touch, std::vector<Conflict>& conflicts) {
  const auto [begin, end] = touch.use.bytes;
  cut(region.cells, begin);
  cut(region.cells, end);
  uint64_t place = begin;
  for (auto cell = region.cells.lower_bound(begin); place < end; ++cell) {
    const uint64_t next = cell == region.cells.end() ? end : std::min(cell->first, end);
    if (place < next) {  // a gap: nobody used these bytes
      cell = region.cells.emplace_hint(cell, place, Cell{.end = next, .write = {}, .reads = {}});
    }
    Cell& found = cell->second;
    meet(found.write, touch, conflicts);
    std::erase_if(found.reads, [&](const Touch& each) { return each.slot == touch.slot || over(each); });
    if (touch.use.kept) found.reads.push_back(touch);
    place = found.end;
  }
}

void Hazards::write(Region& region, const Touch& touch, std::vector<Conflict>& conflicts) {
  const auto [begin, end] = touch.use.bytes;
  cut(region.cells, begin);
  cut(region.cells, end);
  const auto first = region.cells.lower_bound(begin), last = region.cells.lower_bound(end);
  for (auto cell = first; cell != last; ++cell) {
    meet(cell->second.write, touch, conflicts);
    for (const Touch& each : cell->second.reads) meet(each, touch, conflicts);
  }
  const auto hint = region.cells.erase(first, last);
  region.cells.emplace_hint(hint, begin, Cell{.end = end, .write = touch, .reads = {}});
}

bool Hazards::promise_open(Slot slot, uint64_t value) const {
  const std::lock_guard lock(mutex_);
  return timelines_[slot].promises.contains(value);
}

std::vector<Conflict> Hazards::run(Slot slot, const OperationRef& operation, std::span<const Access> uses) {
  const std::lock_guard lock(mutex_);
  Timeline& timeline = timelines_[slot];
  settle_promises(timeline);
  ++timeline.count;
  const bool unjudged = timeline.past && !timeline.past->promises.empty();
  std::vector<Conflict> conflicts;
  for (const bool writes : {false, true}) {
    for (const Access& use : uses) {
      if (use.write != writes || use.bytes.begin >= use.bytes.end) continue;
      Region& region = regions_[use.region];
      const Touch touch{slot, timeline.count, unjudged, use, operation};
      writes ? write(region, touch, conflicts) : read(region, touch, conflicts);
      if (region.cells.size() > region.sweep_at) sweep(region);
    }
  }
  return conflicts;
}

void Hazards::sweep(Region& region) const {
  std::erase_if(region.cells, [&](const auto& entry) {
    return over(entry.second.write) &&
           std::ranges::all_of(entry.second.reads, [&](const Touch& each) { return over(each); });
  });
  region.sweep_at = std::max<size_t>(64, 2 * region.cells.size());
}

OperationRef Hazards::in_flight(uint64_t region) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region);
  if (found == regions_.end()) return nullptr;
  for (const auto& [begin, cell] : found->second.cells) {
    if (!over(cell.write)) return cell.write.operation;
    for (const Touch& each : cell.reads) {
      if (!over(each)) return each.operation;
    }
  }
  return nullptr;
}

size_t Hazards::cells(uint64_t region) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region);
  return found == regions_.end() ? 0 : found->second.cells.size();
}

void Hazards::forget(uint64_t region) {
  const std::lock_guard lock(mutex_);
  regions_.erase(region);
}

}  // namespace tenon::layers
