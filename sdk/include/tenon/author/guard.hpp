// SPDX-License-Identifier: Apache-2.0
// guard.hpp: the border every call crosses on its way into a plugin.
//
// Invariant: no exception leaves a guarded call, no error leaves without a code, a speaker and a message, and
// nothing but a farewell is answered in a forked child. The good path costs two tests.
#pragma once

#include <tenon/author/structs.hpp>

#include <atomic>
#include <exception>
#include <new>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace tenon::author {

// Set in the child of a fork: the parent's threads and driver contexts do not exist there.
inline bool forked_child = false;

// Starts watching for forks, once. [any-thread; does not block; cannot fail]
inline void watch_forks() noexcept {
#if !defined(_WIN32)
  static std::atomic_flag watching = ATOMIC_FLAG_INIT;
  if (!watching.test_and_set()) pthread_atfork(nullptr, nullptr, [] { forked_child = true; });
#endif
}

// Tells the caller of a failure, in `speaker`'s name unless the error names its own domain, and returns its
// code. [any-thread; does not block; cannot fail]
[[gnu::cold, gnu::noinline]] inline int32_t report(const Error& failure, const char* speaker,
                                                   tn_error* out) noexcept {
  if (out == nullptr) return failure.code;
  tn_error full = no_error();
  write_error(failure, &full);
  if (failure.domain == "tenon") set_text(full.domain, speaker);
  write_out(full, out);
  constexpr size_t text_begin = offsetof(tn_error, message);
  if (out->size > text_begin && out->size < sizeof full) reinterpret_cast<char*>(out)[out->size - 1] = '\0';
  return failure.code;
}

// The same for a plain text that must not allocate.
[[gnu::cold, gnu::noinline]] inline int32_t report(int32_t code, const char* words, const char* speaker,
                                                   tn_error* out) noexcept {
  if (out == nullptr) return code;
  tn_error full = no_error();
  full.code = code;
  set_text(full.domain, speaker);
  set_text(full.message, words);
  write_out(full, out);
  constexpr size_t text_begin = offsetof(tn_error, message);
  if (out->size > text_begin && out->size < sizeof full) reinterpret_cast<char*>(out)[out->size - 1] = '\0';
  return code;
}

// Turns the exception being handled into an error. [inside a catch block; does not block; cannot fail]
[[gnu::cold, gnu::noinline]] inline int32_t report_exception(const char* speaker, tn_error* out) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return report(TN_NO_MEMORY, "out of host memory: free some, or run with less", speaker, out);
  } catch (const std::exception& escaped) {
    return report(TN_INTERNAL, escaped.what(), speaker, out);
  } catch (...) {
    return report(TN_INTERNAL,
                  "an exception that is no std::exception escaped: report it to the plugin's vendor", speaker,
                  out);
  }
}

[[gnu::cold, gnu::noinline]] inline int32_t report_fork(const char* speaker, tn_error* out) noexcept {
  return report(
      TN_INVALID,
      "this process was forked after the plugin was loaded: devices do not survive a fork; start it with "
      "spawn, or load the plugin in the child",
      speaker, out);
}

// Runs `body`, which returns Status, without asking whether this is a forked child: for the calls that have
// to be fast and ask it among their other tests. [any-thread; as `body`]
template <class Plugin, class Body>
[[gnu::always_inline]] inline int32_t called(tn_error* error, Body&& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) [[likely]]
      return TN_OK;
    return report(status.error(), Plugin::identity.name, error);
  } catch (...) {
    return report_exception(Plugin::identity.name, error);
  }
}

// Runs `body`, which returns Status, behind the border. Every trampoline of the framework does; an author's
// own extension tables use it the same way. [any-thread; as `body`]
template <class Plugin, class Body>
int32_t guarded(tn_error* error, Body&& body) noexcept {
  if (forked_child) [[unlikely]]
    return report_fork(Plugin::identity.name, error);
  return called<Plugin>(error, body);
}

// The same for destroy, free and close: in a forked child the handle is forgotten and nothing of it is
// touched, because its threads and its driver stayed with the parent.
template <class Plugin, class Body>
int32_t farewell(tn_error* error, Body&& body) noexcept {
  if (forked_child) [[unlikely]]
    return TN_OK;
  return guarded<Plugin>(error, body);
}

[[gnu::cold, gnu::noinline]] inline Status is_null(const char* what) {
  return Status(TN_INVALID, text(what, " is NULL"));
}

}  // namespace tenon::author
