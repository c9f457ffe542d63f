// SPDX-License-Identifier: Apache-2.0
// clock.hpp: device time in nanoseconds, from events that only know how far apart two of them are.
//
// The driver gives distances as a float of milliseconds, which after a minute is good to 4 µs only. So the origin moves
// on every few seconds, and what it moved is added up in double.
// Invariant: a time is counted from the first origin of its device, whatever origin it was measured from.
#pragma once

#include "events.hpp"

#include <chrono>
#include <memory>
#include <mutex>

namespace tenon::cuda {

class Context;

class Clock {
 public:
  struct Origin {
    EventRef event;
    double ns = 0;  // since the first origin
  };

  // The origin to measure an event from that is recorded next. The context is current.
  // [any-thread; may block for the time of one empty record; may fail]
  Result<std::shared_ptr<const Origin>> origin(Context& context);
  // The time of an event that is complete and was recorded after `from`. [any-thread; does not block; may fail]
  static Result<uint64_t> time(const Context& context, const Origin& from, const EventRef& event);
  // Gives back what it holds; the context is current.
  void close(Context& context) noexcept;

 private:
  static constexpr std::chrono::seconds lasts{4};

  std::mutex mutex_;
  CUstream stream_ = nullptr;  // for origins only, so that no work stands before them
  std::shared_ptr<const Origin> newest_{};
  std::chrono::steady_clock::time_point made_{};
};

}  // namespace tenon::cuda
