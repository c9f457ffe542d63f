// SPDX-License-Identifier: Apache-2.0
// slots.hpp: the memory of batches: for each slot a block of the host's, and one of the device's.
//
// The host's block holds all samples of each tensor, one tensor after the other, so a batch takes one copy; the device's has
// room behind that for the prepared images. All of it is made once.
// Invariant: where things lie is the same in every slot.
#pragma once

#include "loader/image.hpp"
#include "overlap/stage.hpp"

#include <optional>
#include <vector>

namespace tenon::loader {

struct Slot {
  overlap::Stage host{};
  Buffer device{};
  std::vector<std::span<std::byte>> samples{};  // on the host: of each place, each tensor
  Image::Inputs image{};
  tn_span source{}, target{};            // of the copy
  std::vector<Binding> preparation{};    // of Prepare::run
  std::vector<Batch::Tensor> tensors{};  // what a batch shows
  std::vector<Binding> bindings{};
  Point copied{};  // the host's block may be written to from here on
  Point arrived{};
  // Uses by the consumer that end later than this; the device's block may be written to behind them.
  std::vector<Point> uses{};
};

class Slots {
 public:
  // What each slot holds. [any-thread; does not block; cannot fail]
  Slots(const Dataset& dataset, uint64_t batch, const std::optional<Image>& image);

  // TN_NO_MEMORY. [stream's thread; may block; may fail]
  Result<Slot> make(Device& device, Stream& stream, const std::optional<Image>& image) const;
  // Shortens what the slot shows to `samples`. [one thread; does not block; cannot fail]
  void shorten(Slot& slot, uint64_t samples) const noexcept;

  // What a batch shows at its fullest, with no memory behind it. [any-thread; does not block; cannot fail]
  std::span<const Dataset::Tensor> shown() const noexcept { return shown_; }
  uint64_t copied_bytes() const noexcept { return copied_; }
  uint64_t device_bytes() const noexcept { return device_; }

 private:
  struct Part {
    uint64_t at = 0, bytes = 0;
  };
  Part append(uint64_t bytes) noexcept;
  void point_out(Slot& slot) const;

  uint64_t batch_;
  std::vector<Part> parts_{};     // on the host and on the device, by tensor
  std::vector<uint64_t> each_{};  // bytes of one sample, by tensor
  Part rows_{}, columns_{}, image_{};
  std::optional<size_t> replaced_{};  // the tensor that `image_` stands for
  std::vector<Dataset::Tensor> shown_{};
  uint64_t copied_ = 0, device_ = 0;
};

}  // namespace tenon::loader
