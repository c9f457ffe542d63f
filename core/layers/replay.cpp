// SPDX-License-Identifier: Apache-2.0
// replay.cpp: copies, fills and the host's bytes of a replay; and `replay` itself.
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "layers/footprint.hpp"
#include "layers/replayer.hpp"

#include <algorithm>

namespace tenon::layers {

using namespace recording;

// A span without memory is the host's. [a count of bytes that no memory holds is not inside]
bool Replayer::inside(const SpanNote& span) {
  if (span.memory == 0) return true;
  const auto memory = memories_.find(span.memory);
  return memory != memories_.end() && span.bytes <= memory->second.bytes &&
         span.offset <= memory->second.bytes - span.bytes;
}

tn_span Replayer::span(const SpanNote& note, std::vector<std::byte>& host) const {
  if (note.memory == 0) {
    return tn_span{nullptr, reinterpret_cast<uint64_t>(host.data()), note.bytes, TN_SPACE_HOST_ADDRESS, 0};
  }
  return tn_span{memories_.at(note.memory).handle, note.offset, note.bytes, TN_SPACE_MEMORY, 0};
}

namespace {

bool sound(const Box& box, const SpanNote& dst, const SpanNote& src) {
  if (box.rank == 0) return dst.bytes == src.bytes;
  if (box.rank > 4 || box.extent.size() != box.rank || box.dst_stride.size() != box.rank ||
      box.src_stride.size() != box.rank) {
    return false;
  }
  uint64_t dst_reach = 1, src_reach = 1;
  for (uint32_t i = 0; i < box.rank; ++i) {
    if (box.extent[i] == 0) return true;
    const uint64_t steps = box.extent[i] - 1;
    if (steps != 0 && (box.dst_stride[i] > dst.bytes / steps || box.src_stride[i] > src.bytes / steps))
      return false;
    dst_reach += steps * box.dst_stride[i];
    src_reach += steps * box.src_stride[i];
  }
  return dst_reach <= dst.bytes && src_reach <= src.bytes;
}

std::vector<std::byte> bytes_of(const Bytes& data) {
  const auto bytes = std::as_bytes(std::span(data));
  return {bytes.begin(), bytes.end()};
}

std::string digest_text(const Bytes& digest) {
  return base::hex(
             std::span(reinterpret_cast<const uint8_t*>(digest.data()), std::min<size_t>(digest.size(), 8))) +
         "…";
}

}  // namespace

void Replayer::step(const Copy& s) {
  LiveStream* on = stream(s.stream);
  if (on == nullptr) return;
  const bool from_host = s.src.memory == 0;
  if (!inside(s.dst) || !inside(s.src) || !sound(s.box, s.dst, s.src) ||
      (from_host && s.data.size() != s.src.bytes) ||
      (s.dst.memory == 0 && s.dst.bytes > (uint64_t{1} << 32))) {
    return skip("a copy's spans are not in the recorded memories, or its bytes were not recorded");
  }
  std::vector<std::byte> up = bytes_of(s.data), down(s.dst.memory == 0 ? s.dst.bytes : 0);
  const tn_span dst = span(s.dst, down), src = span(s.src, up);
  if (enqueue_copy(*on, s, dst, src)) compare(*on, s, dst, down);
  if (s.dst.memory == 0 && s.digest.empty()) on->downloads.push_back(std::move(down));
}

bool Replayer::enqueue_copy(LiveStream& on, const Copy& s, const tn_span& dst, const tn_span& src) {
  tn_error error = no_error();
  int32_t code = TN_OK;
  if (s.box.rank == 0) {
    code = plugin_.stream->copy(on.handle, &dst, &src, &error);
  } else {
    tn_copy_shape shape{};
    shape.size = sizeof shape;
    shape.rank = s.box.rank;
    for (uint32_t i = 0; i < s.box.rank; ++i) {
      shape.extent[i] = s.box.extent[i];
      shape.dst_stride[i] = s.box.dst_stride[i];
      shape.src_stride[i] = s.box.src_stride[i];
    }
    code = plugin_.stream->copy_strided(on.handle, &dst, &src, &shape, &error);
    if (code == TN_UNSUPPORTED && s.code == TN_OK) return copy_rows(on, s, dst, src);
  }
  ++report_.calls;
  if (code != s.code) {
    differ(std::string("copy: recorded ") + code_name(s.code) + ", now " + code_name(code) +
           (code == TN_OK ? "" : " (" + base::printable(error.message) + ")"));
  }
  return code == TN_OK;
}

// Where the plugin has no strided copy: one copy per row.
bool Replayer::copy_rows(LiveStream& on, const Copy& s, const tn_span& dst, const tn_span& src) {
  const Box& box = s.box;
  uint64_t rows = 1;
  for (uint32_t i = 0; i + 1 < box.rank; ++i) rows *= box.extent[i];
  for (uint64_t row = 0; row < rows; ++row) {
    tn_span to = dst, from = src;
    to.bytes = from.bytes = box.extent.back();
    uint64_t rest = row;
    for (uint32_t i = box.rank - 1; i-- > 0; rest /= box.extent[i]) {
      to.offset += rest % box.extent[i] * box.dst_stride[i];
      from.offset += rest % box.extent[i] * box.src_stride[i];
    }
    tn_error error = no_error();
    ++report_.calls;
    if (plugin_.stream->copy(on.handle, &to, &from, &error) == TN_OK) continue;
    differ("copy of one row of a box: " + base::printable(error.message));
    return false;
  }
  return true;
}

// Holds what the host can read at the destination against the recorded digest.
void Replayer::compare(LiveStream& on, const Copy& s, const tn_span& dst, std::vector<std::byte>& host) {
  if (s.digest.empty()) return;
  if (s.dst.memory != 0) {
    host.resize(s.dst.bytes);
    const tn_span down{nullptr, reinterpret_cast<uint64_t>(host.data()), host.size(), TN_SPACE_HOST_ADDRESS,
                       0};
    tn_error error = no_error();
    if (plugin_.stream->copy(on.handle, &down, &dst, &error) != TN_OK)
      return differ("copy: its result cannot be read");
  }
  if (!finish(on)) return differ("copy: it was not done in time, or failed");
  const Footprint rows = s.box.rank == 0 ? Footprint{.rows = {{0, host.size()}}, .extent = host.size()}
                                         : footprint(s.box.extent, s.box.dst_stride, 1);
  base::Sha256 sha;
  for (const Range& row : rows.rows) sha.add(std::span(host).subspan(row.begin, row.end - row.begin));
  const base::Digest digest = sha.finish();
  const Bytes found(reinterpret_cast<const char*>(digest.data()), digest.size());
  ++report_.downloads;
  if (found == s.digest) return;
  differ("copy: " + std::to_string(s.dst.bytes) + " downloaded bytes differ: recorded " +
         digest_text(s.digest) + ", now " + digest_text(found));
}

void Replayer::step(const Fill& s) {
  LiveStream* on = stream(s.stream);
  if (on == nullptr) return;
  if (s.dst.bytes != 0 && (s.dst.memory == 0 || !inside(s.dst)))
    return skip("a fill is not in the recorded memories");
  std::vector<std::byte> none;
  const tn_span dst = span(s.dst, none);
  tn_error error = no_error();
  const int32_t code = plugin_.stream->fill(on->handle, &dst, s.pattern, s.pattern_bytes, &error);
  ++report_.calls;
  if (code != s.code) differ(std::string("fill: recorded ") + code_name(s.code) + ", now " + code_name(code));
}

void Replayer::step(const Poke& s) {
  LiveStream* on = stream(s.stream);
  if (on == nullptr) return;
  if (s.dst.memory == 0 || !inside(s.dst) || s.data.size() != s.dst.bytes)
    return skip("a poke is not in the recorded memories");
  std::vector<std::byte> bytes = bytes_of(s.data);
  const tn_span dst = span(s.dst, bytes), src = span({0, 0, s.dst.bytes}, bytes);
  tn_error error = no_error();
  ++report_.calls;
  if (plugin_.stream->copy(on->handle, &dst, &src, &error) != TN_OK)
    differ("poke: " + base::printable(error.message));
}

}  // namespace tenon::layers

namespace tenon {

Result<ReplayReport> replay(const std::string& file, const tn_plugin& plugin, const ReplayOptions& options) {
  constexpr uint64_t limit = uint64_t{1} << 40;
  const std::string text = TN_TRY(base::read_file(file, limit));
  auto recording = layers::recording::decode(text, options.accept_truncated);
  if (!recording.ok()) {
    return Status(recording.code(), base::quoted(file) + ": " + recording.error().message);
  }
  ReplayReport report;
  const uint64_t start = base::now_ns();
  { layers::Replayer(plugin, options, report).run(*recording); }
  report.seconds = static_cast<double>(base::now_ns() - start) * 1e-9;
  return report;
}

}  // namespace tenon
