// SPDX-License-Identifier: Apache-2.0
// environment.hpp: the process's environment as a value, so that tests bring their own.
//
// Invariant: an elevated process (set-uid, file capabilities) sees no variable: whoever started it could have set it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::base {

class Environment {
 public:
  Environment(bool elevated, std::map<std::string, std::string, std::less<>> variables)
      : elevated_(elevated), variables_(std::move(variables)) {}
  // A copy of this process's. [any-thread, while no other thread changes the environment; does not block; cannot fail]
  static Environment of_process();

  bool elevated() const noexcept { return elevated_; }
  // The variable's value; nothing when it is not set, or the process is elevated.
  std::optional<std::string> get(std::string_view name) const;
  // All of them; none when the process is elevated.
  std::map<std::string, std::string, std::less<>> all() const {
    return elevated_ ? decltype(variables_){} : variables_;
  }
  // Whether it is set and must not be used.
  bool ignored(std::string_view name) const;

 private:
  bool elevated_;
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace tenon::base
