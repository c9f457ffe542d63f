// SPDX-License-Identifier: Apache-2.0
// batch.cpp: a slot in the consumer's hands.
#include "loader/state.hpp"

namespace tenon {

Batch::Batch(Batch&& other) noexcept
    : loader_(std::move(other.loader_)),
      stream_(std::move(other.stream_)),
      slot_(other.slot_),
      epoch_(other.epoch_),
      step_(other.step_),
      samples_(other.samples_) {}

Batch& Batch::operator=(Batch&& other) noexcept {
  std::swap(loader_, other.loader_);
  std::swap(stream_, other.stream_);
  std::swap(slot_, other.slot_);
  std::swap(epoch_, other.epoch_);
  std::swap(step_, other.step_);
  std::swap(samples_, other.samples_);
  return *this;
}

// A failure to give back is told by the loader's next().
Batch::~Batch() { static_cast<void>(done().ok()); }

std::span<const Batch::Tensor> Batch::tensors() const noexcept {
  if (loader_ == nullptr) return {};
  return loader_->slots[slot_].tensors;
}

std::span<const Binding> Batch::bindings() const noexcept {
  if (loader_ == nullptr) return {};
  return loader_->slots[slot_].bindings;
}

Status Batch::used_on(Stream& stream) {
  if (loader_ == nullptr) return Status(TN_INVALID, "loader: an empty batch is used on no stream");
  Point point = TN_TRY(stream.record());
  loader_->slots[slot_].uses.push_back(std::move(point));
  return {};
}

Status Batch::done() {
  if (loader_ == nullptr) return {};
  const auto loader = std::exchange(loader_, nullptr);
  auto point = stream_.record();
  stream_ = {};
  if (point.ok()) {
    loader->slots[slot_].uses.push_back(std::move(point).take());
    loader->give_back(slot_, {});
    return {};
  }
  const Error error = point.error();
  loader->give_back(slot_, Status(Error(error)));
  return Status(Error(error));
}

}  // namespace tenon
