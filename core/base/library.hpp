// SPDX-License-Identifier: Apache-2.0
// library.hpp: shared libraries of this process.
//
// Invariant: a library that was opened stays open: threads, thread-locals and exit handlers of an unloaded one crash.
#pragma once

#include <tenon/result.hpp>

#include <string>
#include <vector>

namespace tenon::base {

class Library {
 public:
  // Opens with all symbols bound at once and none lent to others. TN_INVALID with the system's words.
  // [any-thread; may block; may fail]
  static Result<Library> open(const std::string& path);

  // The address of `name`, or NULL. [any-thread; may block; returns NULL]
  void* symbol(const char* name) const noexcept;

 private:
  explicit Library(void* handle) noexcept : handle_(handle) {}
  void* handle_;
};

// The files of all libraries that are open in this process, links resolved, in the order they were opened; the program itself,
// and what is no file, is not among them. [any-thread; may block; cannot fail]
std::vector<std::string> open_libraries();
// The folder of the binary that holds this code (libtenon.so, or a program that has the host inside), links resolved;
// "" when the system does not tell. [any-thread; may block; cannot fail]
std::string own_folder();

}  // namespace tenon::base
