// SPDX-License-Identifier: Apache-2.0
// wire.cpp: numbers as eight bytes each, lists and texts behind their length.
#include "wire.hpp"

#include <cstring>

namespace tenon::sim::comm {

namespace {

constexpr uint64_t head_bytes = 16;                 // topic, and bytes of the body
constexpr uint64_t most_bytes = uint64_t{1} << 34;  // of a body; more is no frame of ours

class Writer {
 public:
  explicit Writer(Topic topic) { frame_.topic = topic; }
  Writer& number(uint64_t value) { return raw(&value, sizeof value); }
  Writer& numbers(std::span<const uint64_t> values) {
    number(values.size());
    return raw(values.data(), values.size_bytes());
  }
  Writer& bytes(std::span<const std::byte> values) {
    number(values.size());
    return raw(values.data(), values.size());
  }
  Writer& words(std::string_view text) { return bytes(std::as_bytes(std::span(text))); }
  Frame done() { return std::move(frame_); }

 private:
  Writer& raw(const void* from, size_t size) {
    const auto* const first = static_cast<const std::byte*>(from);
    frame_.body.insert(frame_.body.end(), first, first + size);
    return *this;
  }
  Frame frame_{};
};

// Reads what a Writer wrote. Past the end everything is zero and empty, and `whole` says no.
class Reader {
 public:
  explicit Reader(const Frame& frame) : rest_(frame.body) {}
  uint64_t number() {
    uint64_t out = 0;
    const auto found = take(sizeof out);
    if (!found.empty()) std::memcpy(&out, found.data(), sizeof out);
    return out;
  }
  uint32_t small() { return static_cast<uint32_t>(number()); }
  std::vector<uint64_t> numbers() {
    const uint64_t count = number();
    if (count > rest_.size() / sizeof(uint64_t)) return torn<std::vector<uint64_t>>();
    std::vector<uint64_t> out(count);
    if (count != 0) std::memcpy(out.data(), take(8 * count).data(), 8 * count);
    return out;
  }
  Bytes bytes() {
    const uint64_t count = number();
    if (count > rest_.size()) return torn<Bytes>();
    const auto found = take(count);
    return {found.begin(), found.end()};
  }
  std::string words() {
    const Bytes found = bytes();
    return {reinterpret_cast<const char*>(found.data()), found.size()};
  }
  // How many more things of at least `least` bytes can follow.
  uint64_t count(uint64_t least) {
    const uint64_t said = number();
    if (said <= rest_.size() / least) return said;
    good_ = false;
    return 0;
  }
  bool whole() const noexcept { return good_ && rest_.empty(); }

 private:
  std::span<const std::byte> take(size_t size) {
    if (size > rest_.size()) {
      good_ = false;
      return {};
    }
    const auto out = rest_.first(size);
    rest_ = rest_.subspan(size);
    return out;
  }
  template <class T>
  T torn() {
    good_ = false;
    return {};
  }

  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace

Frame frame_of(const Hello& hello) {
  return Writer(Topic::hello)
      .number(hello.token)
      .number(hello.rank)
      .number(hello.size)
      .number(hello.process)
      .number(hello.timeout_ns)
      .done();
}

std::optional<Hello> hello_in(const Frame& frame) {
  Reader reader(frame);
  Hello out;
  out.token = reader.number();
  out.rank = reader.number();
  out.size = reader.number();
  out.process = reader.number();
  out.timeout_ns = reader.number();
  if (frame.topic != Topic::hello || !reader.whole()) return std::nullopt;
  return out;
}

Frame frame_of(const std::vector<Part>& group) {
  Writer writer(Topic::group);
  writer.number(group.size());
  for (const Part& part : group) {
    writer.number(part.kind).number(part.dtype).number(part.reduce).number(part.peer);
    writer.number(part.count).numbers(part.send_counts).numbers(part.recv_counts).bytes(part.bytes);
  }
  return writer.done();
}

std::optional<std::vector<Part>> group_in(const Frame& frame) {
  Reader reader(frame);
  std::vector<Part> out(reader.count(8 * sizeof(uint64_t)));
  for (Part& part : out) {
    part.kind = reader.small();
    part.dtype = reader.small();
    part.reduce = reader.small();
    part.peer = reader.small();
    part.count = reader.number();
    part.send_counts = reader.numbers();
    part.recv_counts = reader.numbers();
    part.bytes = reader.bytes();
  }
  if (!reader.whole()) return std::nullopt;
  return out;
}

Frame frame_of(const std::vector<Bytes>& results) {
  Writer writer(Topic::results);
  writer.number(results.size());
  for (const Bytes& each : results) writer.bytes(each);
  return writer.done();
}

std::optional<std::vector<Bytes>> results_in(const Frame& frame) {
  Reader reader(frame);
  std::vector<Bytes> out(reader.count(sizeof(uint64_t)));
  for (Bytes& each : out) each = reader.bytes();
  if (!reader.whole()) return std::nullopt;
  return out;
}

Frame frame_of(Topic topic, std::string_view words) { return Writer(topic).words(words).done(); }
std::string words_in(const Frame& frame) { return Reader(frame).words(); }

Frame frame_of(const Error& failure) {
  return Writer(Topic::failed).number(static_cast<uint64_t>(failure.code)).words(failure.message).done();
}

Error failure_in(const Frame& frame) {
  Reader reader(frame);
  const auto code = static_cast<int32_t>(reader.number());
  return {.code = code, .message = reader.words()};
}

void Reel::push(const Frame& frame) {
  const uint64_t head[] = {static_cast<uint64_t>(frame.topic), frame.body.size()};
  const auto bytes = std::as_bytes(std::span(head));
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  out_.insert(out_.end(), frame.body.begin(), frame.body.end());
}

void Reel::went(size_t bytes) noexcept {
  sent_ += bytes;
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

std::optional<Frame> Reel::pop() {
  if (torn_ || in_.size() < head_bytes) return std::nullopt;
  uint64_t head[2];
  std::memcpy(head, in_.data(), sizeof head);
  torn_ = head[0] > static_cast<uint64_t>(Topic::left) || head[1] > most_bytes;
  if (torn_ || in_.size() - head_bytes < head[1]) return std::nullopt;
  const auto begin = in_.begin() + head_bytes, end = begin + static_cast<std::ptrdiff_t>(head[1]);
  Frame out{static_cast<Topic>(head[0]), Bytes(begin, end)};
  in_.erase(in_.begin(), end);
  return out;
}

}  // namespace tenon::sim::comm
