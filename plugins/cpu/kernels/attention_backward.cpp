// SPDX-License-Identifier: Apache-2.0
// attention_backward.cpp: three phases: queries are prepared, keys are worked through, dq is gathered.
//
// Invariant: phases meet in memory of their own; a phase's tasks share nothing that any of them writes.
#include "attention_backward.hpp"

#include <cmath>
#include <limits>

namespace tenon::cpu {
namespace {

constexpr uint32_t most_keys = 64;     // of a block
constexpr int64_t most_pieces = 16;    // of a head's keys
constexpr int64_t tasks_a_thread = 4;  // enough to end together

template <class T>
class AttentionGradStep final : public Step {
 public:
  AttentionGradStep(const AttentionForm& form, const AttentionGradOperands& operands, Builder& builder,
                    unsigned threads)
      : form_(form),
        o_(operands),
        padded_((form.width + lanes<T> - 1) / lanes<T> * lanes<T>),
        blocks_((form.queries + queries - 1) / queries),
        pieces_(pieces(threads)),
        slots_(attention_slots(static_cast<uint64_t>(form.matrices()) * std::max(pieces_, blocks_),
                               products(), threads)),
        prepared_(builder.scratch(static_cast<uint64_t>(form.matrices() * blocks_) * prepared_bytes())),
        partial_(builder.scratch(static_cast<uint64_t>(pieces_ * form.matrices() * form.queries * padded_) *
                                 sizeof(T))),
        rooms_(builder.scratch(slots_ * room_bytes())) {}

  std::string engine() const override { return "attention"; }

  Status run(const Run& run) const override {
    each(run, form_.matrices() * blocks_, [&](T* room, int64_t task) { prepare(run, room, task); });
    each(run, form_.matrices() * pieces_, [&](T* room, int64_t task) { work(run, room, task); });
    if (o_.dq.there()) each(run, form_.matrices() * blocks_, [&](T*, int64_t task) { gather(run, task); });
    return {};
  }

 private:
  static constexpr uint32_t queries = queries_of<T>;
  // A block of queries, turned, and what its softmax and its results say.
  struct Prepared {
    T *query, *slope, *norm, *inner;  // [width][queries] twice, [queries] twice
    Prepared(T* at, int64_t width)
        : query(at), slope(at + width * queries), norm(slope + width * queries), inner(norm + queries) {}
  };
  struct Room {
    T *scores, *slopes, *dk, *dv;  // [keys][queries] twice, [keys][padded] twice
    Room(T* at, int64_t padded)
        : scores(at),
          slopes(at + most_keys * queries),
          dk(slopes + most_keys * queries),
          dv(dk + most_keys * padded) {}
  };

  uint64_t prepared_bytes() const noexcept {
    return static_cast<uint64_t>(2 * form_.width + 2) * queries * sizeof(T);
  }
  uint64_t room_bytes() const noexcept {
    return static_cast<uint64_t>(queries + padded_) * 2 * most_keys * sizeof(T);
  }
  double products() const noexcept {
    return 5.0 * static_cast<double>(form_.matrices() * form_.queries) * static_cast<double>(form_.keys) *
           static_cast<double>(form_.width);
  }
  // A head's keys are cut where heads alone would leave threads idle.
  int64_t pieces(unsigned threads) const noexcept {
    const int64_t wanted = tasks_a_thread * threads, matrices = std::max<int64_t>(form_.matrices(), 1);
    const int64_t cuts = threads > 1 ? (wanted + matrices - 1) / matrices : 1;
    const int64_t blocks = (form_.keys + most_keys - 1) / most_keys;
    return std::clamp<int64_t>(std::min(cuts, blocks), 1, most_pieces);
  }

  template <class Body>
  void each(const Run& run, int64_t tasks, Body&& body) const {
    run.team.run(slots_, 1, [&](uint64_t first, uint64_t end) {
      for (uint64_t slot = first; slot < end; ++slot) {
        T* const room = reinterpret_cast<T*>(run.at(rooms_) + slot * room_bytes());
        for (auto task = static_cast<int64_t>(slot); task < tasks; task += static_cast<int64_t>(slots_))
          body(room, task);
      }
    });
  }

  Prepared prepared(const Run& run, int64_t matrix, int64_t block) const noexcept {
    const auto index = static_cast<uint64_t>(matrix * blocks_ + block);
    return {reinterpret_cast<T*>(run.at(prepared_) + index * prepared_bytes()), form_.width};
  }
  uint32_t count_at(int64_t query) const noexcept {
    return static_cast<uint32_t>(std::min<int64_t>(queries, form_.queries - query));
  }
  // The rows of dq that a piece adds to.
  T* partial(const Run& run, int64_t piece, int64_t matrix) const noexcept {
    return reinterpret_cast<T*>(run.at(partial_)) +
           (piece * form_.matrices() + matrix) * form_.queries * padded_;
  }

  void turn(const Run& run, const HeadRows& from, int64_t matrix, int64_t query, double factor,
            T* to) const noexcept {
    if (count_at(query) < queries) std::memset(to, 0, static_cast<size_t>(form_.width) * queries * sizeof(T));
    form_.template loops<T>().turn(
        {.from = form_.template rows<const T>(run, from, matrix) + query * from.row,
         .from_row = from.row,
         .to = to,
         .to_row = queries,
         .rows = count_at(query),
         .columns = static_cast<uint32_t>(form_.width),
         .factor = static_cast<T>(factor),
         .factors = nullptr});
  }

  void prepare(const Run& run, T* room, int64_t task) const noexcept {
    const int64_t matrix = task / blocks_, query = task % blocks_ * queries;
    const Prepared to = prepared(run, matrix, task % blocks_);
    turn(run, o_.q, matrix, query, form_.scale * log2_e, to.query);
    turn(run, o_.dy, matrix, query, 1, to.slope);
    const T* const dy = form_.template rows<const T>(run, o_.dy, matrix) + query * o_.dy.row;
    const T* const y = form_.template rows<const T>(run, o_.y, matrix) + query * o_.y.row;
    std::fill_n(to.inner, queries, T(0));
    std::fill_n(to.norm, queries, std::numeric_limits<T>::infinity());
    for (uint32_t q = 0; q < count_at(query); ++q) {
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < form_.width; ++d) sum += dy[q * o_.dy.row + d] * y[q * o_.y.row + d];
      to.inner[q] = sum;
    }
    find_norms(run, room, matrix, query, to);
  }

  // log₂ Σ 2^score; ∞ where there is none, so that every share comes out 0. Logarithms are f32: f64 sums again.
  void find_norms(const Run& run, T* room, int64_t matrix, int64_t query, const Prepared& to) const noexcept {
    if constexpr (sizeof(T) == sizeof(float)) {
      const float* const log = form_.template rows<const float>(run, o_.log, matrix);
      for (uint32_t q = 0; q < count_at(query); ++q) {
        const float given = log[(query + q) * o_.log.row];
        if (given != -std::numeric_limits<float>::infinity()) to.norm[q] = given * static_cast<float>(log2_e);
      }
    } else {
      Softmax<T> softmax;
      begin(softmax);
      T* const scores = Room(room, padded_).scores;
      for (int64_t key = 0; key < form_.keys; key += most_keys) {
        const ScoreBlock<T> block = block_at(run, matrix, query, key, form_.keys, to);
        compute_scores(form_, block, scores);
        form_.template loops<T>().soften(scores, block.count, softmax);
      }
      for (uint32_t q = 0; q < count_at(query); ++q) {
        if (!sees_no_key(softmax, q)) to.norm[q] = softmax.largest[q] + std::log2(softmax.sum[q]);
      }
    }
  }

  ScoreBlock<T> block_at(const Run& run, int64_t matrix, int64_t query, int64_t key, int64_t end,
                         const Prepared& from) const noexcept {
    return {.turned = from.query,
            .keys = form_.template rows<const T>(run, o_.k, matrix) + key * o_.k.row,
            .key_row = o_.k.row,
            .mask = form_.template mask_rows<T>(run, matrix),
            .query = query,
            .key = key,
            .queries = count_at(query),
            .count = static_cast<uint32_t>(std::min<int64_t>(most_keys, end - key))};
  }

  // One head's keys, or a piece of them.
  void work(const Run& run, T* at, int64_t task) const noexcept {
    const Room room(at, padded_);
    const int64_t matrix = task / pieces_, piece = task % pieces_;
    const int64_t key_blocks = (form_.keys + most_keys - 1) / most_keys;
    const int64_t first = key_blocks * piece / pieces_ * most_keys;
    const int64_t end = std::min(form_.keys, key_blocks * (piece + 1) / pieces_ * most_keys);
    T* const dq = partial(run, piece, matrix);
    std::fill_n(dq, form_.queries * padded_, T(0));
    for (int64_t key = first; key < end; key += most_keys) {
      std::fill_n(room.dk, 2 * most_keys * padded_, T(0));
      for (int64_t block = form_.first_query(key) / queries; block < blocks_; ++block) {
        const Prepared with = prepared(run, matrix, block);
        meet(run, room, matrix, block_at(run, matrix, block * queries, key, end, with), with, dq);
      }
      const int64_t count = std::min<int64_t>(most_keys, end - key);
      write(run, o_.dk, matrix, key, count, room.dk);
      write(run, o_.dv, matrix, key, count, room.dv);
    }
  }

  // A block of keys and one of queries: what each adds to the other's gradient.
  void meet(const Run& run, const Room& room, int64_t matrix, const ScoreBlock<T>& block,
            const Prepared& with, T* dq) const noexcept {
    const AttentionLoops<T>& loops = form_.template loops<T>();
    const auto columns = static_cast<uint32_t>(padded_);
    compute_scores(form_, block, room.scores);
    // dy · vᵀ
    loops.multiply({.a = form_.template rows<const T>(run, o_.v, matrix) + block.key * o_.v.row,
                    .a_row = o_.v.row,
                    .a_depth = 1,
                    .b = with.slope,
                    .b_depth = queries,
                    .c = room.slopes,
                    .c_row = queries,
                    .rows = block.count,
                    .columns = queries,
                    .depth = static_cast<uint32_t>(form_.width),
                    .accumulate = false});
    loops.slope({.scores = room.scores,
                 .slopes = room.slopes,
                 .norm = with.norm,
                 .inner = with.inner,
                 .scale = static_cast<T>(form_.scale),
                 .keys = block.count});
    const auto add = [&](const T* of_keys, const HeadRows& of_queries, T* sums) {
      loops.multiply(
          {.a = of_keys,
           .a_row = queries,
           .a_depth = 1,
           .b = form_.template rows<const T>(run, of_queries, matrix) + block.query * of_queries.row,
           .b_depth = of_queries.row,
           .c = sums,
           .c_row = padded_,
           .rows = block.count,
           .columns = columns,
           .depth = block.queries,
           .accumulate = true});
    };
    add(room.scores, o_.dy, room.dv);
    add(room.slopes, o_.q, room.dk);
    loops.multiply({.a = room.slopes,
                    .a_row = 1,
                    .a_depth = queries,
                    .b = block.keys,
                    .b_depth = o_.k.row,
                    .c = dq + block.query * padded_,
                    .c_row = padded_,
                    .rows = block.queries,
                    .columns = columns,
                    .depth = block.count,
                    .accumulate = true});
  }

  void write(const Run& run, const HeadRows& to, int64_t matrix, int64_t first, int64_t count,
             const T* rows) const noexcept {
    if (!to.there()) return;
    T* const out = form_.template rows<T>(run, to, matrix) + first * to.row;
    for (int64_t i = 0; i < count; ++i) std::copy_n(rows + i * padded_, form_.width, out + i * to.row);
  }

  void gather(const Run& run, int64_t task) const noexcept {
    const int64_t matrix = task / blocks_, query = task % blocks_ * queries;
    T* const sum = partial(run, 0, matrix) + query * padded_;
    const int64_t elements = count_at(query) * padded_;
    for (int64_t piece = 1; piece < pieces_; ++piece) {
      const T* const more = partial(run, piece, matrix) + query * padded_;
      for (int64_t i = 0; i < elements; ++i) sum[i] += more[i];
    }
    write(run, o_.dq, matrix, query, count_at(query), sum);
  }

  AttentionForm form_;
  AttentionGradOperands o_;
  int64_t padded_, blocks_, pieces_;  // padded_: a row of whole vectors
  uint64_t slots_;
  Place prepared_, partial_, rooms_;
};

}  // namespace

template <class T>
std::unique_ptr<Step> attention_grad_step(const AttentionForm& form, const AttentionGradOperands& operands,
                                          Builder& builder, unsigned threads) {
  return std::make_unique<AttentionGradStep<T>>(form, operands, builder, threads);
}

template std::unique_ptr<Step> attention_grad_step<float>(const AttentionForm&, const AttentionGradOperands&,
                                                          Builder&, unsigned);
template std::unique_ptr<Step> attention_grad_step<double>(const AttentionForm&, const AttentionGradOperands&,
                                                           Builder&, unsigned);

}  // namespace tenon::cpu
