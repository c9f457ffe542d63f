// SPDX-License-Identifier: Apache-2.0
// host.hpp: the host's services as an author uses them.
//
// Invariant: a service that the host does not offer behaves as host.h states for its absence; no call fails
// for it.
#pragma once

#include <tenon/host.h>
#include <tenon/author/structs.hpp>

#include <cerrno>
#include <cstdlib>
#include <type_traits>

namespace tenon::author {

// Cheap to copy; valid for the plugin's life. A default-made Host is silent and has no options.
class Host {
 public:
  Host() = default;
  Host(const tn_host* table, const char* plugin) noexcept : table_(table), plugin_(plugin) {}

  // Writes one line at TN_LOG_… level, under the plugin's name. [any-thread; does not block; cannot fail]
  void log(int32_t level, const std::string& line) const noexcept {
    if (auto* write = service(&tn_host::log)) write(table_->context, level, plugin_, line.c_str());
  }
  // The most talkative level that is passed on. [any-thread; does not block; cannot fail]
  int32_t log_level() const noexcept {
    auto* ask = service(&tn_host::log_level);
    return ask != nullptr ? ask(table_->context) : TN_LOG_WARN;
  }
  // Whether a line of `level` would be seen; ask before building a costly one. [any-thread; does not block]
  bool logs(int32_t level) const noexcept { return level <= log_level(); }

  // The text of option `key` for this plugin, or nullptr. [any-thread; does not block; cannot fail]
  const char* option(const char* key) const noexcept {
    auto* ask = service(&tn_host::option);
    return ask != nullptr ? ask(table_->context, plugin_, key) : nullptr;
  }
  // The same as a whole number in [low, high]; `absent` when it is not set. TN_INVALID names key, value and
  // range. [any-thread; does not block; may fail]
  Result<int64_t> integer(const char* key, int64_t absent, int64_t low, int64_t high) const {
    const char* value = option(key);
    if (value == nullptr) return absent;
    char* end = nullptr;
    errno = 0;
    const int64_t number = std::strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < low || number > high) {
      return Status(TN_INVALID, text("option '", key, "' of plugin '", plugin_, "' is '", value,
                                     "': it must be a whole number from ", low, " to ", high));
    }
    return number;
  }

  // Host memory, or nullptr. Give it back to `release` with the same figures. [any-thread; may block; may
  // fail]
  void* allocate(uint64_t bytes, uint64_t alignment) const noexcept {
    if (auto* take = service(&tn_host::allocate)) return take(table_->context, bytes, alignment);
    const uint64_t unit = alignment < sizeof(void*) ? sizeof(void*) : alignment;
    return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  }
  void release(void* memory, uint64_t bytes, uint64_t alignment) const noexcept {
    auto* take = service(&tn_host::allocate);
    auto* give = service(&tn_host::release);
    if (take != nullptr && give != nullptr) give(table_->context, memory, bytes, alignment);
    if (take == nullptr) std::free(memory);
  }

  // One event on the host's timeline (TN_TRACE_…). [any-thread; does not block; cannot fail]
  void trace(int32_t kind, const char* name, uint64_t id, double value = 0) const noexcept {
    if (auto* tell = service(&tn_host::trace)) tell(table_->context, kind, name, id, value);
  }

  // Whether the framework lends its threads; without them a plugin uses its own. [any-thread; does not block]
  bool lends_threads() const noexcept { return service(&tn_host::parallel_for) != nullptr; }
  // Runs body(begin, end) over [0, count) on the framework's threads; only when lends_threads(). `body` must
  // not throw. [any-thread; blocks; cannot fail]
  template <class Body>
  void parallel_for(uint64_t count, uint64_t grain, Body&& body) const {
    using Function = std::remove_reference_t<Body>;
    service (&tn_host::parallel_for)(
        table_->context, count, grain,
        [](void* argument, uint64_t begin, uint64_t end) { (*static_cast<Function*>(argument))(begin, end); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  // "libtenon 0.1.0", or "" without a host. [any-thread; does not block; cannot fail]
  const char* name() const noexcept {
    const char* const* text = member(&tn_host::name);
    return text != nullptr && *text != nullptr ? *text : "";
  }
  const tn_host* table() const noexcept { return table_; }

 private:
  // The member's address, or nullptr when it lies outside the host's size.
  template <class Member>
  const Member* member(Member tn_host::*which) const noexcept {
    if (table_ == nullptr) return nullptr;
    const Member* place = &(table_->*which);
    const auto end = reinterpret_cast<const char*>(place + 1) - reinterpret_cast<const char*>(table_);
    return static_cast<size_t>(end) <= table_->header.size ? place : nullptr;
  }
  template <class Function>
  Function* service(Function* tn_host::*which) const noexcept {
    auto* place = member(which);
    return place != nullptr ? *place : nullptr;
  }

  const tn_host* table_ = nullptr;
  const char* plugin_ = "";
};

}  // namespace tenon::author
