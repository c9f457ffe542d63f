// SPDX-License-Identifier: Apache-2.0
// order_program.hpp: random programs over several streams, what they must compute, and which waits they need.
//
// A program is a list of steps in the order in which the host issues them, each on a stream, each writing one cell from at
// most two others. Issued one after the other they have one meaning, which `expected` computes.
// Invariant: a stream waits exactly where what its step reads or overwrites is not already known to be over, by the
// stream's own order or by the waits before, theirs included; so no wait is there twice, and each one counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

namespace cuda_test {

inline constexpr uint32_t stream_count = 5, device_cells = 10, pinned_cells = 4,
                          cell_count = device_cells + pinned_cells;
inline constexpr size_t lanes = 16;

using Cell = std::array<int32_t, lanes>;
using Random = std::mt19937_64;

inline uint64_t draw(Random& random, uint64_t below) { return random() % below; }

enum class Do { fill, upload, copy, add, host, renew };

struct Step {
  Do what = Do::fill;
  uint32_t stream = 0, to = 0, a = 0, b = 0;  // cells: those of the device first
  int32_t value = 0;
};

inline bool reads_one(Do what) { return what == Do::copy || what == Do::add || what == Do::host; }
inline bool is_pinned(uint32_t cell) { return cell >= device_cells; }

// What a host call makes of a cell, and what is uploaded for a value.
inline Cell turned(const Cell& from) {
  Cell out{};
  for (size_t i = 0; i < lanes; ++i) out[i] = static_cast<int32_t>(3u * static_cast<uint32_t>(from[i]) + i);
  return out;
}
inline Cell filled(int32_t value) {
  Cell out;
  out.fill(value);
  return out;
}
inline Cell uploaded(int32_t value) { return turned(filled(value)); }
inline Cell sum(const Cell& a, const Cell& b) {
  Cell out{};
  for (size_t i = 0; i < lanes; ++i)
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(a[i]) + static_cast<uint32_t>(b[i]));
  return out;
}

inline Step make_step(Random& random) {
  constexpr Do kinds[] = {Do::fill, Do::upload, Do::copy, Do::copy, Do::copy,
                          Do::add,  Do::add,    Do::add,  Do::host, Do::renew};
  Step out{.what = kinds[draw(random, std::size(kinds))],
           .stream = static_cast<uint32_t>(draw(random, stream_count)),
           .value = static_cast<int32_t>(random())};
  const auto on_device = [&] { return static_cast<uint32_t>(draw(random, device_cells)); };
  const auto pinned = [&] { return static_cast<uint32_t>(device_cells + draw(random, pinned_cells)); };
  const bool on_host = out.what == Do::host;
  out.to = on_host ? pinned() : on_device();
  do out.a = on_host ? pinned() : on_device();
  while (out.a == out.to);
  do out.b = on_device();
  while (out.b == out.to);
  if (out.what != Do::copy) return out;
  const uint64_t side = draw(random, 4);  // half of the copies are between cells of the device
  if (side == 0) out.to = pinned();
  if (side == 1) out.a = pinned();
  return out;
}

inline std::vector<Step> make_program(uint64_t seed, size_t count) {
  Random random(seed);
  std::vector<Step> out;
  for (uint32_t cell = 0; cell < cell_count; ++cell)  // every cell has a value before it is read
    out.push_back({.what = is_pinned(cell) ? Do::copy : Do::fill,
                   .stream = static_cast<uint32_t>(draw(random, stream_count)),
                   .to = cell,
                   .a = cell % device_cells,
                   .value = static_cast<int32_t>(cell)});
  while (out.size() < count) out.push_back(make_step(random));
  return out;
}

// What each step writes when they are taken one by one.
inline std::vector<Cell> expected(const std::vector<Step>& program) {
  std::vector<Cell> cells(cell_count), out;
  for (const Step& step : program) {
    const Cell &a = cells[step.a], &b = cells[step.b];
    switch (step.what) {
      case Do::fill:
      case Do::renew:
        out.push_back(filled(step.value));
        break;
      case Do::upload:
        out.push_back(uploaded(step.value));
        break;
      case Do::copy:
        out.push_back(a);
        break;
      case Do::add:
        out.push_back(sum(a, b));
        break;
      case Do::host:
        out.push_back(turned(a));
        break;
    }
    cells[step.to] = out.back();
  }
  return out;
}

// A place in a stream: after its first `position` steps.
struct Place {
  uint32_t stream = 0;
  uint64_t position = 0;
};
using Clock = std::array<uint64_t, stream_count>;  // how far each stream is known to be

// A value that was recorded: where, and what is over when it is reached.
struct Mark {
  uint64_t position = 0, value = 0;
  Clock clock{};
};

// Keeps, for every cell, who wrote it last and who has read it since; and for every stream what is known to be over.
class Hazards {
 public:
  // The places that must be over before the step, in other streams, where that is not known yet.
  std::vector<Place> before(const Step& step) const {
    std::vector<Place> out;
    const auto need = [&](const Place& place) {
      if (place.stream != step.stream && clocks_[step.stream][place.stream] < place.position)
        out.push_back(place);
    };
    if (reads_one(step.what)) need(writers_[step.a]);
    if (step.what == Do::add) need(writers_[step.b]);
    need(writers_[step.to]);
    for (const Place& reader : readers_[step.to]) need(reader);
    return out;
  }
  void waited(uint32_t stream, const Mark& mark) {
    for (uint32_t i = 0; i < stream_count; ++i)
      clocks_[stream][i] = std::max(clocks_[stream][i], mark.clock[i]);
  }
  // The step is issued.
  void issued(const Step& step) {
    const Place here{step.stream, ++clocks_[step.stream][step.stream]};
    if (reads_one(step.what)) readers_[step.a].push_back(here);
    if (step.what == Do::add) readers_[step.b].push_back(here);
    writers_[step.to] = here;
    readers_[step.to].clear();
  }
  // The host has waited for all that touches the cell.
  void over(uint32_t cell) {
    writers_[cell] = {};
    readers_[cell].clear();
  }
  // All that touches the cell.
  std::vector<Place> users(uint32_t cell) const {
    std::vector<Place> out = readers_[cell];
    out.push_back(writers_[cell]);
    return out;
  }
  Mark mark(uint32_t stream, uint64_t value) const {
    return {clocks_[stream][stream], value, clocks_[stream]};
  }

 private:
  std::array<Clock, stream_count> clocks_{};
  std::array<Place, cell_count> writers_{};
  std::array<std::vector<Place>, cell_count> readers_{};
};

}  // namespace cuda_test
