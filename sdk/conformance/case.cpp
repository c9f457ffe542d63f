// SPDX-License-Identifier: Apache-2.0
// case.cpp: the registry of cases. Filled before main(), sorted on first reading, never changed afterwards.
#include "conformance/case.hpp"

#include <algorithm>
#include <deque>
#include <tuple>
#include <unordered_map>

namespace tenon::conform {

namespace {

std::vector<Case>& registry() {
  static std::vector<Case> cases;
  return cases;
}

}  // namespace

std::string_view Case::group() const noexcept {
  const std::string_view whole = name;
  return whole.substr(0, whole.find(':'));
}

const char* kept(std::string name) {
  static std::deque<std::string> names;
  return names.emplace_back(std::move(name)).c_str();
}

Registration::Registration(const Case& added) { registry().push_back(added); }

const std::vector<Case>& all_cases() {
  static const bool sorted = [] {
    std::sort(registry().begin(), registry().end(), [](const Case& a, const Case& b) {
      return std::tuple(a.level, std::string_view(a.name)) < std::tuple(b.level, std::string_view(b.name));
    });
    return true;
  }();
  static_cast<void>(sorted);
  return registry();
}

const Case* find_case(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const Case*> out;
    for (const Case& known : all_cases()) out.emplace(known.name, &known);
    return out;
  }();
  const auto found = by_name.find(name);
  return found != by_name.end() ? found->second : nullptr;
}

}  // namespace tenon::conform
