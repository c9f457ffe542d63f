// SPDX-License-Identifier: Apache-2.0
// json.hpp: reads JSON from front to back, value by value, as its reader asks for them.
//
// Nothing is kept, so a long file costs its longest string. Invariant: every failure is TN_INVALID and names the line, or the
// byte where the text is part of a file that has no lines.
#pragma once

#include <tenon/result.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::base {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) noexcept : text_(text) {}
  // Failures name the byte of a file whose part from `first_byte` on is `text`.
  JsonReader(std::string_view text, uint64_t first_byte) noexcept : text_(text), first_byte_(first_byte) {}
  // Of the next value, from 1. [one thread; does not block; cannot fail]
  uint64_t line() noexcept;
  // "line 3: why" or "byte 57: why", of the value that was read last.
  Status wrong(const std::string& why) const;

  // Calls member(key) for each; it reads the value.
  template <class Member>
  Status object(Member&& member) {
    TN_TRY(expect('{', "an object"));
    if (take('}')) return {};
    do {
      const std::string key = TN_TRY(string());
      TN_TRY(expect(':', "':'"));
      TN_TRY(member(key));
    } while (take(','));
    return expect('}', "',' or '}'");
  }
  // Calls element() for each; it reads the value.
  template <class Element>
  Status array(Element&& element) {
    TN_TRY(expect('[', "an array"));
    if (take(']')) return {};
    do TN_TRY(element());
    while (take(','));
    return expect(']', "',' or ']'");
  }
  Result<std::string> string();
  Result<double> number();
  Result<int64_t> integer();
  // Nothing follows.
  Status end();

 private:
  void skip_blanks() noexcept;
  bool take(char c) noexcept;
  Status expect(char c, const char* what);
  Status wanted(const char* what) const;
  std::string_view number_text() noexcept;
  Status escape(std::string& out);
  Result<uint32_t> hex4();

  std::string_view text_;
  size_t at_ = 0;
  uint64_t line_ = 1;
  std::optional<uint64_t> first_byte_{};
};

// The keys that one object may have.
class Keys {
 public:
  // `of`: "an event", for messages. Both live as long as this.
  Keys(std::string_view of, std::span<const std::string_view> known) noexcept : of_(of), known_(known) {}
  // The position of `key` among those known. TN_INVALID for an unknown one, with the nearest, or for one that came before.
  Result<size_t> place(const JsonReader& reader, std::string_view key);
  bool has(size_t place) const noexcept { return (seen_ >> place & 1) != 0; }

 private:
  std::string_view of_;
  std::span<const std::string_view> known_;
  uint64_t seen_ = 0;
};

}  // namespace tenon::base
