// SPDX-License-Identifier: Apache-2.0
// notices.cpp: see notices.hpp.
#include "notices.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu::comm {

namespace {
// How long a cancelled one may go on to wait; each slice may cost the store a connection.
constexpr uint64_t slice_ns = 1'000'000'000;
}  // namespace

Notices::Notices(const tn_store* store, uint64_t number, const std::atomic<bool>* cancelled)
    : store_(store), cancelled_(cancelled), prefix_(author::text("cpu/", number, "/")) {}

Status Notices::post(const std::string& key, std::string_view value) const {
  tn_error error = no_error();
  return status_of(store_->set(store_->context, (prefix_ + key).c_str(), value.data(), value.size(), &error),
                   error);
}

Result<std::string> Notices::look(const std::string& key, uint64_t patience_ns) const {
  std::string value(4096, '\0');
  for (;;) {
    tn_error error = no_error();
    uint64_t bytes = 0;
    TN_TRY(status_of(store_->get(store_->context, (prefix_ + key).c_str(), value.data(), value.size(), &bytes,
                                 patience_ns, &error),
                     error));
    const bool whole = bytes <= value.size();
    value.resize(bytes);
    if (whole) return value;
  }
}

Result<std::string> Notices::read(const std::string& key, uint64_t deadline) const {
  for (;;) {
    const uint64_t now = driver::now_ns(), left = deadline > now ? deadline - now : 0;
    auto found = look(key, std::min(left, slice_ns));
    if (found.code() != TN_TIMEOUT || left <= slice_ns) return found;
    if (cancelled()) return Status(TN_ABORTED, "this rank gave up while it waited for the others");
  }
}

bool Notices::has(const std::string& key, uint64_t patience_ns) const { return look(key, patience_ns).ok(); }

}  // namespace tenon::cpu::comm
