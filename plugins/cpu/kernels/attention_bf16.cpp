// SPDX-License-Identifier: Apache-2.0
// attention_bf16.cpp: a head's keys and values become tiles, then block after block of its queries is computed.
//
// Where there are as many heads as slots, a slot makes a head's tiles itself, in a room of its own, and meanwhile asks for the
// next head's rows: tiles stay in its cache. Fewer heads are packed by all slots together first, each once.
// Where there are no tile registers, vectors of pairs multiply the same tiles.
// Invariant: a slot's room is its own, and a worker holds tile registers only while it computes.
#include "attention_bf16.hpp"

#include "../driver.hpp"
#include "attention_slots.hpp"
#include "attention_tiles.hpp"
#include "half_rows.hpp"
#include "isa.hpp"

#include <limits>
#include <optional>

namespace tenon::cpu {

#if defined(__x86_64__)

namespace {

constexpr uint32_t most_keys = 256;  // of a block: scores and shares fit L1 and L2

class TilesStep final : public Step {
 public:
  TilesStep(const AttentionForm& form, const AttentionOperands& operands, Builder& builder, unsigned threads)
      : registers_(driver::has_bf16_tiles()),
        products_(registers_ ? tile_products() : pair_products()),
        form_(form),
        o_(operands),
        width_(whole_tiles(form.width)),
        keys_(whole_tiles(form.keys)),
        blocks_((form.queries + tile_queries - 1) / tile_queries),
        slots_(
            attention_slots(static_cast<uint64_t>(std::max<int64_t>(tasks(), packs())), products(), threads)),
        shares_heads_(static_cast<uint64_t>(form.matrices()) < slots_),
        heads_(builder.scratch((shares_heads_ ? static_cast<uint64_t>(form.matrices()) : slots_) *
                               head_bytes())),
        rooms_(builder.scratch(slots_ * room_bytes())) {}

  std::string engine() const override { return registers_ ? "attention:amx" : "attention:bf16"; }

  Status run(const Run& run) const override {
    if (shares_heads_) {
      run.team.run(slots_, 1, [&](uint64_t first, uint64_t end) {
        for (uint64_t slot = first; slot < end; ++slot) pack_share(run, slot);
      });
    }
    run.team.run(slots_, 1, [&](uint64_t first, uint64_t end) {
      std::optional<ThreadTiles> tiles;
      if (registers_) tiles.emplace();
      for (uint64_t slot = first; slot < end; ++slot) take(run, slot);
    });
    return {};
  }

 private:
  struct Room {
    float *scores, *sums, *rows;  // [keys][queries], [width][queries], [queries][width]
    BF16 *queries, *shares;       // tiles
    Room(std::byte* at, uint32_t width)
        : scores(reinterpret_cast<float*>(at)),
          sums(scores + most_keys * tile_queries),
          rows(sums + width * tile_queries),
          queries(reinterpret_cast<BF16*>(rows + width * tile_queries)),
          shares(queries + width * tile_queries) {}
  };
  // Tiles of all keys of a head.
  struct Head {
    BF16 *keys, *values;
  };

  int64_t tasks() const noexcept { return form_.matrices() * blocks_; }
  int64_t packs() const noexcept { return form_.matrices() * (keys_ / tile_depth); }
  uint64_t head_bytes() const noexcept { return 2 * sizeof(BF16) * uint64_t{keys_} * width_; }
  uint64_t room_bytes() const noexcept {
    constexpr uint64_t of_keys = sizeof(float) + sizeof(BF16), of_width = 2 * sizeof(float) + sizeof(BF16);
    return (most_keys * of_keys + width_ * of_width) * tile_queries;
  }
  // Tile registers multiply some eight times as fast as vectors of f32.
  double products() const noexcept {
    return (registers_ ? 0.25 : 1.0) * static_cast<double>(form_.matrices() * form_.queries) *
           static_cast<double>(form_.keys) * static_cast<double>(form_.width);
  }

  Head head(const Run& run, uint64_t place) const noexcept {
    auto* const keys = reinterpret_cast<BF16*>(run.at(heads_) + place * head_bytes());
    return {keys, keys + size_t{keys_} * width_};
  }

  void pack_share(const Run& run, uint64_t slot) const noexcept {
    const int64_t steps = keys_ / tile_depth;
    for (auto i = static_cast<int64_t>(slot); i < packs(); i += static_cast<int64_t>(slots_))
      pack(run, head(run, static_cast<uint64_t>(i / steps)), i / steps, i % steps * tile_depth);
  }

  void take(const Run& run, uint64_t slot) const noexcept {
    const Room room(run.at(rooms_) + slot * room_bytes(), width_);
    const SlotTasks tasks(form_, tile_queries, slot, slots_);
    for (int64_t task = tasks.first; task < tasks.end; ++task) {
      const SlotTasks::Task now = tasks.at(task);
      const Head tiles = head(run, shares_heads_ ? static_cast<uint64_t>(now.matrix) : slot);
      if (!shares_heads_ && (task == tasks.first || now.turn == 0)) {
        for (int64_t key = 0; key < form_.keys; key += tile_depth) pack(run, tiles, now.matrix, key);
      }
      prefetch_next<BF16>(
          form_, run, {&o_.q, shares_heads_ ? nullptr : &o_.k, shares_heads_ ? nullptr : &o_.v}, tasks, task);
      attend(run, room, tiles, now.matrix, now.query);
    }
  }

  TileRows source(const Run& run, const HeadRows& tensor, int64_t matrix, int64_t first,
                  int64_t end) const noexcept {
    return {.from = form_.rows<const BF16>(run, tensor, matrix) + first * tensor.row,
            .row = tensor.row,
            .rows = static_cast<uint32_t>(std::min<int64_t>(tile_depth, end - first)),
            .width = static_cast<uint32_t>(form_.width)};
  }

  void pack(const Run& run, const Head& tiles, int64_t matrix, int64_t key) const noexcept {
    pack_keys(source(run, o_.k, matrix, key, form_.keys), tiles.keys + key * width_);
    pack_values(source(run, o_.v, matrix, key, form_.keys), tiles.values + key * width_);
  }

  void attend(const Run& run, const Room& room, const Head& tiles, int64_t matrix,
              int64_t query) const noexcept {
    const auto count = static_cast<uint32_t>(std::min<int64_t>(tile_queries, form_.queries - query));
    pack_queries(source(run, o_.q, matrix, query, form_.queries), room.queries);
    Softmax<float> softmax;
    begin(softmax);
    const int64_t visible = form_.visible(query + count - 1);
    ScoreBlock<float> block{.turned = nullptr,
                            .keys = nullptr,
                            .key_row = 0,
                            .mask = form_.mask_rows<float>(run, matrix),
                            .query = query,
                            .key = 0,
                            .queries = count,
                            .count = 0};
    for (; block.key < visible; block.key += block.count) {
      block.count = static_cast<uint32_t>(std::min<int64_t>(most_keys, visible - block.key));
      const uint32_t whole = whole_tiles(block.count);
      products_.scores(tiles.keys + block.key * width_, room.queries, whole, width_, room.scores);
      const float scale = finish_scores(block, whole, room.scores);
      tile_soften(room.scores, whole, scale, softmax, room.shares);
      if (block.key > 0) form_.loops<float>().shrink(room.sums, width_, softmax);
      products_.sums(tiles.values + block.key * width_, room.shares, whole, width_, block.key > 0, room.sums);
    }
    if (visible == 0) std::fill_n(room.sums, width_ * tile_queries, 0.0f);
    finish(run, room, softmax, matrix, query, count);
  }

  // Masks what is masked, and hides the keys that only fill a tile. What is left to multiply by.
  float finish_scores(const ScoreBlock<float>& block, uint32_t whole, float* scores) const noexcept {
    auto scale = static_cast<float>(form_.scale * log2_e);
    const bool masks =
        block.mask != nullptr || (form_.causal && block.key + block.count > form_.visible(block.query));
    if (masks || !(scale > 0)) {
      for (uint32_t i = 0; i < block.count * tile_queries; ++i) scores[i] *= scale;
      scale = 1;
    }
    mask_scores(form_, block, scores);
    std::fill_n(scores + block.count * tile_queries, (whole - block.count) * tile_queries,
                -std::numeric_limits<float>::infinity());
    return scale;
  }

  void finish(const Run& run, const Room& room, const Softmax<float>& softmax, int64_t matrix, int64_t query,
              uint32_t count) const noexcept {
    alignas(64) float inverse[tile_queries];
    for (uint32_t q = 0; q < tile_queries; ++q) inverse[q] = inverse_sum(softmax, q);
    if (o_.y.there()) {
      form_.loops<float>().turn({.from = room.sums,
                                 .from_row = tile_queries,
                                 .to = room.rows,
                                 .to_row = width_,
                                 .rows = static_cast<uint32_t>(form_.width),
                                 .columns = count,
                                 .factor = 1,
                                 .factors = inverse});
      BF16* const y = form_.rows<BF16>(run, o_.y, matrix) + query * o_.y.row;
      const NarrowRow narrow = narrow_row(TN_DTYPE_bf16);
      for (uint32_t q = 0; q < count; ++q)
        narrow(room.rows + q * width_, y + q * o_.y.row, static_cast<uint64_t>(form_.width));
    }
    if (!o_.log.there()) return;
    float* const log = form_.rows<float>(run, o_.log, matrix);
    for (uint32_t q = 0; q < count; ++q) log[(query + q) * o_.log.row] = log_sum(softmax, q);
  }

  bool registers_;
  const TileProducts& products_;
  AttentionForm form_;
  AttentionOperands o_;
  uint32_t width_, keys_;  // of whole tiles
  int64_t blocks_;
  uint64_t slots_;
  bool shares_heads_;  // each is packed once, for all slots
  Place heads_, rooms_;
};

}  // namespace

bool multiplies_bf16() noexcept {
  return runs_avx512() && (driver::has_bf16_tiles() || driver::has_quick_bf16_pairs());
}

std::unique_ptr<Step> attention_tiles_step(const AttentionForm& form, const AttentionOperands& operands,
                                           Builder& builder, unsigned threads) {
  return std::make_unique<TilesStep>(form, operands, builder, threads);
}

#else

bool multiplies_bf16() noexcept { return false; }

std::unique_ptr<Step> attention_tiles_step(const AttentionForm& form, const AttentionOperands& operands,
                                           Builder& builder, unsigned threads) {
  return attention_step<float>(form, operands, builder, threads);  // never asked for: there are no tiles
}

#endif

}  // namespace tenon::cpu
