// SPDX-License-Identifier: Apache-2.0
// pool.cpp: the greatest and the mean of windows, and their gradients.
//
// A job is an image and one of its channels, or a block of them where channels lie last. It goes through the rows of windows
// with those rows of the image at hand that they reach, widened once, and, backwards, with the sums for these rows: a row of
// the image is rounded and written when the last window has passed it.
// Invariant: a job has its channels' gradients for itself, and windows give in their order, so the same bits come out however
// images lie; halves are summed in f32 and rounded once.
#include "half.hpp"
#include "half_rows.hpp"
#include "pool_loops.hpp"
#include "pooling.hpp"
#include "reduce.hpp"

#include <cstring>
#include <limits>

namespace tenon::cpu {
namespace {

constexpr int64_t most_bytes = 192 << 10;  // of a block's rows: they stay in a core's own cache
constexpr int64_t rows_of_windows = 8;     // of a job forwards, where rows share nothing that is written

// What is summed, or compared.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
constexpr bool is_half = !std::is_same_v<T, Sum<T>>;
template <class T>
constexpr uint32_t half_dtype = std::is_same_v<T, F16> ? TN_DTYPE_f16 : TN_DTYPE_bf16;

// A run of elements, and a run with gaps. `row`: of halves.
template <class T>
void widen_to(Sum<T>* to, const T* from, int64_t n, int64_t step, [[maybe_unused]] WidenRow row) noexcept {
  if constexpr (is_half<T>) {
    if (step == 1) return row(from, to, static_cast<uint64_t>(n));
    for (int64_t i = 0; i < n; ++i) to[i] = tenon::cpu::widen(from[i * step]);
  } else {
    if (step == 1) return std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T)), void();
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  }
}
template <class T>
void narrow_to(T* to, const Sum<T>* from, int64_t n, int64_t step, [[maybe_unused]] NarrowRow row) noexcept {
  if constexpr (is_half<T>) {
    if (step == 1) return row(from, to, static_cast<uint64_t>(n));
    for (int64_t i = 0; i < n; ++i) row(from + i, to + i * step, 1);
  } else {
    if (step == 1) return std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T)), void();
    for (int64_t i = 0; i < n; ++i) to[i * step] = from[i];
  }
}

// Channels [first, first + count) of an image: `room` numbers for each place, the last of which may be nobody's.
struct Block {
  int64_t image = 0, first = 0, count = 0, room = 0;
};

// A row of places between memory and what is computed with: of one channel, of all that lie side by side, or place by place.
template <class T, class Move>
void each_run(const Run& run, const Plane& plane, const Block& block, int64_t row, Move move) {
  T* const memory = reinterpret_cast<T*>(run.at(plane.place)) + plane.at(block.image, block.first, row);
  const int64_t places = plane.dims[3], step = plane.strides[3];
  if (block.room == 1) return move(memory, int64_t{0}, places, step);
  if (step == block.room && block.count == block.room)
    return move(memory, int64_t{0}, places * step, int64_t{1});
  for (int64_t w = 0; w < places; ++w) move(memory + w * step, w * block.room, block.count, int64_t{1});
}

template <class T>
class PoolStep final : public Step {
 public:
  using S = Sum<T>;

  PoolStep(Builder& builder, const Pooling& pooling, unsigned threads)
      : p_(pooling), room_(room_of(pooling)) {
    lanes_ = std::clamp<uint64_t>(jobs(), 1, threads);
    rows_ = builder.scratch(lanes_ * bytes_of(p_, room_));
  }
  std::string engine() const override { return "pool"; }

  Status run(const Run& run) const override {
    if (jobs() * work() <= parallel_grain) {
      pass_all(run, 0, 1);
      return {};
    }
    run.team.run(lanes_, 1, [&](uint64_t lane, uint64_t end) {
      for (; lane < end; ++lane) pass_all(run, lane, lanes_);
    });
    return {};
  }

 private:
  // What a job has at hand; `best` and `where` are of a row of windows.
  struct Rows {
    S *seen, *sums, *windows, *best, *where;
    int64_t brought = 0, written = 0;  // the next rows of the image to come and to go
  };

  static uint64_t ring_of(const Pooling& p) noexcept {
    return static_cast<uint64_t>(p.window.kernel[0] * p.image.dims[3]);
  }
  // Of a lane, in whole lines of the cache.
  static uint64_t bytes_of(const Pooling& p, int64_t room) noexcept {
    const auto windows = static_cast<uint64_t>(p.windows.dims[3]), ring = ring_of(p);
    const uint64_t numbers = (p.sees() ? ring : 0) + (p.backward ? ring : 0) + (room > 1 ? 1 : 3) * windows;
    return (numbers * static_cast<uint64_t>(room) * sizeof(S) + 63) / 64 * 64;
  }
  static int64_t room_of(const Pooling& p) noexcept {
    constexpr int64_t vector = 64 / sizeof(S), most = Taps<S>::most_channels;
    if (!p.has_channels_last() || p.window.area() > Taps<S>::most) return 1;
    int64_t room = std::min((p.image.dims[1] + vector - 1) / vector * vector, most);
    while (room > vector && bytes_of(p, room) > most_bytes) room -= vector;
    return room;
  }

  int64_t blocks() const noexcept { return (p_.image.dims[1] + room_ - 1) / room_; }
  // Rows of windows of a job.
  int64_t height() const noexcept { return p_.backward ? p_.windows.dims[2] : rows_of_windows; }
  int64_t parts() const noexcept {
    return p_.backward ? 1 : (p_.windows.dims[2] + rows_of_windows - 1) / rows_of_windows;
  }
  uint64_t jobs() const noexcept { return static_cast<uint64_t>(p_.image.dims[0] * blocks() * parts()); }
  uint64_t work() const noexcept {
    return static_cast<uint64_t>(height() * p_.windows.dims[3] * room_ * p_.window.area());
  }

  S* row(S* rows, int64_t h) const noexcept {
    return rows + h % p_.window.kernel[0] * p_.image.dims[3] * room_;
  }

  void pass_all(const Run& run, uint64_t lane, uint64_t lanes) const noexcept {
    S* const mine = reinterpret_cast<S*>(run.at(rows_) + lane * bytes_of(p_, room_));
    const int64_t parts = this->parts();
    for (uint64_t job = lane; job < jobs(); job += lanes) {
      const auto at = static_cast<int64_t>(job);
      const int64_t part = at % parts, first = at / parts % blocks() * room_;
      const Block block{.image = at / parts / blocks(),
                        .first = first,
                        .count = std::min(room_, p_.image.dims[1] - first),
                        .room = room_};
      pass(run, block, mine, part * height(), std::min((part + 1) * height(), p_.windows.dims[2]));
    }
  }

  // Rows [first, end) of windows.
  void pass(const Run& run, const Block& block, S* mine, int64_t first, int64_t end) const noexcept {
    std::fill_n(mine, bytes_of(p_, room_) / sizeof(S), S(0));
    const uint64_t ring = ring_of(p_) * static_cast<uint64_t>(room_);
    S *const sums = mine + (p_.sees() ? ring : 0), *const windows = sums + (p_.backward ? ring : 0);
    const int64_t width = p_.windows.dims[3];
    Rows rows{.seen = mine,
              .sums = sums,
              .windows = windows,
              .best = windows + width,
              .where = windows + 2 * width,
              .brought = std::max<int64_t>(0, p_.window.start(0, first))};
    for (int64_t p = first; p < end; ++p) {
      move_to(run, block, rows, p);
      if (p_.backward) bring(run, p_.windows, block, p, rows.windows);
      if (room_ > 1)
        for_channels(rows, p);
      else
        p_.backward ? give_row(rows, p) : fold_row(rows, p);
      if (!p_.backward) take(run, p_.windows, block, p, rows.windows);
    }
    if (p_.backward) write_until(run, block, rows, p_.image.dims[2]);
  }

  void bring(const Run& run, const Plane& from, const Block& block, int64_t row, S* to) const noexcept {
    each_run<const T>(run, from, block, row, [&](const T* memory, int64_t at, int64_t n, int64_t step) {
      widen_to(to + at, memory, n, step, widen_);
    });
  }
  void take(const Run& run, const Plane& to, const Block& block, int64_t row, const S* from) const noexcept {
    each_run<T>(run, to, block, row, [&](T* memory, int64_t at, int64_t n, int64_t step) {
      narrow_to(memory, from + at, n, step, narrow_);
    });
  }

  // Has at hand what the windows of row p reach.
  void move_to(const Run& run, const Block& block, Rows& rows, int64_t p) const noexcept {
    const int64_t start = p_.window.start(0, p), height = p_.image.dims[2];
    if (p_.backward) write_until(run, block, rows, std::min(start, height));
    rows.brought = std::max(rows.brought, start);
    for (; p_.sees() && rows.brought < std::min(start + p_.window.kernel[0], height); ++rows.brought)
      bring(run, p_.backward ? *p_.seen : p_.image, block, rows.brought, row(rows.seen, rows.brought));
  }

  void write_until(const Run& run, const Block& block, Rows& rows, int64_t end) const noexcept {
    for (; rows.written < end; ++rows.written) {
      S* const sums = row(rows.sums, rows.written);
      take(run, p_.image, block, rows.written, sums);
      std::fill_n(sums, p_.image.dims[3] * room_, S(0));
    }
  }

  // How many places a window sees, or is said to see.
  S share(int64_t p, int64_t q) const noexcept {
    const auto [r, r_end] = p_.window.taps(0, p, p_.image.dims[2]);
    const auto [s, s_end] = p_.window.taps(1, q, p_.image.dims[3]);
    return static_cast<S>(p_.window.count_pad ? p_.window.area() : (r_end - r) * (s_end - s));
  }

  // Window by window, for all channels of the block.
  void for_channels(const Rows& rows, int64_t p) const noexcept {
    const auto n = static_cast<uint64_t>(room_);
    for (int64_t q = 0; q < p_.windows.dims[3]; ++q) {
      const Taps<S> taps = taps_of(rows, p, q);
      S* const window = rows.windows + q * room_;
      if (!p_.backward)
        p_.greatest ? loops_.greatest(taps, window, n) : loops_.mean(taps, window, share(p, q), n);
      else if (taps.count > 0)  // else it has padding alone
        p_.greatest ? loops_.give_to_greatest(taps, window, n)
                    : loops_.give_to_all(taps, window, share(p, q), n);
    }
  }
  Taps<S> taps_of(const Rows& rows, int64_t p, int64_t q) const noexcept {
    Taps<S> out;
    const auto [r, r_end] = p_.window.taps(0, p, p_.image.dims[2]);
    const auto [s, s_end] = p_.window.taps(1, q, p_.image.dims[3]);
    for (int64_t i = r; i < r_end; ++i) {
      for (int64_t j = s; j < s_end; ++j) {
        const int64_t h = p_.window.start(0, p) + i, w = (p_.window.start(1, q) + j) * room_;
        if (p_.sees()) out.from[out.count] = row(rows.seen, h) + w;
        if (p_.backward) out.to[out.count] = row(rows.sums, h) + w;
        ++out.count;
      }
    }
    return out;
  }

  // Calls f(row of the image, window, place in the row, windows) for each tap that some windows of row p see.
  template <class F>
  void each_tap(int64_t p, bool last_first, F&& f) const noexcept {
    const auto [r, r_end] = p_.window.taps(0, p, p_.image.dims[2]);
    const int64_t width = p_.window.kernel[1];
    for (int64_t i = r; i < r_end; ++i) {
      for (int64_t k = 0; k < width; ++k) {
        const int64_t j = last_first ? width - 1 - k : k;
        const auto [q, end] = p_.window.windows(1, j, p_.windows.dims[3], p_.image.dims[3]);
        if (q < end) f(p_.window.start(0, p) + i, q, p_.window.start(1, q) + j, end - q);
      }
    }
  }

  // Tap by tap, for all windows of the row.
  void fold_row(const Rows& rows, int64_t p) const noexcept {
    const int64_t step = p_.window.stride[1], width = p_.windows.dims[3];
    std::fill_n(rows.windows, width, p_.greatest ? -std::numeric_limits<S>::infinity() : S(0));
    each_tap(p, false, [&](int64_t h, int64_t q, int64_t w, int64_t n) {
      (p_.greatest ? loops_.fold_greatest : loops_.fold_sum)(rows.windows + q, row(rows.seen, h) + w, step,
                                                             n);
    });
    for (int64_t q = 0; !p_.greatest && q < width; ++q) rows.windows[q] /= share(p, q);
  }

  // From the last tap of a row on, so that a place takes from one window after the other.
  void give_row(const Rows& rows, int64_t p) const noexcept {
    const int64_t step = p_.window.stride[1], width = p_.windows.dims[3];
    if (p_.greatest) return give_row_to_greatest(rows, p);
    for (int64_t q = 0; q < width; ++q) rows.windows[q] /= share(p, q);
    each_tap(p, true, [&](int64_t h, int64_t q, int64_t w, int64_t n) {
      loops_.give(row(rows.sums, h) + w, rows.windows + q, step, n);
    });
  }

  // `where` is the number of a tap, which is a whole number of S.
  void give_row_to_greatest(const Rows& rows, int64_t p) const noexcept {
    const int64_t step = p_.window.stride[1], width = p_.windows.dims[3], taps = p_.window.kernel[1];
    const auto [r, r_end] = p_.window.taps(0, p, p_.image.dims[2]);
    if (r == r_end) return;
    int64_t first = width, end = 0;  // those that see anything
    for (int64_t q = 0; q < width; ++q) {
      const auto [s, s_end] = p_.window.taps(1, q, p_.image.dims[3]);
      rows.where[q] = static_cast<S>(r * taps + s);
      if (s == s_end) continue;
      first = std::min(first, q);
      end = q + 1;
    }
    std::fill_n(rows.best, width, -std::numeric_limits<S>::infinity());
    each_tap(p, false, [&](int64_t h, int64_t q, int64_t w, int64_t n) {
      const int64_t tap = (h - p_.window.start(0, p)) * taps + w - p_.window.start(1, q);
      loops_.find_greatest(rows.best + q, rows.where + q, static_cast<S>(tap), row(rows.seen, h) + w, step,
                           n);
    });
    give_where(rows, p, first, end);
  }

  // Windows [first, end) give to the taps that were found. How far from window 0's first place a tap is, is known for all but
  // the largest windows.
  void give_where(const Rows& rows, int64_t p, int64_t first, int64_t end) const noexcept {
    const int64_t step = p_.window.stride[1], taps = p_.window.kernel[1], top = p_.window.start(0, p);
    const auto distance = [&](int64_t tap) {
      return row(rows.sums, top + tap / taps) - rows.sums + tap % taps;
    };
    int64_t known[Taps<S>::most] = {};
    const bool is_small = p_.window.area() <= Taps<S>::most;
    const auto [r, r_end] = p_.window.taps(0, p, p_.image.dims[2]);
    for (int64_t tap = r * taps; is_small && tap < r_end * taps; ++tap) known[tap] = distance(tap);
    for (int64_t q = first; q < end; ++q) {
      const auto tap = static_cast<int64_t>(rows.where[q]);
      rows.sums[(is_small ? known[tap] : distance(tap)) + p_.window.start(1, 0) + q * step] +=
          rows.windows[q];
    }
  }

  const PoolLoops<S>& loops_ = pool_loops<S>();
  WidenRow widen_ = is_half<T> ? widen_row(half_dtype<T>) : nullptr;
  NarrowRow narrow_ = is_half<T> ? narrow_row(half_dtype<T>) : nullptr;
  Pooling p_;
  int64_t room_;
  uint64_t lanes_ = 1;
  Place rows_{};
};

template <class T>
void add_step(Builder& builder, const tn_node& node, unsigned threads) {
  const FragmentView& fragment = builder.fragment();
  const bool backward = node.op == TN_OP_max_pool_grad || node.op == TN_OP_avg_pool_grad;
  const auto input = [&](uint32_t i) {
    return Plane(builder.place(node.inputs[i]), fragment.tensor(node.inputs[i]));
  };
  const Plane made(builder.output_place(node.outputs[0]), fragment.tensor(node.outputs[0]));
  Pooling pooling{.window = Window(node),
                  .image = backward ? made : input(0),
                  .windows = backward ? input(0) : made,
                  .greatest = node.op == TN_OP_max_pool || node.op == TN_OP_max_pool_grad,
                  .backward = backward};
  if (backward && pooling.greatest) pooling.seen = input(1);
  builder.add(std::make_unique<PoolStep<T>>(builder, pooling, threads));
}

}  // namespace

Status build_pool(Builder& builder, const tn_node& node, unsigned threads) {
  if (node.op == TN_OP_global_pool) {
    const Axes image{.kept = {0, 1}, .reduced = {2, 3}, .kept_count = 2, .reduced_count = 2};
    return build_fold(builder, node, TN_OP_mean, image);
  }
  const TensorView made = builder.fragment().tensor(node.outputs[0]);
  if (made.elements() == 0) return {};
  switch (made.dtype()) {
    case TN_DTYPE_f16:
      add_step<F16>(builder, node, threads);
      break;
    case TN_DTYPE_bf16:
      add_step<BF16>(builder, node, threads);
      break;
    case TN_DTYPE_f32:
      add_step<float>(builder, node, threads);
      break;
    default:
      add_step<double>(builder, node, threads);
  }
  return {};
}

}  // namespace tenon::cpu
