// SPDX-License-Identifier: Apache-2.0
// progress.cpp: carriage return, erase to the end of the line, and as much text as fits.
#include "progress.hpp"

#include "text.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace tenon::tool {

namespace {

size_t terminal_columns() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// A terminal that cannot rewrite a line is treated as a file.
bool can_rewrite() {
  const char* const kind = std::getenv("TERM");
  return is_terminal(STDOUT_FILENO) && (kind == nullptr || std::string_view(kind) != "dumb");
}

}  // namespace

Progress::Progress() : terminal_(can_rewrite()) {}

void Progress::show(const std::string& name) const {
  if (!terminal_) return;
  std::string line = "[" + std::to_string(std::min(done_ + 1, total_)) + "/" + std::to_string(total_) + "] ";
  if (failed_ > 0) line += std::to_string(failed_) + " failed · ";
  std::cout << "\r\033[K" << fitted(line + name, terminal_columns() - 1) << std::flush;
}

void Progress::clear() const {
  if (terminal_) std::cout << "\r\033[K";
}

}  // namespace tenon::tool
