// SPDX-License-Identifier: Apache-2.0
// functions.cpp: names of functions, made from functions.def.
#include "layers/functions.hpp"

#include "base/text.hpp"

#include <array>

namespace tenon::layers {
namespace {

struct Names {
  std::string_view slot, full;
  bool extension = false;
};

constexpr std::array<Names, function_count> names{{
#define TN_FUNCTION(table, slot, method) {#slot, #table "." #slot},
#define TN_EXTENSION_FUNCTION(table, slot, method) {#slot, #table "." #slot, true},
#include "layers/functions.def"
    {"quiesce", "plugin.quiesce"},
    {"shutdown", "plugin.shutdown"},
}};

constexpr bool unique(std::string_view slot) {
  int found = 0;
  for (const Names& each : names) found += each.slot == slot ? 1 : 0;
  return found == 1;
}

constexpr auto shown = [] {
  std::array<std::string_view, function_count> out;
  for (size_t i = 0; i < function_count; ++i) {
    out[i] = !names[i].extension && unique(names[i].slot) ? names[i].slot : names[i].full;
  }
  return out;
}();

}  // namespace

const char* function_name(Function function) noexcept {
  const auto index = static_cast<size_t>(function);
  return index < function_count ? shown[index].data() : "?";  // literals: NUL-terminated
}

Result<Function> function_from(std::string_view text) {
  std::string choices;
  for (size_t i = 0; i < function_count; ++i) {
    if (text == names[i].full || text == shown[i]) return static_cast<Function>(i);
    if (text == names[i].slot) choices += (choices.empty() ? "" : " or ") + std::string(names[i].full);
  }
  if (!choices.empty()) {
    return Status(TN_INVALID, "function '" + std::string(text) + "' is in several tables: say " + choices);
  }
  return Status(TN_INVALID, "no function of the ABI is called '" + std::string(text) + "'" +
                                base::did_you_mean(text, shown));
}

}  // namespace tenon::layers
