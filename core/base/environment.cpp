// SPDX-License-Identifier: Apache-2.0
// environment.cpp: see environment.hpp. The kernel itself says whether a process is elevated (AT_SECURE).
#include "base/environment.hpp"

#include <sys/auxv.h>
#include <unistd.h>

namespace tenon::base {

Environment Environment::of_process() {
  std::map<std::string, std::string, std::less<>> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return {getauxval(AT_SECURE) != 0, std::move(variables)};
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (elevated_ || found == variables_.end()) return std::nullopt;
  return found->second;
}

bool Environment::ignored(std::string_view name) const { return elevated_ && variables_.contains(name); }

}  // namespace tenon::base
