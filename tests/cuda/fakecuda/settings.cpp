// SPDX-License-Identifier: Apache-2.0
// settings.cpp: reads "key=value,flag,…".
#include "settings.hpp"

#include <charconv>
#include <iterator>

namespace fakecuda {
namespace {

struct Number {
  const char* key;
  uint64_t Settings::*field;
};

constexpr Number numbers[] = {
    {"devices", &Settings::devices},
    {"sm", &Settings::sm},
    {"driver", &Settings::driver},
    {"memory", &Settings::memory},
    {"oom_after", &Settings::oom_after},
    {"launch_error_at", &Settings::launch_error_at},
    {"launch_refused_at", &Settings::launch_refused_at},
    {"drop_wait", &Settings::drop_wait},
    {"drop_value", &Settings::drop_value},
    {"slow_ns", &Settings::slow_ns},
    {"idle_ms", &Settings::idle_ms},
};

struct Flag {
  const char* key;
  bool Settings::*field;
};

constexpr Flag flags[] = {{"stub", &Settings::stub},
                          {"no_peers", &Settings::no_peers},
                          {"no_exports", &Settings::no_exports},
                          {"check", &Settings::check}};

bool take_flag(Settings& settings, std::string_view key) {
  for (const Flag& flag : flags)
    if (key == flag.key) return settings.*flag.field = true;
  return false;
}

bool take_number(Settings& settings, std::string_view key, uint64_t value) {
  if (key == "seed") {
    settings.seed = value;
    return true;
  }
  for (const Number& number : numbers) {
    if (key != number.key) continue;
    settings.*number.field = value;
    return true;
  }
  return false;
}

std::string known_keys() {
  std::string out = "seed=N";
  for (const Number& number : numbers) out += std::string(", ") + number.key + "=N";
  for (const Flag& flag : flags) out += std::string(", ") + flag.key;
  return out;
}

bool take(Settings& settings, std::string_view item) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) return take_flag(settings, item);
  const std::string_view digits = item.substr(equals + 1);
  uint64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  return whole && take_number(settings, item.substr(0, equals), value);
}

}  // namespace

std::optional<Settings> parse_settings(std::string_view text, std::string& error) {
  Settings settings;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(item.size() < text.size() ? item.size() + 1 : text.size());
    if (item.empty() || take(settings, item)) continue;
    error = "FAKECUDA: '" + std::string(item) + "' is not understood; there are: " + known_keys();
    return std::nullopt;
  }
  return settings;
}

}  // namespace fakecuda
