// SPDX-License-Identifier: Apache-2.0
// system_calls.cpp: see system_calls.hpp.
#include "system_calls.hpp"

#include <cerrno>
#include <csignal>
#include <cstdarg>

#include <fcntl.h>
#include <unistd.h>

using namespace tenon::test;

namespace {

// Counts a call; false where it is to fail instead.
bool goes_on(const char* name, Fate& fate) {
  SystemCalls& calls = system_calls();
  fate = Fate::passes;
  if (!calls.counts) return true;
  calls.made.emplace_back(name);
  if (calls.made.size() == calls.planned) {
    if (calls.before) calls.before();
    fate = calls.fate;
  }
  if (fate == Fate::ends_process) kill(getpid(), SIGKILL);
  if (fate == Fate::fails) errno = calls.error;
  return fate != Fate::fails;
}

// After the call; one of a write is told by its Fate before it.
template <class Result>
Result then(Fate fate, Result result) {
  if (fate == Fate::ends_it_halfway) kill(getpid(), SIGKILL);
  return result;
}

}  // namespace

SystemCalls& tenon::test::system_calls() noexcept {
  static SystemCalls calls;
  return calls;
}

extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_flock(int fd, int how);
int __real_fsync(int fd);
int __real_rename(const char* from, const char* to);
int __real_unlink(const char* path);
ssize_t __real_pwrite(int fd, const void* bytes, size_t count, off_t offset);

// Opening to read changes nothing and is not counted.
int __wrap_open(const char* path, int flags, ...) {
  if ((flags & O_CREAT) == 0) return __real_open(path, flags);
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  Fate fate;
  return goes_on("open", fate) ? then(fate, __real_open(path, flags, mode)) : -1;
}

int __wrap_flock(int fd, int how) {
  Fate fate;
  return goes_on("flock", fate) ? then(fate, __real_flock(fd, how)) : -1;
}

int __wrap_fsync(int fd) {
  Fate fate;
  return goes_on("fsync", fate) ? then(fate, __real_fsync(fd)) : -1;
}

int __wrap_rename(const char* from, const char* to) {
  Fate fate;
  return goes_on("rename", fate) ? then(fate, __real_rename(from, to)) : -1;
}

int __wrap_unlink(const char* path) {
  Fate fate;
  return goes_on("unlink", fate) ? then(fate, __real_unlink(path)) : -1;
}

ssize_t __wrap_pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  Fate fate;
  if (!goes_on("pwrite", fate)) return -1;
  if (fate != Fate::passes) count = (count + 1) / 2;
  return then(fate, __real_pwrite(fd, bytes, count, offset));
}

}  // extern "C"
