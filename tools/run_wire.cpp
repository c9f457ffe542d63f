// SPDX-License-Identifier: Apache-2.0
// run_wire.cpp: see run_wire.hpp. A frame is a letter, a rank, a length and bytes; numbers are 32 bits, little-endian.
#include "run_wire.hpp"

namespace tenon::tool::run {

namespace {

constexpr size_t head = 9;
constexpr uint32_t largest = 64 << 20;

void put(std::string& out, uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(number >> shift & 0xFF);
}

void put(std::string& out, std::string_view text) {
  put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

void put(std::string& out, const std::vector<std::string>& texts) {
  put(out, static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) put(out, text);
}

uint32_t number_at(std::string_view bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; ++i) out |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return out;
}

// Reads what `put` wrote; past the end everything is empty, and `whole` says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint32_t number() {
    if (bytes_.size() < 4) return fail();
    const uint32_t out = number_at(bytes_, 0);
    bytes_.remove_prefix(4);
    return out;
  }
  std::string text() {
    const uint32_t size = number();
    if (size > bytes_.size()) return std::string(fail(), ' ');
    std::string out(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return out;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> out;
    for (uint32_t left = number(); left > 0 && good_; --left) out.push_back(text());
    return out;
  }
  bool good() const { return good_; }
  // All was there, and nothing else.
  Status whole() const {
    return good_ && bytes_.empty() ? Status()
                                   : Status(TN_INVALID, "the other side of `tenon run` sent something else");
  }

 private:
  uint32_t fail() {
    good_ = false;
    bytes_ = {};
    return 0;
  }
  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace

std::string framed(Word word, uint32_t rank, std::string_view bytes) {
  std::string out(1, static_cast<char>(word));
  put(out, rank);
  put(out, bytes);
  return out;
}

Result<std::optional<Frame>> Frames::next() {
  if (bytes_.size() < head) return std::optional<Frame>();
  const uint32_t size = number_at(bytes_, 5);
  constexpr std::string_view words = "JGSKBRXOEFD";
  if (size > largest || words.find(bytes_[0]) == std::string_view::npos)
    return Status(TN_INVALID, "the other side of `tenon run` sent something else");
  if (bytes_.size() < head + size) return std::optional<Frame>();
  Frame out{
      .word = static_cast<Word>(bytes_[0]), .rank = number_at(bytes_, 1), .bytes = bytes_.substr(head, size)};
  bytes_.erase(0, head + size);
  return std::optional<Frame>(std::move(out));
}

std::string packed(const Job& job) {
  std::string out;
  put(out, job.version);
  put(out, job.folder);
  put(out, job.command);
  put(out, static_cast<uint32_t>(job.bind));
  put(out, job.grace_ms);
  put(out, job.silence_ms);
  put(out, static_cast<uint32_t>(job.ranks.size()));
  for (const Job::Rank& rank : job.ranks) {
    put(out, rank.rank);
    put(out, rank.variables);
  }
  return out;
}

Result<Job> job_from(std::string_view bytes) {
  Reader in(bytes);
  Job out;
  out.version = in.text();
  out.folder = in.text();
  out.command = in.texts();
  out.bind = static_cast<Bind>(in.number());
  out.grace_ms = in.number();
  out.silence_ms = in.number();
  for (uint32_t left = in.number(); left > 0 && in.good(); --left) {
    Job::Rank& rank = out.ranks.emplace_back();
    rank.rank = in.number();
    rank.variables = in.texts();
  }
  TN_TRY(in.whole());
  if (out.bind > Bind::numa || out.command.empty())
    return Status(TN_INVALID, "the launcher's job names no program, or another binding");
  return out;
}

std::string packed(const std::vector<Place>& places) {
  std::string out;
  put(out, static_cast<uint32_t>(places.size()));
  for (const Place& place : places) {
    put(out, place.processors);
    put(out, place.threads);
    put(out, place.threads_given ? 1u : 0u);
  }
  return out;
}

Result<std::vector<Place>> places_from(std::string_view bytes) {
  Reader in(bytes);
  std::vector<Place> out;
  for (uint32_t left = in.number(); left > 0 && in.good(); --left) {
    Place& place = out.emplace_back();
    place.processors = in.text();
    place.threads = in.text();
    place.threads_given = in.number() != 0;
  }
  TN_TRY(in.whole());
  return out;
}

std::string packed(uint32_t number, std::string_view text) {
  std::string out;
  put(out, number);
  put(out, text);
  return out;
}

Result<std::pair<uint32_t, std::string>> number_from(std::string_view bytes) {
  Reader in(bytes);
  std::pair<uint32_t, std::string> out;
  out.first = in.number();
  out.second = in.text();
  TN_TRY(in.whole());
  return out;
}

}  // namespace tenon::tool::run
