// SPDX-License-Identifier: Apache-2.0
// copy.cpp: copies, plain and strided.
//
// Invariant: what is plainly wrong (sizes that differ, ranges that overlap, a box outside its span) is refused here, with
// the values, before the plugin sees it.
#include "runtime/device_state.hpp"
#include "runtime/stage.hpp"

#include <array>

namespace tenon {
namespace {

std::string text(const tn_span& span) {
  std::string range = "[";
  range.append(std::to_string(span.offset))
      .append(", ")
      .append(std::to_string(span.offset + span.bytes))
      .append(")");
  if (span.space == TN_SPACE_MEMORY) return range + " of one memory";
  return range + (span.space == TN_SPACE_HOST_ADDRESS ? " of the host" : " of the device");
}

bool overlap(const tn_span& a, const tn_span& b) noexcept {
  if (a.space != b.space || (a.space == TN_SPACE_MEMORY && a.memory != b.memory)) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

Status check(const Stream& stream, const tn_span& destination, const tn_span& source) {
  const auto wrong = [&](std::string what) {
    return Status(TN_INVALID, "copy on stream '" + std::string(stream.name()) + "': " + std::move(what));
  };
  if (destination.bytes != source.bytes)
    return wrong("the source has " + std::to_string(source.bytes) + " bytes, the destination " +
                 std::to_string(destination.bytes) + ": make both spans equal");
  if (source.bytes != 0 && overlap(destination, source))
    return wrong("the source " + text(source) + " overlaps the destination " + text(destination) +
                 ": copy through a third buffer");
  return {};
}

// Bytes from the first to past the last of a box.
uint64_t extent(const tn_copy_shape& shape, const uint64_t (&stride)[4]) noexcept {
  uint64_t bytes = shape.extent[shape.rank - 1];
  for (uint32_t i = 0; i + 1 < shape.rank; ++i) bytes += (shape.extent[i] - 1) * stride[i];
  return bytes;
}

bool empty(const tn_copy_shape& shape) noexcept {
  for (uint32_t i = 0; i < shape.rank; ++i)
    if (shape.extent[i] == 0) return true;
  return false;
}

Status check_box(const Stream& stream, const tn_span& destination, const tn_span& source,
                 const tn_copy_shape& shape) {
  const auto wrong = [&](std::string what) {
    return Status(TN_INVALID,
                  "strided copy on stream '" + std::string(stream.name()) + "': " + std::move(what));
  };
  if (shape.rank == 0 || shape.rank > 4)
    return wrong("rank " + std::to_string(shape.rank) + " is not 1 to 4");
  if (shape.dst_stride[shape.rank - 1] != 1 || shape.src_stride[shape.rank - 1] != 1)
    return wrong("the last dimension counts bytes, so its strides must be 1");
  if (empty(shape)) return {};
  const auto outside = [&](const char* side, uint64_t needs, uint64_t has) {
    return wrong("the box takes " + std::to_string(needs) + " bytes of a " + side + " of " +
                 std::to_string(has));
  };
  const uint64_t to = extent(shape, shape.dst_stride), from = extent(shape, shape.src_stride);
  if (to > destination.bytes) return outside("destination", to, destination.bytes);
  if (from > source.bytes) return outside("source", from, source.bytes);
  return {};
}

Status copy_rows(Stream& stream, const tn_span& destination, const tn_span& source,
                 const tn_copy_shape& shape) {
  std::array<uint64_t, 3> at{};
  for (;;) {
    tn_span to = destination, from = source;
    to.bytes = from.bytes = shape.extent[shape.rank - 1];
    for (uint32_t i = 0; i + 1 < shape.rank; ++i) {
      to.offset += at[i] * shape.dst_stride[i];
      from.offset += at[i] * shape.src_stride[i];
    }
    TN_TRY(stream.copy(to, from));
    uint32_t dim = shape.rank - 1;
    while (dim > 0 && ++at[dim - 1] == shape.extent[dim - 1]) at[--dim] = 0;
    if (dim == 0) return {};
  }
}

}  // namespace

Status Stream::copy(const tn_span& destination, const tn_span& source) {
  if (!state_->healthy()) return detail::stream_poison(*state_);
  TN_TRY(check(*this, destination, source));
  if (source.bytes == 0) return {};
  state_->touch();
  tn_span to = destination, from = source;
  if (runtime::several_devices()) {
    runtime::Timeline& line = runtime::timeline_of(*this);
    const runtime::Side target = TN_TRY(runtime::side_of(line, destination));
    const runtime::Side origin = TN_TRY(runtime::side_of(line, source));
    if (target.foreign || origin.foreign || origin.rehoused)
      return runtime::carry_bytes(*this, target, origin);
    to = target.span;
    from = origin.span;
  }
  tn_error error = no_error();
  const int32_t code = state_->api->copy(state_->handle, &to, &from, &error);
  return code == TN_OK ? Status() : detail::stream_failure(*state_, code, error);
}

Status Stream::copy_strided(const tn_span& destination, const tn_span& source, const tn_copy_shape& shape) {
  if (!state_->healthy()) return detail::stream_poison(*state_);
  TN_TRY(check_box(*this, destination, source, shape));
  if (empty(shape)) return {};
  if (runtime::several_devices()) {
    runtime::Timeline& line = runtime::timeline_of(*this);
    const runtime::Side target = TN_TRY(runtime::side_of(line, destination));
    const runtime::Side origin = TN_TRY(runtime::side_of(line, source));
    if (target.foreign || target.rehoused || origin.foreign || origin.rehoused)
      return copy_rows(*this, destination, source, shape);
  }
  state_->touch();
  tn_error error = no_error();
  const int32_t code = state_->api->copy_strided(state_->handle, &destination, &source, &shape, &error);
  if (code == TN_UNSUPPORTED) return copy_rows(*this, destination, source, shape);
  return code == TN_OK ? Status() : detail::stream_failure(*state_, code, error);
}

}  // namespace tenon
