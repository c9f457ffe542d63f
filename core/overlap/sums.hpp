// SPDX-License-Identifier: Apache-2.0
// sums.hpp: sums that forward or backward needs from all ranks at once, on a stream and a communicator of their own.
//
// With each sum of a backward that sends, every rank tells how many buckets it has ready; the least of these is what all ranks
// launch before the next sum. Invariant: that number is the same on all ranks, so one order of launches is, too.
#pragma once

#include "overlap/lane.hpp"
#include "overlap/stage.hpp"

#include <tenon/timeline.hpp>

#include <optional>

namespace tenon::overlap {

class Sums {
 public:
  Sums() = default;
  // Splits `from`. `waits`: the host does, for each sum. [all ranks; blocks; may fail]
  static Result<Sums> open(Device& device, Communicator& from, const Timeline& timeline, bool waits);

  // `numbers` become their sums, after what is on `stream` by now; later work there finds them. `ready`: what is told beside
  // them; none: nothing is. [stream's thread; may block; may fail]
  Status launch(Stream& stream, const tn_span& numbers, DType dtype, std::optional<int32_t> ready);
  // The least of what all ranks told with the last sum: none when it is not there, or was asked for before. `now`: the host
  // waits for it. [stream's thread; may block; may fail]
  Result<std::optional<int32_t>> least(bool now);
  // What was told belongs to a backward that is over. [stream's thread; cannot fail]
  void forget() noexcept { pending_ = false; }
  // Sees out what is in flight. [stream's thread; blocks; may fail]
  Status sync() { return lane_.stream ? lane_.stream.sync() : Status(); }

 private:
  Status submit(const tn_span& numbers, DType dtype, std::optional<int32_t> ready);

  Lane lane_{};
  Timeline timeline_{};
  Buffer word_{};  // on the device
  Stage stage_{};  // an int32 on its way there, and one on its way back
  tn_span out_{}, in_{};
  Point there_{};  // the word is back
  bool pending_ = false, waits_ = false;
};

}  // namespace tenon::overlap
