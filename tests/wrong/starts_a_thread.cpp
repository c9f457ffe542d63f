// SPDX-License-Identifier: Apache-2.0
// starts_a_thread.cpp: loading the library starts a thread.
#include "wrong.hpp"

#include <unistd.h>

#include <thread>

[[maybe_unused]] static const bool started = [] {
  std::thread([] {
    while (true) pause();
  }).detach();
  return true;
}();

extern "C" TN_EXPORT const tn_plugin* tn_plugin_entry(const tn_host* host, tn_error* error) {
  return honest_entry(host, error);
}
