// SPDX-License-Identifier: Apache-2.0
// structs.hpp: reading and writing structs whose other side may know fewer or more members than we do.
//
// Invariant: nothing outside the caller's `size` is ever read or written; what lies outside reads as zero.
#pragma once

#include <tenon/author/text.hpp>
#include <tenon/result.hpp>

#include <algorithm>
#include <cstring>

namespace tenon::author {

// A caller's struct as this SDK knows it. Borrowed when it is complete, copied and zero-extended when it is
// short; NULL reads as all zero. [any-thread; does not block; cannot fail]
template <class Struct>
class Incoming {
 public:
  explicit Incoming(const Struct* in) noexcept {
    if (in != nullptr && in->size >= sizeof(Struct)) {
      view_ = in;
      return;
    }
    std::memset(static_cast<void*>(&copy_), 0, sizeof copy_);
    if (in != nullptr) std::memcpy(static_cast<void*>(&copy_), in, in->size);
    copy_.size = sizeof(Struct);
  }
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  const Struct& operator*() const noexcept { return *view_; }
  const Struct* operator->() const noexcept { return view_; }

 private:
  Struct copy_;
  const Struct* view_ = &copy_;
};

// A struct to fill in full, before `write_out` hands over the part the caller knows.
template <class Struct>
Struct outgoing() noexcept {
  Struct full;
  std::memset(static_cast<void*>(&full), 0, sizeof full);
  full.size = sizeof full;
  return full;
}

// Copies what fits into the caller's struct; its `size` stays the caller's.
template <class Struct>
void write_out(const Struct& full, Struct* out) noexcept {
  const size_t known = std::min<size_t>(out->size, sizeof full);
  constexpr size_t skip = sizeof full.size;
  if (known <= skip) return;
  std::memcpy(reinterpret_cast<char*>(out) + skip, reinterpret_cast<const char*>(&full) + skip, known - skip);
}

// TN_INVALID when an out-struct is missing or its size was never set.
template <class Struct>
Status check_out(const Struct* out, const char* name) {
  if (out == nullptr) return Status(TN_INVALID, text(name, " is NULL: pass a struct to fill"));
  if (out->size < sizeof out->size) {
    return Status(TN_INVALID,
                  text(name, ".size is ", out->size, ": set it to sizeof(", name, ") before the call"));
  }
  return {};
}

// The link with `id`, or nullptr. Its `size` says how much of the struct it heads may be read.
inline const tn_link* find_link(const tn_link* first, std::string_view id) noexcept {
  for (const tn_link* link = first; link != nullptr; link = link->next) {
    if (link->id != nullptr && link->id == id) return link;
  }
  return nullptr;
}

}  // namespace tenon::author
