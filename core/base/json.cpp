// SPDX-License-Identifier: Apache-2.0
// json.cpp: see json.hpp.
#include "base/json.hpp"

#include "base/text.hpp"

#include <charconv>
#include <system_error>
#include <vector>

namespace tenon::base {
namespace {

void append_utf8(std::string& out, uint32_t point) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xC0 | point >> 6);
  } else {
    if (point < 0x10000) {
      put(0xE0 | point >> 12);
    } else {
      put(0xF0 | point >> 18);
      put(0x80 | (point >> 12 & 0x3F));
    }
    put(0x80 | (point >> 6 & 0x3F));
  }
  put(0x80 | (point & 0x3F));
}

// What stands behind a backslash for one character; 0: something else.
char unescaped(char c) noexcept {
  constexpr std::string_view names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  const size_t at = names.find(c);
  return at == std::string_view::npos ? '\0' : meant[at];
}

}  // namespace

void JsonReader::skip_blanks() noexcept {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
  }
}

uint64_t JsonReader::line() noexcept {
  skip_blanks();
  return line_;
}

Status JsonReader::wrong(const std::string& why) const {
  const std::string place =
      first_byte_ ? "byte " + std::to_string(*first_byte_ + at_) : "line " + std::to_string(line_);
  return {TN_INVALID, place + ": " + why};
}

Status JsonReader::wanted(const char* what) const {
  const std::string found =
      at_ < text_.size() ? base::quoted(text_.substr(at_, 20)) : std::string("the end of the file");
  return wrong(std::string("expected ") + what + ", found " + found +
               (at_ < text_.size() ? "" : ": it was cut off, write it again"));
}

bool JsonReader::take(char c) noexcept {
  skip_blanks();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Status JsonReader::expect(char c, const char* what) { return take(c) ? Status() : wanted(what); }

Status JsonReader::end() {
  skip_blanks();
  return at_ == text_.size() ? Status() : wanted("the end of the file");
}

Result<std::string> JsonReader::string() {
  TN_TRY(expect('"', "a string"));
  std::string out;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20)
      return wrong("a control character stands in a string: write it as \\u00…");
    ++at_;
    if (c == '"') return out;
    if (c == '\\')
      TN_TRY(escape(out));
    else
      out += c;
  }
  return wanted("the end of a string");
}

Status JsonReader::escape(std::string& out) {
  if (at_ >= text_.size()) return wanted("the rest of an escape");
  const char c = text_[at_++];
  if (c != 'u') {
    const char meant = unescaped(c);
    if (meant == '\0') return wrong("'\\" + printable(std::string(1, c)) + "' is no escape of JSON");
    out += meant;
    return {};
  }
  uint32_t point = TN_TRY(hex4());
  if (point >= 0xD800 && point < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const uint32_t low = TN_TRY(hex4());
    if (low < 0xDC00 || low > 0xDFFF) return wrong("half of a pair of \\u escapes is missing");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  }
  if (point >= 0xD800 && point <= 0xDFFF) return wrong("half of a pair of \\u escapes is missing");
  append_utf8(out, point);
  return {};
}

Result<uint32_t> JsonReader::hex4() {
  const std::string_view digits = text_.substr(at_, 4);
  uint32_t out = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  if (digits.size() < 4 || read.ptr != digits.data() + 4) return wanted("four hexadecimal digits");
  at_ += 4;
  return out;
}

// What looks like a number, and is not taken yet.
std::string_view JsonReader::number_text() noexcept {
  skip_blanks();
  const size_t end = text_.find_first_not_of("+-.0123456789eE", at_);
  return text_.substr(at_, end == std::string_view::npos ? end : end - at_);
}

Result<double> JsonReader::number() {
  const std::string_view text = number_text();
  double out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size())
    return wanted("a number");
  at_ += text.size();
  return out;
}

Result<int64_t> JsonReader::integer() {
  const std::string_view text = number_text();
  int64_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size())
    return wanted("a whole number below 2^63");
  at_ += text.size();
  return out;
}

Result<size_t> Keys::place(const JsonReader& reader, std::string_view key) {
  for (size_t i = 0; i < known_.size(); ++i) {
    if (known_[i] != key) continue;
    if (has(i)) return reader.wrong(std::string(of_) + " has key " + base::quoted(key) + " twice: keep one");
    seen_ |= uint64_t{1} << i;
    return i;
  }
  const std::vector<std::string> names(known_.begin(), known_.end());
  return reader.wrong(std::string(of_) + " has no key " + base::quoted(key) + did_you_mean(key, known_) +
                      ": it has " + join(names, ", "));
}

}  // namespace tenon::base
