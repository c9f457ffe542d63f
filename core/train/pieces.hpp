// SPDX-License-Identifier: Apache-2.0
// pieces.hpp: sharded mode's updates: of the elements of each parameter that are this rank's, with states of as many.
//
// Invariant: an update of pieces gives each element the bits that an update of the whole parameter would. What all ranks have to know
// alike, a verdict on all gradients or their norm, is summed over ranks before anybody reads it.
#pragma once

#include "train/split.hpp"

#include <span>
#include <string>
#include <vector>

namespace tenon::train {

// Elements of a span, of `width` bytes each. [any-thread; does not block; cannot fail]
inline tn_span elements_of(tn_span whole, uint64_t first, uint64_t elements, uint64_t width) noexcept {
  whole.offset += first * width;
  whole.bytes = elements * width;
  return whole;
}

// Elements of a trained parameter, in the order in which they lie.
struct Piece {
  std::string param{};
  uint64_t first = 0, elements = 0;
  tn_span sum{}, place{};  // of their gradients and of themselves, on the device

  // What the updates call its gradients: the name of a whole sum, with the suffix.
  std::string gradient() const { return gradient_of(param) + suffix(); }
  // "/128-256", which the names of its values end with.
  std::string suffix() const { return "/" + std::to_string(first) + "-" + std::to_string(first + elements); }
};

// The communicator of sums inside of updates, as of those inside of forward and backward; 0 is that of gradients.
constexpr int64_t sums_inside = 1;

struct PieceUpdates {
  // A parameter of the whole updates. Of a weight, a state and a master each rank has pieces; others are as they were, and known to
  // all ranks, whether their pieces need them or not.
  struct Whole {
    std::string name{};
    TensorSpec spec{};
    bool is_cut = false;
  };
  // A parameter that is a piece of one, called whole + suffix; what renews the whole, with that suffix renews the piece.
  struct Leaf {
    std::string whole{};
    const Piece* piece = nullptr;  // of those given
  };
  passes::Rewritten work;
  std::vector<Whole> wholes{};  // in one order on all ranks
  std::vector<Leaf> leaves{};
};

// `updates` as `split` left them, of these pieces, which are all of this rank's, on `ranks` ranks. TN_UNSUPPORTED naming a node that is
// no update and does not go element by element. A rank without any piece may have no node left.
// [any-thread; does not block; may fail]
Result<PieceUpdates> update_pieces(const passes::Rewritten& updates, std::span<const Piece> pieces,
                                   uint32_t ranks);

}  // namespace tenon::train
