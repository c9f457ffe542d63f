// SPDX-License-Identifier: Apache-2.0
// recording.cpp: steps to bytes and back.
//
// Invariant: nothing in a file is believed: counts are held against the bytes that are left, kinds and versions are known
// or refused, and a step must use up its payload.
#include "layers/recording.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

namespace tenon::layers::recording {
namespace {

uint32_t crc32(std::string_view bytes, uint32_t start) {
  static constexpr auto table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320u : 0);
      out[i] = value;
    }
    return out;
  }();
  uint32_t crc = ~start;
  for (const char byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

void put_u32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

uint32_t get_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = (value << 8) | static_cast<uint8_t>(bytes[i]);
  return value;
}

class Encoder {
 public:
  template <class... Fields>
  void operator()(Fields&... all) {
    (put(all), ...);
  }
  std::string bytes;

 private:
  template <std::unsigned_integral T>
  void put(T& value) {
    uint64_t rest = value;
    for (; rest >= 0x80; rest >>= 7) bytes.push_back(static_cast<char>(rest | 0x80));
    bytes.push_back(static_cast<char>(rest));
  }
  template <std::signed_integral T>
  void put(T& value) {
    const int64_t wide = value;
    uint64_t zigzag = (static_cast<uint64_t>(wide) << 1) ^ static_cast<uint64_t>(wide >> 63);
    put(zigzag);
  }
  void put(double& value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    put_u32(bytes, static_cast<uint32_t>(bits));
    put_u32(bytes, static_cast<uint32_t>(bits >> 32));
  }
  void put(std::string& text) {
    uint64_t size = text.size();
    put(size);
    bytes += text;
  }
  template <class T>
  void put(std::vector<T>& items) {
    uint64_t size = items.size();
    put(size);
    for (T& item : items) put(item);
  }
  template <class T>
  requires std::is_class_v<T>
  void put(T& item) { fields(*this, item); }
};

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}
  template <class... Fields>
  void operator()(Fields&... all) {
    (get(all), ...);
  }
  // Whether all was there, and nothing is left.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  bool has(uint64_t count) { return ok_ = ok_ && count <= rest_.size(); }
  template <std::unsigned_integral T>
  void get(T& value) {
    uint64_t wide = 0;
    for (unsigned shift = 0; has(1) && shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      wide |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        value = static_cast<T>(wide);
        ok_ = value == wide;
        return;
      }
    }
    ok_ = false;
  }
  template <std::signed_integral T>
  void get(T& value) {
    uint64_t zigzag = 0;
    get(zigzag);
    const auto wide = static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1);
    value = static_cast<T>(wide);
    ok_ = ok_ && value == wide;
  }
  void get(double& value) {
    if (!has(8)) return;
    value = std::bit_cast<double>(get_u32(rest_) | static_cast<uint64_t>(get_u32(rest_.substr(4))) << 32);
    rest_.remove_prefix(8);
  }
  void get(std::string& text) {
    uint64_t size = 0;
    get(size);
    if (!has(size)) return;
    text = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  template <class T>
  void get(std::vector<T>& items) {
    uint64_t size = 0;
    get(size);
    if (!has(size)) return;  // an element takes at least a byte
    items.resize(size);
    for (T& item : items) get(item);
  }
  template <class T>
  requires std::is_class_v<T>
  void get(T& item) { fields(*this, item); }

  std::string_view rest_;
  bool ok_ = true;
};

std::string framed(const std::string& payload, uint32_t& check) {
  check = crc32(payload, check);
  std::string out;
  put_u32(out, static_cast<uint32_t>(payload.size()));
  put_u32(out, check);
  return out + payload;
}

// The step of `kind` from `payload`; false when it is none.
template <size_t index = 0>
bool decode_step(uint8_t kind, std::string_view payload, std::vector<Step>& steps) {
  if constexpr (index < std::variant_size_v<Step>) {
    using Type = std::variant_alternative_t<index, Step>;
    if (kind != Type::kind) return decode_step<index + 1>(kind, payload, steps);
    Type step;
    Decoder decoder(payload);
    fields(decoder, step);
    steps.emplace_back(std::move(step));
    return decoder.complete();
  }
  return false;
}

Status damaged(size_t step, size_t at, const char* why) {
  return Status(TN_INVALID, "step " + std::to_string(step) + " at byte " + std::to_string(at) + " " + why);
}

constexpr size_t head_bytes = 16, frame_bytes = 8;

Status check_head(std::string_view text) {
  if (!text.starts_with(magic) || text.size() < head_bytes) {
    return Status(TN_INVALID, "this is no recording: it does not begin with TENONREC");
  }
  const uint32_t found = get_u32(text.substr(8));
  if (found == version) return {};
  return Status(TN_VERSION, "the recording has version " + std::to_string(found) +
                                ", this library reads version " + std::to_string(version) +
                                ": replay it with the library that made it");
}

}  // namespace

std::string file_head() {
  std::string out = magic;
  put_u32(out, version);
  put_u32(out, 0);
  return out;
}

std::string encode(Step step, uint32_t& check) {
  Encoder encoder;
  std::visit(
      [&](auto& each) {
        encoder.bytes.push_back(static_cast<char>(each.kind));
        fields(encoder, each);
      },
      step);
  return framed(encoder.bytes, check);
}

std::string encode_end(uint64_t steps, uint32_t& check) {
  Encoder encoder;
  encoder.bytes.push_back(static_cast<char>(end_kind));
  encoder(steps);
  return framed(encoder.bytes, check);
}

Result<Recording> decode(std::string_view text, bool accept_truncated) {
  TN_TRY(check_head(text));
  Recording out;
  uint32_t check = 0;
  for (size_t at = head_bytes;;) {
    const std::string_view rest = text.substr(at);
    const uint64_t size = rest.size() < frame_bytes ? 0 : get_u32(rest);
    if (rest.size() < frame_bytes || size > rest.size() - frame_bytes) {
      if (!accept_truncated) return damaged(out.steps.size() + 1, at, "is cut off: the recording has no end");
      out.complete = false;
      return out;
    }
    const std::string_view payload = rest.substr(frame_bytes, size);
    const uint32_t expected = get_u32(rest.substr(4));
    check = crc32(payload, check);
    if (check != expected || payload.empty())
      return damaged(out.steps.size() + 1, at, "is damaged: its check is wrong");
    const auto kind = static_cast<uint8_t>(payload.front());
    if (kind == end_kind) {
      uint64_t steps = 0;
      Decoder decoder(payload.substr(1));
      decoder(steps);
      if (decoder.complete() && steps == out.steps.size() && rest.size() == frame_bytes + size) return out;
      return damaged(out.steps.size() + 1, at, "ends the recording, and its count or place is wrong");
    }
    if (!decode_step(kind, payload.substr(1), out.steps)) {
      return damaged(out.steps.size() + 1, at, "is of an unknown kind or form");
    }
    at += frame_bytes + size;
  }
}

}  // namespace tenon::layers::recording
