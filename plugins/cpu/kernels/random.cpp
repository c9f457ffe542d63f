// SPDX-License-Identifier: Apache-2.0
// random.cpp: Philox4x32-10, and what is drawn with it.
//
// The block of element i has counter offset + i, low word first, and key = seed + attribute `key` · 0x9E3779B97F4A7C15.
// Its first word is the element's draw; a normal number takes the second as its angle.
// Invariant: an element's number depends on seed, offset, key and its own index alone, so any cut among threads gives the
// same bits.
#include "random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tenon::cpu {

namespace {

constexpr uint32_t tile = 512;
constexpr uint64_t tiles_per_thread = 8;  // a draw costs some ten elementwise operations

// The first two words of each element's block.
struct Words {
  alignas(64) uint32_t first[tile];
  alignas(64) uint32_t second[tile];
};

// Elements go through the rounds side by side, in groups that fill the processor's vectors.
constexpr uint32_t lanes = 16;
static_assert(tile % lanes == 0);

struct Blocks {
  uint32_t x0[lanes], x1[lanes], x2[lanes], x3[lanes];

  void start(uint64_t counter) noexcept {
    for (uint32_t i = 0; i < lanes; ++i) {
      x0[i] = static_cast<uint32_t>(counter + i);
      x1[i] = static_cast<uint32_t>((counter + i) >> 32);
      x2[i] = x3[i] = 0;
    }
  }
  void round(uint32_t low, uint32_t high) noexcept {
    for (uint32_t i = 0; i < lanes; ++i) {
      const uint64_t a = uint64_t{0xD2511F53} * x0[i], b = uint64_t{0xCD9E8D57} * x2[i];
      x0[i] = static_cast<uint32_t>(b >> 32) ^ x1[i] ^ low;
      x1[i] = static_cast<uint32_t>(b);
      x2[i] = static_cast<uint32_t>(a >> 32) ^ x3[i] ^ high;
      x3[i] = static_cast<uint32_t>(a);
    }
  }
};

// The words of n elements from `counter` on; the last group may be drawn whole.
void draw(Words& words, uint64_t counter, uint64_t key, uint32_t n) noexcept {
  for (uint32_t i = 0; i < n; i += lanes) {
    Blocks blocks;
    blocks.start(counter + i);
    auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, low += 0x9E3779B9, high += 0xBB67AE85) blocks.round(low, high);
    std::copy_n(blocks.x0, lanes, words.first + i);
    std::copy_n(blocks.x1, lanes, words.second + i);
  }
}

// From words to numbers of a tile's class; `x` is dropout's tile.
using Law = void (*)(const Words& words, uint32_t n, double rate, const void* x, void* out);

// Each is written for both float classes. The quotient is taken in f64 and rounded once.
template <class T>
void dropout(const Words& words, uint32_t n, double rate, const void* x, void* out) {
  const auto threshold = static_cast<uint64_t>(std::ceil(std::ldexp(rate, 32)));
  const double factor = 1 / (1 - rate);
  const auto* const from = static_cast<const T*>(x);
  auto* const to = static_cast<T*>(out);
  for (uint32_t i = 0; i < n; ++i)
    to[i] = words.first[i] >= threshold ? static_cast<T>(static_cast<double>(from[i]) * factor) : T(0);
}

template <class T>
void uniform(const Words& words, uint32_t n, double, const void*, void* out) {
  auto* const to = static_cast<T*>(out);
  for (uint32_t i = 0; i < n; ++i)
    to[i] = static_cast<T>(static_cast<int32_t>(words.first[i] >> 8)) * T(0x1p-24);
}

template <class T>
void normal(const Words& words, uint32_t n, double, const void*, void* out) {
  auto* const to = static_cast<T*>(out);
  for (uint32_t i = 0; i < n; ++i) {
    const double size = std::sqrt(-2 * std::log((words.first[i] + 1.0) * 0x1p-32));
    to[i] = static_cast<T>(size * std::cos(2 * std::numbers::pi * 0x1p-32 * words.second[i]));
  }
}

template <class T>
Law law_of(uint32_t op) noexcept {
  return op == TN_OP_dropout ? dropout<T> : op == TN_OP_random_uniform ? uniform<T> : normal<T>;
}

uint64_t word(const Run& run, const Place& place) noexcept {
  uint64_t out;
  std::memcpy(&out, run.at(place), sizeof out);
  return out;
}

class DrawStep final : public Step {
 public:
  DrawStep(uint32_t op, const Draw& source, const Place& from, const View& from_view, const Place& to,
           const View& to_view)
      : source_(source),
        from_(from),
        to_(to),
        from_view_(from_view),
        to_view_(to_view),
        law_(class_of(to_view.dtype()) == Reg::f64 ? law_of<double>(op) : law_of<float>(op)),
        load_(load_op(to_view.dtype())),
        store_(store_op(to_view.dtype())) {}

  std::string engine() const override { return "philox"; }

  Status run(const Run& run) const override {
    const uint64_t count = to_view_.count();
    if (count == 0) return {};
    const uint64_t key = word(run, source_.seed) + source_.key, offset = word(run, source_.offset);
    run.team.run((count + tile - 1) / tile, tiles_per_thread, [&](uint64_t first, uint64_t end) {
      for (; first < end; ++first) {
        const uint64_t begin = first * tile;
        one_tile(run, key, offset, begin, static_cast<uint32_t>(std::min<uint64_t>(tile, count - begin)));
      }
    });
    return {};
  }

 private:
  void one_tile(const Run& run, uint64_t key, uint64_t offset, uint64_t begin, uint32_t n) const noexcept {
    Words words;
    alignas(64) std::byte x[tile * 8], values[tile * 8];
    draw(words, offset + begin, key, n);
    if (from_.kind != Place::Kind::none) load_(from_view_, run.at(from_), begin, n, x);
    law_(words, n, source_.rate, x, values);
    store_(to_view_, run.at(to_), begin, n, values);
  }

  Draw source_;
  Place from_, to_;
  View from_view_, to_view_;
  Law law_;
  LoadFn load_;
  StoreFn store_;
};

// x + by, modulo the width of its integers.
class AdvanceStep final : public Step {
 public:
  AdvanceStep(const Place& from, const View& from_view, const Place& to, const View& to_view, int64_t by)
      : from_(from),
        to_(to),
        from_view_(from_view),
        to_view_(to_view),
        by_(static_cast<uint64_t>(by)),
        load_(load_op(to_view.dtype())),
        store_(store_op(to_view.dtype())) {}

  std::string engine() const override { return "philox"; }

  Status run(const Run& run) const override {
    alignas(64) uint64_t values[tile];
    for (uint64_t begin = 0; begin < to_view_.count(); begin += tile) {
      const auto n = static_cast<uint32_t>(std::min<uint64_t>(tile, to_view_.count() - begin));
      load_(from_view_, run.at(from_), begin, n, values);
      for (uint32_t i = 0; i < n; ++i) values[i] += by_;
      store_(to_view_, run.at(to_), begin, n, values);
    }
    return {};
  }

 private:
  Place from_, to_;
  View from_view_, to_view_;
  uint64_t by_;
  LoadFn load_;
  StoreFn store_;
};

}  // namespace

Draw draw_of(const Builder& builder, const tn_node& node) {
  const uint32_t seed = node.input_count - 2;
  return {.seed = builder.place(node.inputs[seed]),
          .offset = builder.place(node.inputs[seed + 1]),
          .key = static_cast<uint64_t>(*author::attribute_i64(node, "key")) * 0x9E3779B97F4A7C15u,
          .rate = author::attribute_f64(node, "rate").value_or(0)};
}

void thin(const Draw& source, const Run& run, Reg reg, uint64_t at, uint32_t n, const void* x,
          void* out) noexcept {
  const uint64_t key = word(run, source.seed) + source.key, offset = word(run, source.offset);
  const Law law = reg == Reg::f64 ? dropout<double> : dropout<float>;
  Words words;
  for (uint32_t done = 0; done < n; done += tile) {
    const uint32_t now = std::min(tile, n - done);
    const size_t bytes = size_t{done} * class_bytes(reg);
    draw(words, offset + at + done, key, now);
    law(words, now, source.rate, static_cast<const std::byte*>(x) + bytes,
        static_cast<std::byte*>(out) + bytes);
  }
}

Status build_random(Builder& builder, const tn_node& node, unsigned) {
  const FragmentView& fragment = builder.fragment();
  const View to(fragment.tensor(node.outputs[0]));
  const bool reads = node.op == TN_OP_dropout || node.op == TN_OP_advance;
  const Place from = reads ? builder.place(node.inputs[0]) : Place{};
  const View from_view = reads ? View(fragment.tensor(node.inputs[0])) : View();
  if (node.op == TN_OP_advance) {
    const int64_t by = *author::attribute_i64(node, "by");
    builder.add(
        std::make_unique<AdvanceStep>(from, from_view, builder.output_place(node.outputs[0]), to, by));
    return {};
  }
  const Draw source = draw_of(builder, node);
  const Place result = builder.output_place(node.outputs[0]);
  builder.add(std::make_unique<DrawStep>(node.op, source, from, from_view, result, to));
  return {};
}

}  // namespace tenon::cpu
