// SPDX-License-Identifier: Apache-2.0
// feeder.hpp: the one thread that sends filled batches to the device, and the queue behind it that the consumer takes from.
//
// Invariant: batches come out in the order of steps, and a failure after all that came before it.
#pragma once

#include "loader/read_ahead.hpp"

namespace tenon::loader {

class Feeder {
 public:
  // Enqueues what brings a batch to the device, on the stream that is this thread's alone.
  using Send = std::function<Status(const Filled&)>;

  // `source` was started, and lives longer. Starts no thread.
  Feeder(ReadAhead& source, uint32_t slots, Send send);
  Feeder(const Feeder&) = delete;
  Feeder& operator=(const Feeder&) = delete;
  // After source.stop(). [one thread; may block; cannot fail]
  ~Feeder();

  // TN_NO_MEMORY when the system has no thread. [one thread; may block; may fail]
  Status start();
  // The next batch that was sent. TN_TIMEOUT with how far it is; the failure of reading or sending, at each call again.
  // [one thread; blocks; may fail]
  Result<Filled> next(Timeout timeout);
  // Whether `next` would not block. [one thread; may block for a moment; cannot fail]
  bool ready() const;

 private:
  void run();

  ReadAhead& source_;
  const Send send_;
  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  std::vector<Filled> sent_;
  Status failure_{};
  std::thread thread_;
};

}  // namespace tenon::loader
