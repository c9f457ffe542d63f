// SPDX-License-Identifier: Apache-2.0
// case.hpp: a conformance case and the registry that holds them all.
//
// Invariant: a case is a sentence that a plugin either keeps or breaks ("copy: zero bytes are legal everywhere"). What
// stands before the colon is its group; cases of one group share a process, where asked with other groups, unless a case asks
// to be alone.
#pragma once

#include <tenon/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tenon::conform {

class Context;

struct Case {
  int level = 0;
  const char* name = "";
  // Returns OK, a failure, or what Context::skip or Context::unsupported gave.
  Status (*run)(Context& t) = nullptr;
  bool alone =
      false;  // has a process of its own: it forks, unloads, exits, or needs the very first entry call
  int deadlines = 1;  // how many times the usual deadline it may take
  // What an op's case is about, as in ops.def and dtypes.def: "add", "f32". Empty for every other case.
  const char* op = "";
  const char* dtype = "";

  // "copy" of "copy: zero bytes …". [any-thread; does not block; cannot fail]
  std::string_view group() const noexcept;
};

// Every case linked into this program, by level and then by name. [any-thread; does not block; cannot fail]
const std::vector<Case>& all_cases();
// The case called `name`, or null. [any-thread; does not block; cannot fail]
const Case* find_case(std::string_view name);

// A name that a case may point to for the program's life. [any-thread before main(); cannot fail]
const char* kept(std::string name);

// Adds a case before main() runs.
struct Registration {
  explicit Registration(const Case& added);
};

}  // namespace tenon::conform

// CONFORM_CASE(0, "copy: zero bytes are legal everywhere") { … t.check(…); return {}; }
// CONFORM_CASE(0, "exit: …", .alone = true) { … }
#define CONFORM_CASE(case_level, case_name, ...)                             \
  CONFORM_CASE_NAMED_(CONFORM_JOIN_(conform_case_, __COUNTER__), case_level, \
                      case_name __VA_OPT__(, ) __VA_ARGS__)
#define CONFORM_CASE_NAMED_(function, case_level, case_name, ...)                            \
  static ::tenon::Status function(::tenon::conform::Context& t);                             \
  static const ::tenon::conform::Registration CONFORM_JOIN_(function, _registration)(        \
      {.level = case_level, .name = case_name, .run = function __VA_OPT__(, ) __VA_ARGS__}); \
  static ::tenon::Status function([[maybe_unused]] ::tenon::conform::Context& t)
#define CONFORM_JOIN_(a, b) CONFORM_JOIN_AGAIN_(a, b)
#define CONFORM_JOIN_AGAIN_(a, b) a##b
