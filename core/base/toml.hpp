// SPDX-License-Identifier: Apache-2.0
// toml.hpp: the one way to read TOML. Files that need it include this, never toml++ itself.
//
// toml++ 3.3 and 3.4 leave their contract on some malformed texts: an assertion that ends the process, or undefined
// behaviour where assertions are off (characters outside ASCII after a value, "[[=", "[+").
// Invariant: any bytes give a table or a reason. Assertions inside toml++ are on in every build and throw; characters
// outside ASCII reach it as escapes.
#pragma once

#include <tenon/result.hpp>

#include <string>
#include <string_view>

#undef NDEBUG
#define TOML_EXCEPTIONS 1
#define TOML_UNRELEASED_FEATURES 0
#ifndef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#endif
#define TOML_ASSERT(expression) ((expression) ? static_cast<void>(0) : ::tenon::base::toml_contract_broken())

namespace tenon::base {
[[noreturn]] void toml_contract_broken();
}

#include <toml++/toml.h>

namespace tenon::base {

// TN_INVALID naming `path`, line and column. [any-thread; does not block; may fail]
Result<toml::table> parse_toml(const std::string& path, std::string_view text);

}  // namespace tenon::base
