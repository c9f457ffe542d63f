// SPDX-License-Identifier: Apache-2.0
// attention_forward.cpp: one task is a block of queries of one head.
//
// Invariant: a slot's room is its own.
#include "attention_forward.hpp"

#include "attention_slots.hpp"

namespace tenon::cpu {
namespace {

constexpr uint32_t most_keys = 256;  // of a block: its scores fit L1

template <class T>
class AttentionStep final : public Step {
 public:
  AttentionStep(const AttentionForm& form, const AttentionOperands& operands, Builder& builder,
                unsigned threads)
      : form_(form),
        o_(operands),
        blocks_((form.queries + queries - 1) / queries),
        room_bytes_((2 * static_cast<uint64_t>(form.width) + most_keys) * queries * sizeof(T)),
        slots_(attention_slots(tasks(), products(), threads)),
        rooms_(builder.scratch(slots_ * room_bytes_)) {}

  std::string engine() const override { return "attention"; }

  Status run(const Run& run) const override {
    run.team.run(slots_, 1, [&](uint64_t first, uint64_t end) {
      for (uint64_t slot = first; slot < end; ++slot) {
        const Room room(reinterpret_cast<T*>(run.at(rooms_) + slot * room_bytes_), form_.width);
        const SlotTasks tasks(form_, queries, slot, slots_);
        for (int64_t task = tasks.first; task < tasks.end; ++task) {
          const SlotTasks::Task now = tasks.at(task);
          prefetch_next<T>(form_, run, {&o_.q, &o_.k, &o_.v}, tasks, task);
          attend(run, room, now.matrix, now.query);
        }
      }
    });
    return {};
  }

 private:
  static constexpr uint32_t queries = queries_of<T>;
  struct Room {
    T *turned, *sums, *scores;  // [width][queries] twice, [keys][queries]
    Room(T* at, int64_t width) : turned(at), sums(at + width * queries), scores(sums + width * queries) {}
  };

  uint64_t tasks() const noexcept { return static_cast<uint64_t>(form_.matrices() * blocks_); }
  double products() const noexcept {
    return 2.0 * static_cast<double>(form_.matrices() * form_.queries) * static_cast<double>(form_.keys) *
           static_cast<double>(form_.width);
  }

  void attend(const Run& run, const Room& room, int64_t matrix, int64_t query) const noexcept {
    const auto count = static_cast<uint32_t>(std::min<int64_t>(queries, form_.queries - query));
    const AttentionLoops<T>& loops = form_.template loops<T>();
    const auto width = static_cast<uint32_t>(form_.width);
    if (count < queries) std::memset(room.turned, 0, width * queries * sizeof(T));
    loops.turn({.from = form_.template rows<const T>(run, o_.q, matrix) + query * o_.q.row,
                .from_row = o_.q.row,
                .to = room.turned,
                .to_row = queries,
                .rows = count,
                .columns = width,
                .factor = static_cast<T>(form_.scale * log2_e),
                .factors = nullptr});
    Softmax<T> softmax;
    begin(softmax);
    const int64_t visible = form_.visible(query + count - 1);
    ScoreBlock<T> block{.turned = room.turned,
                        .keys = nullptr,
                        .key_row = o_.k.row,
                        .mask = form_.template mask_rows<T>(run, matrix),
                        .query = query,
                        .key = 0,
                        .queries = count,
                        .count = 0};
    for (; block.key < visible; block.key += block.count) {
      block.count = static_cast<uint32_t>(std::min<int64_t>(most_keys, visible - block.key));
      block.keys = form_.template rows<const T>(run, o_.k, matrix) + block.key * o_.k.row;
      compute_scores(form_, block, room.scores);
      loops.soften(room.scores, block.count, softmax);
      if (block.key > 0) loops.shrink(room.sums, width, softmax);
      // vᵀ · shares
      loops.multiply({.a = form_.template rows<const T>(run, o_.v, matrix) + block.key * o_.v.row,
                      .a_row = 1,
                      .a_depth = o_.v.row,
                      .b = room.scores,
                      .b_depth = queries,
                      .c = room.sums,
                      .c_row = queries,
                      .rows = width,
                      .columns = queries,
                      .depth = block.count,
                      .accumulate = block.key > 0});
    }
    if (visible == 0) std::memset(room.sums, 0, width * queries * sizeof(T));
    finish(run, room, softmax, matrix, query, count);
  }

  void finish(const Run& run, const Room& room, const Softmax<T>& softmax, int64_t matrix, int64_t query,
              uint32_t count) const noexcept {
    alignas(64) T inverse[queries];
    for (uint32_t q = 0; q < queries; ++q) inverse[q] = inverse_sum(softmax, q);
    if (o_.y.there()) {
      form_.template loops<T>().turn({.from = room.sums,
                                      .from_row = queries,
                                      .to = form_.template rows<T>(run, o_.y, matrix) + query * o_.y.row,
                                      .to_row = o_.y.row,
                                      .rows = static_cast<uint32_t>(form_.width),
                                      .columns = count,
                                      .factor = 1,
                                      .factors = inverse});
    }
    if (!o_.log.there()) return;
    float* const log = form_.template rows<float>(run, o_.log, matrix);
    for (uint32_t q = 0; q < count; ++q) log[(query + q) * o_.log.row] = log_sum(softmax, q);
  }

  AttentionForm form_;
  AttentionOperands o_;
  int64_t blocks_;
  uint64_t room_bytes_, slots_;
  Place rooms_;
};

}  // namespace

template <class T>
std::unique_ptr<Step> attention_step(const AttentionForm& form, const AttentionOperands& operands,
                                     Builder& builder, unsigned threads) {
  return std::make_unique<AttentionStep<T>>(form, operands, builder, threads);
}

template std::unique_ptr<Step> attention_step<float>(const AttentionForm&, const AttentionOperands&, Builder&,
                                                     unsigned);
template std::unique_ptr<Step> attention_step<double>(const AttentionForm&, const AttentionOperands&,
                                                      Builder&, unsigned);

}  // namespace tenon::cpu
