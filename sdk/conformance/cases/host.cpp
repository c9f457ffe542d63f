// SPDX-License-Identifier: Apache-2.0
// host.cpp: older, newer, bare and foreign hosts. Each case makes the process's first entry call, so each is alone.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/guard.hpp"

#include <cstddef>
#include <cstring>

namespace tenon::conform {

namespace {

// A call of the entry as a call that returns a code: NULL must have left one.
Status enter_said(Context& t, const Library& library, const tn_host& host, const char* what) {
  return t.call(what, [&](tn_error* e) {
    const tn_plugin* plugin = library.entry(&host, e);
    return plugin != nullptr ? static_cast<int32_t>(TN_OK) : e->code;
  });
}

}  // namespace

CONFORM_CASE(0, "abi: a host that knows less is served", .alone = true) {
  // The table ends after its name, right before a page that faults: no service is there to be read.
  const Fenced place(offsetof(tn_host, log));
  tn_host shorter = t.host().table;
  shorter.header.size = offsetof(tn_host, log);
  std::memcpy(place.data(), &shorter, place.bytes().size());
  TN_TRY(t.enter(*reinterpret_cast<const tn_host*>(place.data())));
  return tour(t);
}

CONFORM_CASE(0, "abi: a newer host is served", .alone = true) {
  struct NewerHost {
    tn_host known;
    std::byte unknown[512];
  } newer{.known = t.host().table, .unknown = {}};
  std::memset(newer.unknown, 0xFF, sizeof newer.unknown);
  newer.known.header = {.size = sizeof newer, .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR + 9};
  const Tables& api = *TN_TRY(t.enter(newer.known));
  t.check(api.copy.header.major == TN_ABI_MAJOR, "a host of ABI ", TN_ABI_MAJOR, ".0 … ", TN_ABI_MAJOR, ".",
          TN_ABI_MINOR + 9, " was given a descriptor of ", api.copy.header.major, ".", api.copy.header.minor);
  return tour(t);
}

CONFORM_CASE(0, "abi: a host without services is served", .alone = true) {
  static tn_host bare = t.host().table;  // outlives the plugin
  bare.log = nullptr;
  bare.log_level = nullptr;
  bare.allocate = nullptr;
  bare.release = nullptr;
  bare.option = nullptr;
  bare.trace = nullptr;
  bare.parallel_for = nullptr;
  TN_TRY(t.enter(bare));
  return tour(t);
}

CONFORM_CASE(0, "abi: a host of another major version is refused with TN_VERSION", .alone = true) {
  const Library library = TN_TRY(t.library());
  tn_host future = t.host().table;
  future.header.major = future.min_major = TN_ABI_MAJOR + 1;
  const Status ahead = enter_said(t, library, future, "tn_plugin_entry for a host of the next major version");
  t.check(ahead.code() == TN_VERSION, "expected NULL with TN_VERSION, got ",
          ahead.ok() ? "a descriptor" : ahead.message());
  tn_host past = t.host().table;
  past.header.major = past.min_major = TN_ABI_MAJOR - 1;
  past.header.minor = past.min_minor = 9;
  const Status behind = enter_said(t, library, past, "tn_plugin_entry for a host of the last major version");
  t.check(behind.code() == TN_VERSION, "expected NULL with TN_VERSION, got ",
          behind.ok() ? "a descriptor" : behind.message());
  t.check(library.entry(&future, nullptr) == nullptr,
          "without a tn_error the refused host was given a descriptor");
  return tour(t);  // a refusal is no reason to refuse the next host
}

}  // namespace tenon::conform
