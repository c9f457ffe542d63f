// SPDX-License-Identifier: Apache-2.0
// arena.cpp: slots and views.
#include "overlap/arena.hpp"

#include <algorithm>
#include <limits>

namespace tenon::overlap {
namespace {

// One view for each element type. What goes on from the bucket before has to come first, what goes on in the next last.
std::vector<Piece> in_order_of_types(std::span<const Piece> pieces) {
  std::vector<Piece> out(pieces.begin(), pieces.end());
  const auto same_type = [&](const Piece& piece) { return piece.dtype == out.front().dtype; };
  if (std::all_of(out.begin(), out.end(), same_type)) return out;
  const Piece front = out.front(), back = out.back();
  const bool goes_on = !back.last;
  constexpr uint32_t before_all = 0, with_front = 1, types = 2, with_back = UINT32_MAX - 1,
                     after_all = UINT32_MAX;
  const auto place = [&](const Piece& piece) {
    if (front.first > 0 && piece.gradient == front.gradient) return before_all;
    if (goes_on && piece.gradient == back.gradient) return after_all;
    if (piece.dtype == front.dtype) return with_front;
    return piece.dtype == back.dtype && goes_on ? with_back : types + static_cast<uint32_t>(piece.dtype);
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const Piece& a, const Piece& b) { return place(a) < place(b); });
  return out;
}

class Placer {
 public:
  Placer(size_t gradients, uint64_t alignment, uint32_t shards) : alignment_(alignment), shards_(shards) {
    out_.arena.slots.resize(gradients);
  }

  void add(std::span<const Piece> pieces) {
    Bucket bucket;
    bucket.needed_ns = std::numeric_limits<double>::infinity();
    for (const Piece& piece : in_order_of_types(pieces)) {
      if (bucket.views.empty() || bucket.views.back().dtype != piece.dtype) open_view(bucket, piece.dtype);
      bucket.members.push_back(
          {.gradient = piece.gradient, .offset = at_, .first = piece.first, .bytes = piece.bytes});
      Arena::Slot& slot = out_.arena.slots[piece.gradient];
      if (piece.first == 0) slot.offset = at_;
      slot.bytes += piece.bytes;
      held_ += piece.bytes;
      at_ += piece.slot;
      bucket.needed_ns = std::min(bucket.needed_ns, piece.needed);
    }
    close_view(bucket);
    out_.buckets.push_back(std::move(bucket));
  }

  Placed finish(const CommTail& tail) {
    out_.tail = tail;
    out_.tail.offset = at_;
    out_.arena.gap_bytes = at_ - held_;
    out_.arena.bytes = rounded_up(at_ + tail.bytes, alignment_);
    return std::move(out_);
  }

 private:
  void open_view(Bucket& bucket, DType dtype) {
    close_view(bucket);
    bucket.views.push_back({.dtype = dtype, .offset = at_, .whole = shards_ <= 1});
  }

  void close_view(Bucket& bucket) {
    if (bucket.views.empty()) return;
    BucketView& view = bucket.views.back();
    if (shards_ > 1) at_ = view.offset + rounded_up(at_ - view.offset, alignment_ * shards_);
    view.bytes = at_ - view.offset;
    bucket.bytes += view.bytes;
  }

  uint64_t alignment_;
  uint32_t shards_;
  uint64_t at_ = 0, held_ = 0;
  Placed out_{};
};

}  // namespace

Placed place(std::span<const Piece> pieces, const Cuts& cuts, size_t gradients, uint64_t alignment,
             uint32_t shards, const CommTail& tail) {
  Placer placer(gradients, alignment, shards);
  uint32_t begin = 0;
  for (const uint32_t end : cuts) {
    placer.add(pieces.subspan(begin, end - begin));
    begin = end;
  }
  return placer.finish(tail);
}

void add_tail(Bucket& bucket, const CommTail& tail) {
  bucket.bytes += tail.bytes;
  if (!bucket.views.empty()) {
    BucketView& last = bucket.views.back();
    if (last.whole && last.dtype == f32 && last.offset + last.bytes == tail.offset) {
      last.bytes += tail.bytes;
      return;
    }
  }
  bucket.views.push_back({.dtype = f32, .offset = tail.offset, .bytes = tail.bytes});
}

}  // namespace tenon::overlap
