// SPDX-License-Identifier: Apache-2.0
// slots.cpp: see slots.hpp.
#include "loader/slots.hpp"

namespace tenon::loader {
namespace {

// Of each part, as much as any device's kernels like.
constexpr uint64_t alignment = 256;

tn_span part_of(const tn_span& block, uint64_t at, uint64_t bytes) noexcept {
  tn_span out = block;
  out.offset += at;
  out.bytes = bytes;
  return out;
}

TensorSpec batch_of(TensorSpec sample, uint64_t batch) {
  sample.dims.insert(sample.dims.begin(), static_cast<int64_t>(batch));
  return sample;
}

}  // namespace

Slots::Part Slots::append(uint64_t bytes) noexcept {
  const Part out{.at = device_, .bytes = bytes};
  device_ = (device_ + bytes + alignment - 1) / alignment * alignment;
  return out;
}

Slots::Slots(const Dataset& dataset, uint64_t batch, const std::optional<Image>& image) : batch_(batch) {
  if (image) replaced_ = image->tensor();
  for (size_t i = 0; i < dataset.tensors.size(); ++i) {
    const Dataset::Tensor& tensor = dataset.tensors[i];
    each_.push_back(tensor.spec.bytes());
    parts_.push_back(append(replaced_ == i ? image->pixel_bytes() : batch * each_.back()));
    shown_.push_back({tensor.name, replaced_ == i ? image->output() : batch_of(tensor.spec, batch)});
  }
  if (image) {
    rows_ = append(image->row_bytes());
    columns_ = append(image->column_bytes());
  }
  copied_ = device_;
  if (image) image_ = append(image->output().bytes());
}

Result<Slot> Slots::make(Device& device, Stream& stream, const std::optional<Image>& image) const {
  Slot slot;
  slot.device = TN_TRY(device.allocate(stream, device_));
  slot.host = TN_TRY(overlap::Stage::open(device, stream, copied_));
  slot.source = TN_TRY(slot.host.span(0, copied_));
  slot.target = TN_TRY(slot.device.slice(0, copied_));
  std::byte* const host = slot.host.data();
  for (uint64_t place = 0; place < batch_; ++place) {
    for (size_t i = 0; i < parts_.size(); ++i)
      slot.samples.emplace_back(host + parts_[i].at + place * each_[i], each_[i]);
  }
  point_out(slot);
  if (!image) return slot;
  slot.image = {.pixels = host + parts_[*replaced_].at,
                .rows = reinterpret_cast<int32_t*>(host + rows_.at),
                .columns = reinterpret_cast<int32_t*>(host + columns_.at)};
  image->prepare(slot.image);
  return slot;
}

void Slots::point_out(Slot& slot) const {
  const tn_span block = slot.device.span();
  const auto on_device = [&](const Part& part) { return part_of(block, part.at, part.bytes); };
  for (size_t i = 0; i < parts_.size(); ++i) {
    const tn_span span = on_device(replaced_ == i ? image_ : parts_[i]);
    slot.tensors.push_back({shown_[i].name, shown_[i].spec, span});
    slot.bindings.push_back({shown_[i].name, span});
  }
  if (!replaced_) return;
  slot.preparation.push_back({"pixels", on_device(parts_[*replaced_])});
  if (rows_.bytes != 0) {
    slot.preparation.push_back({"rows", on_device(rows_)});
    slot.preparation.push_back({"columns", on_device(columns_)});
  }
  slot.preparation.push_back({"image", on_device(image_)});
}

void Slots::shorten(Slot& slot, uint64_t samples) const noexcept {
  for (size_t i = 0; i < slot.tensors.size(); ++i) {
    Batch::Tensor& tensor = slot.tensors[i];
    const uint64_t whole = replaced_ == i ? image_.bytes : parts_[i].bytes;
    tensor.spec.dims.front() = static_cast<int64_t>(samples);
    tensor.span.bytes = whole / batch_ * samples;
    slot.bindings[i].span = tensor.span;
  }
}

}  // namespace tenon::loader
