// SPDX-License-Identifier: Apache-2.0
// breadcrumb.cpp: one small page shared between a worker and its runner.
#include "conformance/breadcrumb.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tenon::conform {

namespace {

thread_local char* page = nullptr;  // set on the main thread alone

}  // namespace

void share_breadcrumb(int descriptor) noexcept {
  void* const mapped = mmap(nullptr, breadcrumb_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped != MAP_FAILED) page = static_cast<char*>(mapped);
  close(descriptor);
}

void leave_breadcrumb(std::string_view what) noexcept {
  if (page == nullptr) return;
  const size_t length = std::min(what.size(), breadcrumb_bytes - 1);
  std::memcpy(page, what.data(), length);
  page[length] = '\0';
}

std::string read_breadcrumb(int descriptor) {
  char text[breadcrumb_bytes] = {};
  const ssize_t got = pread(descriptor, text, sizeof text - 1, 0);
  return got > 0 ? std::string(text, strnlen(text, static_cast<size_t>(got))) : std::string();
}

}  // namespace tenon::conform
