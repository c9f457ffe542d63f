// SPDX-License-Identifier: Apache-2.0
// toml.cpp: see toml.hpp.
#include "base/toml.hpp"

#include "base/text.hpp"

#include <cstdio>
#include <optional>

namespace tenon::base {
namespace {

struct ContractBroken {};

// Takes one UTF-8 character off the front of `text`, which begins with a byte of 0x80 or more.
std::optional<uint32_t> take_character(std::string_view& text) noexcept {
  const auto first = static_cast<unsigned char>(text.front());
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return std::nullopt;
  uint32_t code = first & (0xFFu >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return std::nullopt;
    code = code << 6 | (next & 0x3Fu);
  }
  text.remove_prefix(size);
  return code;
}

// Follows quotes and comments closely enough to know what an escape would mean at the current place.
class Place {
 public:
  void pass(char c) noexcept {
    if (c == '\n') {
      quote_ = '\0', in_comment_ = escaped_ = false;
    } else if (in_comment_) {
      return;
    } else if (quote_ == '\0') {
      in_comment_ = c == '#';
      if (c == '"' || c == '\'') quote_ = c;
    } else if (quote_ == '"' && c == '\\') {
      escaped_ = !escaped_;
      return;
    } else if (c == quote_ && !escaped_) {
      quote_ = '\0';
    }
    escaped_ = false;
  }
  bool takes_escapes() const noexcept { return in_comment_ || (quote_ == '"' && !escaped_); }

 private:
  char quote_ = '\0';
  bool in_comment_ = false, escaped_ = false;
};

Status bad(const std::string& path, size_t line, const std::string& what) {
  return Status(TN_INVALID, path + ": line " + std::to_string(line) + " " + what);
}

// The same document in ASCII.
Result<std::string> with_escapes(const std::string& path, std::string_view text) {
  std::string out;
  Place place;
  size_t line = 1;
  while (!text.empty()) {
    const char c = text.front();
    if (static_cast<unsigned char>(c) < 0x80) {
      place.pass(c);
      line += c == '\n';
      out += c;
      text.remove_prefix(1);
      continue;
    }
    const auto code = take_character(text);
    if (!code) return bad(path, line, "is not UTF-8: save the file as UTF-8");
    if (!place.takes_escapes()) {
      return bad(path, line,
                 "holds a character outside ASCII, which is not TOML here: put it between double quotes");
    }
    char escape[16];
    std::snprintf(escape, sizeof escape, "\\U%08X", *code);
    out += escape;
  }
  return out;
}

}  // namespace

void toml_contract_broken() { throw ContractBroken(); }

Result<toml::table> parse_toml(const std::string& path, std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const std::string ascii = TN_TRY(with_escapes(path, text));
  try {
    return toml::parse(ascii);
  } catch (const toml::parse_error& error) {
    const auto& where = error.source().begin;
    return bad(path, where.line,
               "is not TOML (column " + std::to_string(where.column) +
                   "): " + printable(error.description()) + ": correct it");
  } catch (const ContractBroken&) {
    return Status(TN_INVALID,
                  path +
                      " is not TOML: a key, a table's header or a value holds a character that cannot be "
                      "there: correct it");
  }
}

}  // namespace tenon::base
