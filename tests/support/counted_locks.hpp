// SPDX-License-Identifier: Apache-2.0
// counted_locks.hpp: counts every mutex that a thread locks, in the program and in what it loads.
//
// Invariant: it stands before libc's pthread_mutex_lock, so one source of a program includes it, and the program exports it;
// TSan has its own, so such a program is not built there.
#pragma once

#include <cstdint>

#include <dlfcn.h>
#include <pthread.h>

namespace tenon::test {

inline thread_local uint64_t own_locks = 0;  // the calling thread's

}  // namespace tenon::test

extern "C" [[gnu::visibility("default")]] int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static const auto next = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++tenon::test::own_locks;
  return next(mutex);
}
