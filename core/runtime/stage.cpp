// SPDX-License-Identifier: Apache-2.0
// stage.cpp: the host as carrier between devices; see stage.hpp.
//
// Invariant: a device's helper stream is used by one copy at a time and is idle afterwards.
#include "runtime/stage.hpp"

#include "runtime/device_state.hpp"

#include <algorithm>
#include <vector>

namespace tenon::runtime {
namespace {

constexpr uint64_t piece_bytes = 4u << 20;

tn_span part(tn_span span, uint64_t offset, uint64_t bytes) noexcept {
  span.offset += offset;
  span.bytes = bytes;
  return span;
}

bool direct(const Timeline& line, const detail::DeviceState& home) {
  if (line.plugin != home.plugin) return false;
  if (line.device->handle == home.handle) return true;
  uint32_t reaches = 0;
  return line.plugin->device->peer(line.device->handle, home.handle, &reaches, nullptr) == TN_OK &&
         reaches != 0;
}

// One copy on the helper stream of `home`, complete on return.
Status copy_there(detail::DeviceState& home, const tn_span& destination, const tn_span& source) {
  const std::lock_guard lock(home.staging_mutex);
  const tn_stream_api& api = *home.plugin->stream;
  tn_error error = no_error();
  if (home.staging == nullptr) {
    const tn_stream_options options{
        .size = sizeof(tn_stream_options), .priority = 0, .name = "copies by the host", .next = nullptr};
    TN_TRY(status_of(api.create(home.handle, &options, &home.staging, &error), error));
  }
  uint64_t value = 0;
  int32_t code = api.copy(home.staging, &destination, &source, &error);
  if (code == TN_OK) code = api.record(home.staging, 0, &value, &error);
  if (code == TN_OK) code = api.sync(home.staging, value, TN_TIMEOUT_NEVER, &error);
  if (code == TN_OK) return {};
  api.destroy(std::exchange(home.staging, nullptr), TN_DESTROY_ABANDON, nullptr);
  return status_of(code, error);
}

Status copy_here(Stream& stream, const tn_span& destination, const tn_span& source) {
  tn_error error = no_error();
  detail::StreamState& line = *stream.state();
  const int32_t code = line.api->copy(line.handle, &destination, &source, &error);
  return code == TN_OK ? Status() : detail::stream_failure(line, code, error);
}

}  // namespace

Result<Side> side_of(Timeline& line, const tn_span& span) {
  Side side{.span = span};
  if (span.space != TN_SPACE_MEMORY) return side;
  std::shared_ptr<detail::DeviceState> home = home_of(span.memory, *line.device);
  if (home == nullptr || home == line.device || direct(line, *home)) return side;
  uint64_t address = 0;
  const bool host = (home->plugin->features & TN_FEATURE_HOST_MEMORY) != 0 ||
                    home->pools[TN_MEMORY_HOST]->owns(span.memory) ||
                    home->pools[TN_MEMORY_MANAGED]->owns(span.memory);
  if (host && home->plugin->device->address(span.memory, &address, nullptr) == TN_OK) {
    side.span = tn_span{nullptr, address + span.offset, span.bytes, TN_SPACE_HOST_ADDRESS, 0};
    side.rehoused = true;
  } else {
    side.foreign = std::move(home);
  }
  return side;
}

Status check_home(const Timeline& line, const tn_span& span, std::string_view what) {
  if (span.space != TN_SPACE_MEMORY) return {};
  const std::shared_ptr<detail::DeviceState> home = home_of(span.memory, *line.device);
  if (home == nullptr || home == line.device || direct(line, *home)) return {};
  return Status(TN_INVALID, std::string(what) + " lies in memory of device '" + home->name +
                                "', which work on device '" + line.device->name +
                                "' does not reach: copy it there first");
}

Status carry_bytes(Stream& stream, const Side& destination, const Side& source) {
  TN_TRY(stream.sync());
  if (!destination.foreign && !source.foreign) return copy_here(stream, destination.span, source.span);
  const uint64_t bytes = source.span.bytes;
  std::vector<std::byte> piece(std::min(bytes, piece_bytes));
  for (uint64_t at = 0; at < bytes; at += piece.size()) {
    const uint64_t size = std::min<uint64_t>(piece.size(), bytes - at);
    const tn_span host = Stream::host_span(piece.data(), size);
    const tn_span from = part(source.span, at, size), to = part(destination.span, at, size);
    if (source.foreign) {
      TN_TRY(copy_there(*source.foreign, host, from));
    } else {
      TN_TRY(copy_here(stream, host, from));
      TN_TRY(stream.sync());
    }
    if (destination.foreign) {
      TN_TRY(copy_there(*destination.foreign, to, host));
    } else {
      TN_TRY(copy_here(stream, to, host));
    }
  }
  return {};
}

}  // namespace tenon::runtime
