// SPDX-License-Identifier: Apache-2.0
// loader.cpp: the consumer's side, and what the threads behind it do.
#include <tenon/loader.hpp>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "loader/checks.hpp"
#include "loader/state.hpp"

#include <algorithm>
#include <exception>

namespace tenon {
namespace {

using loader::Cursor;
using loader::Filled;
using loader::Place;
using loader::Slot;

constexpr std::string_view batch_name = "batch";  // in timelines
// How long a worker waits for the device before it looks whether it is to stop.
constexpr Timeout patience = std::chrono::milliseconds(100);

// Waits to be done with as little as a look at `stopping` now and then.
Status reached(const Point& point, const std::atomic<bool>& stopping) {
  for (;;) {
    Status status = point.sync(patience);
    if (status.code() != TN_TIMEOUT || stopping) return status;
  }
}

// The user's function must not end a thread.
Status call(const Dataset::Read& read, uint64_t sample, Dataset::Bytes bytes) {
  try {
    return read(sample, bytes);
  } catch (const std::exception& thrown) {
    return Status(TN_INTERNAL, std::string("Dataset::read threw: ") + thrown.what());
  } catch (...) {
    return Status(TN_INTERNAL, "Dataset::read threw what is no std::exception");
  }
}

}  // namespace

namespace detail {

LoaderState::LoaderState(Device where, Stream line, Dataset samples, LoaderOptions asked,
                         std::optional<loader::Image> prepared)
    : device(std::move(where)),
      copies(std::move(line)),
      dataset(std::move(samples)),
      options(std::move(asked)),
      order(dataset.samples, options),
      image(std::move(prepared)),
      memory(dataset, options.batch, image),
      held(options.depth + 1) {}

// Memory is given back in the order of `copies`, so that has to stand behind every use.
LoaderState::~LoaderState() {
  stop();
  for (const Slot& slot : slots) {
    for (const Point& use : slot.uses) static_cast<void>(copies.wait(use).ok());
  }
}

Status LoaderState::make_slots() {
  slots.reserve(held.size());
  while (slots.size() < held.size()) {
    slots.push_back(TN_TRY(memory.make(device, copies, image)));
    slots.back().uses.reserve(8);
  }
  if (image) prepare = TN_TRY(loader::Prepare::make(device, copies, image->graph(), loader::Image::table));
  figures.launches = prepare.launches();
  return {};
}

Status LoaderState::start(Cursor from) {
  const std::lock_guard lock(mutex);
  std::vector<uint32_t> free;
  for (uint32_t slot = 0; slot < held.size(); ++slot) {
    if (!held[slot]) free.push_back(slot);
  }
  const auto open = [this](uint32_t slot, const std::atomic<bool>& stopping) {
    return open_slot(slot, stopping);
  };
  pipeline = std::make_unique<loader::Pipeline>(
      order, options.batch, from, static_cast<uint32_t>(held.size()), free,
      loader::ReadAhead::Work{.open = open, .read = [this](const Place& place) { return read(place); }},
      [this](const Filled& filled) { return send(filled); });
  lost = {};
  fresh = true;
  late = false;
  Status begun = pipeline->ahead.start(options.workers);
  if (begun.ok()) begun = pipeline->feeder.start();
  if (!begun.ok()) pipeline.reset();
  return begun;
}

void LoaderState::stop() {
  std::unique_ptr<loader::Pipeline> ending;
  {
    const std::lock_guard lock(mutex);
    ending = std::move(pipeline);
  }
  if (ending == nullptr) return;
  ending->ahead.stop();
  read_before_ns += ending->ahead.read_ns();
}

void LoaderState::give_back(uint32_t slot, Status used) {
  const std::lock_guard lock(mutex);
  held[slot] = false;
  if (!used.ok()) {
    lost = std::move(used);
  } else if (pipeline != nullptr) {
    pipeline->ahead.give_back(slot);
  }
}

Status LoaderState::expect_batch() const {
  const std::lock_guard lock(mutex);
  if (pipeline == nullptr)
    return Status(TN_INVALID, "loader: a seek failed, and nothing is read since: seek again");
  if (!lost.ok()) return Status(Error(lost.error()));
  if (std::ranges::find(held, false) != held.end()) return {};
  return Status(TN_INVALID,
                "loader: all " + std::to_string(held.size()) +
                    " batches are held: drop one that was used, or open the loader with a depth above " +
                    std::to_string(options.depth));
}

Result<Filled> LoaderState::take() {
  loader::Feeder& feeder = pipeline->feeder;
  const uint64_t asked_ns = base::now_ns();
  late = late || (!fresh && !feeder.ready());
  Timeline timeline = options.timeline;
  Filled filled;
  Status found = timeline.measure_host({.name = batch_name}, [&]() -> Status {
    filled = TN_TRY(feeder.next(options.timeout));
    return {};
  });
  const uint64_t given_ns = base::now_ns();
  if (late) figures.waited += Timeout(given_ns - asked_ns);
  TN_TRY(std::move(found));
  {
    const std::lock_guard lock(mutex);
    held[filled.slot] = true;
  }
  if (figures.batches == 0) began_ns = given_ns;
  ++figures.batches;
  figures.late += late;
  figures.lasted = Timeout(given_ns - began_ns);
  figures.bytes += memory.copied_bytes();
  fresh = late = false;
  return filled;
}

Status LoaderState::open_slot(uint32_t slot, const std::atomic<bool>& stopping) {
  return reached(slots[slot].copied, stopping);
}

Status LoaderState::read(const Place& place) {
  Slot& slot = slots[place.slot];
  const size_t tensors = dataset.tensors.size();
  const auto bytes = std::span(slot.samples).subspan(place.place * tensors, tensors);
  Status status = call(dataset.read, place.sample, bytes);
  if (!status.ok()) {
    Error error = status.error();
    error.message = "loader: sample " + std::to_string(place.sample) + ": " + error.message;
    return Status(std::move(error));
  }
  if (image) image->draw(slot.image, place.place, place.sample, place.epoch);
  return {};
}

Status LoaderState::send(const Filled& filled) {
  Slot& slot = slots[filled.slot];
  Timeline timeline = options.timeline;
  TN_TRY(timeline.measure(copies, {.kind = TraceKind::wait, .name = batch_name}, [&]() -> Status {
    for (const Point& use : slot.uses) TN_TRY(copies.wait(use));
    return {};
  }));
  slot.uses.clear();
  const Timeline::Work copy{.kind = TraceKind::copy, .name = batch_name, .bytes = slot.source.bytes};
  TN_TRY(timeline.measure(copies, copy, [&] { return copies.copy(slot.target, slot.source); }));
  slot.copied = TN_TRY(copies.record());
  slot.arrived = slot.copied;
  if (image) {
    TN_TRY(prepare.run(copies, slot.preparation, timeline));
    slot.arrived = TN_TRY(copies.record());
  }
  memory.shorten(slot, filled.share.filled);
  return {};
}

}  // namespace detail

Loader& Loader::operator=(Loader&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Loader::~Loader() {
  if (state_ != nullptr) state_->stop();
}

Result<Loader> Loader::open(Device& device, Dataset dataset, LoaderOptions options) {
  TN_TRY(loader::check(dataset, options));
  std::optional<loader::Image> image;
  if (options.image) image = TN_TRY(loader::Image::make(dataset, options));
  Stream copies = TN_TRY(device.stream({.name = "loader"}));
  auto state = std::make_shared<detail::LoaderState>(device, std::move(copies), std::move(dataset),
                                                     std::move(options), std::move(image));
  TN_TRY(state->make_slots());
  TN_TRY(state->start({}));
  return Loader(std::move(state));
}

Result<Batch> Loader::next(Stream& stream) {
  TN_TRY(state_->expect_batch());
  const Filled filled = TN_TRY(state_->take());
  Batch batch;
  batch.loader_ = state_;
  batch.stream_ = stream;
  batch.slot_ = filled.slot;
  batch.epoch_ = filled.at.epoch;
  batch.step_ = filled.at.step;
  batch.samples_ = filled.share.real;
  Timeline timeline = state_->options.timeline;
  TN_TRY(timeline.measure(stream, {.kind = TraceKind::wait, .name = batch_name},
                          [&] { return stream.wait(state_->slots[filled.slot].arrived); }));
  return batch;
}

Status Loader::seek(uint64_t epoch, uint64_t step) {
  if (step >= steps())
    return Status(TN_INVALID, "loader: there is no step " + std::to_string(step) + " in an epoch of " +
                                  base::counted(steps(), "step"));
  state_->stop();
  return state_->start({.epoch = epoch, .step = step});
}

uint64_t Loader::steps() const noexcept { return state_->order.steps(); }
uint64_t Loader::batch(uint64_t step) const noexcept { return state_->order.share(step).filled; }

std::span<const Dataset::Tensor> Loader::tensors() const noexcept { return state_->memory.shown(); }

LoaderFigures Loader::figures() const {
  LoaderFigures out = state_->figures;
  const std::lock_guard lock(state_->mutex);
  const uint64_t now = state_->pipeline != nullptr ? state_->pipeline->ahead.read_ns() : 0;
  out.read = Timeout(state_->read_before_ns + now);
  return out;
}

}  // namespace tenon
