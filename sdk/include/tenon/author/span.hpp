// SPDX-License-Identifier: Apache-2.0
// span.hpp: deciding whether a span may be touched, and finding its bytes on host-memory devices.
//
// Invariant: an author never sees a span that reaches outside its memory or names a space its call does not
// take. The check is a few compares; every word about what is wrong is said off the fast path.
#pragma once

#include <tenon/author/handle.hpp>
#include <tenon/author/instance.hpp>

#include <span>

namespace tenon::author {

// Which spaces a call takes.
enum class Spaces { device, device_or_host };

// True for the ordinary case, a range inside a memory. [any-thread; does not block; cannot fail]
template <class Plugin>
[[gnu::always_inline]] inline bool inside_memory(const tn_span& span) noexcept {
  if ((span.space | span.reserved) != 0 || span.memory == nullptr) return false;
  const uint64_t size = Handles<Plugin>::of(span.memory).bytes;
  return span.offset <= size && span.bytes <= size - span.offset;
}

// True when `span` may be used. [any-thread; does not block; cannot fail]
template <class Plugin>
bool span_fits(const tn_span& span, Spaces spaces) noexcept {
  if (inside_memory<Plugin>(span)) return true;
  if (span.reserved != 0) return false;
  if (span.bytes == 0) return span.space <= TN_SPACE_HOST_ADDRESS;
  if (span.space == TN_SPACE_HOST_ADDRESS) return spaces == Spaces::device_or_host && span.offset != 0;
  return span.space == TN_SPACE_DEVICE_ADDRESS && span.offset != 0 &&
         (Instance<Plugin>::features & TN_FEATURE_ADDRESSABLE) != 0;
}

// Says why a span is refused; TN_OK for an empty one, which is legal wherever it points.
template <class Plugin>
[[gnu::cold, gnu::noinline]] Status explain_span(const tn_span& span, Spaces spaces, std::string_view what) {
  if (span.space > TN_SPACE_HOST_ADDRESS) {
    return Status(TN_INVALID,
                  text(what, ": space ", span.space, " does not exist; use a TN_SPACE_ constant"));
  }
  if (span.reserved != 0)
    return Status(TN_INVALID, text(what, ": reserved is ", span.reserved, ", not zero"));
  if (span.bytes == 0) return {};
  if (span.space == TN_SPACE_MEMORY && span.memory == nullptr) {
    return Status(TN_INVALID, text(what, ": memory is NULL for ", span.bytes, " bytes"));
  }
  if (span.space == TN_SPACE_MEMORY) {
    return Status(TN_INVALID, text(what, ": offset ", span.offset, " + ", span.bytes,
                                   " bytes reaches outside a memory of ",
                                   Handles<Plugin>::of(span.memory).bytes, " bytes"));
  }
  if (span.offset == 0)
    return Status(TN_INVALID, text(what, ": the address is NULL for ", span.bytes, " bytes"));
  if (span.space == TN_SPACE_HOST_ADDRESS && spaces == Spaces::device) {
    return Status(TN_INVALID,
                  text(what, ": a host address is legal in copies only; copy it into a memory first"));
  }
  return Status(TN_INVALID,
                text(what,
                     ": this plugin takes no device addresses (no feature ADDRESSABLE); name a memory "
                     "and an offset"));
}

// Passes a span that may be used, refuses another in words.
template <class Plugin>
Status check_span(const tn_span& span, Spaces spaces, std::string_view what) {
  if (span_fits<Plugin>(span, spaces)) [[likely]]
    return {};
  return explain_span<Plugin>(span, spaces, what);
}

// Where a span's bytes are, for devices whose memory is host memory (feature HOST_MEMORY). Memory gives
// `data()`. An empty span without a memory is nullptr. [any-thread; does not block; cannot fail]
template <class Memory>
std::byte* data_of(const tn_span& span) noexcept {
  if (span.space != TN_SPACE_MEMORY) return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(span.offset));
  if (span.memory == nullptr) return nullptr;
  return static_cast<std::byte*>(object<Memory>(span.memory).data()) + span.offset;
}

// The same as a range: bytes_of<Memory>(dst).
template <class Memory>
std::span<std::byte> bytes_of(const tn_span& span) noexcept {
  return {data_of<Memory>(span), static_cast<size_t>(span.bytes)};
}

// The same as elements: elements_of<float, Memory>(binding). The contract aligns bindings to their element.
template <class Element, class Memory>
std::span<Element> elements_of(const tn_span& span) noexcept {
  return {reinterpret_cast<Element*>(data_of<Memory>(span)),
          static_cast<size_t>(span.bytes / sizeof(Element))};
}

}  // namespace tenon::author
