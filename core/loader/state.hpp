// SPDX-License-Identifier: Apache-2.0
// state.hpp: what a loader and its batches hold together.
//
// Invariant: a slot is with the workers, with the feeder, sent, or held by one Batch; `held` says which are held. Memory goes
// back to the pool behind all that read it.
#pragma once

#include "loader/feeder.hpp"
#include "loader/prepare.hpp"
#include "loader/slots.hpp"

namespace tenon::loader {

// The threads, made anew by each seek.
struct Pipeline {
  ReadAhead ahead;
  Feeder feeder;

  Pipeline(Order order, uint64_t batch, Cursor from, uint32_t slots, std::span<const uint32_t> free,
           ReadAhead::Work work, Feeder::Send send)
      : ahead(std::move(order), batch, from, slots, free, std::move(work)),
        feeder(ahead, slots, std::move(send)) {}
  ~Pipeline() { ahead.stop(); }
};

}  // namespace tenon::loader

namespace tenon::detail {

struct LoaderState {
  LoaderState(Device where, Stream line, Dataset samples, LoaderOptions asked,
              std::optional<loader::Image> prepared);
  ~LoaderState();

  Status make_slots();
  // Begins to read at `from`, on slots that nobody holds. [one thread; may block; may fail]
  Status start(loader::Cursor from);
  // [one thread; blocks; cannot fail]
  void stop();
  // [any-thread; may block for a moment; cannot fail]
  void give_back(uint32_t slot, Status used);

  // Whether there can be a next batch. [one thread; may block for a moment; may fail]
  Status expect_batch() const;
  // The next one that was sent, now held; figures are kept. [one thread; blocks; may fail]
  Result<loader::Filled> take();

  // Work of the pipeline's threads.
  Status open_slot(uint32_t slot, const std::atomic<bool>& stopping);
  Status read(const loader::Place& place);
  Status send(const loader::Filled& filled);

  Device device;
  Stream copies;
  const Dataset dataset;
  const LoaderOptions options;
  const loader::Order order;
  const std::optional<loader::Image> image;
  const loader::Slots memory;
  loader::Prepare prepare;
  std::vector<loader::Slot> slots;

  mutable std::mutex mutex;
  std::unique_ptr<loader::Pipeline> pipeline;  // guarded; changed by the loader's thread alone
  std::vector<bool> held;                      // guarded, by slot
  Status lost;                                 // guarded: a batch was used on a stream that failed
  bool late = false;                           // the next batch was asked for before it was there
  bool fresh = true;                           // nothing was given out since `start`
  uint64_t began_ns = 0;                       // when the first batch was given out
  uint64_t read_before_ns = 0;                 // by pipelines before this one
  LoaderFigures figures{};
};

}  // namespace tenon::detail
