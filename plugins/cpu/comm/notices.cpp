// SPDX-License-Identifier: Apache-2.0
// notices.cpp: see notices.hpp.
#include "notices.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cpu::comm {

Notices::Notices(const tn_store* store, uint64_t number)
    : store_(store), prefix_(author::text("cpu/", number, "/")) {}

Status Notices::post(const std::string& key, std::string_view value) const {
  tn_error error = no_error();
  return status_of(store_->set(store_->context, (prefix_ + key).c_str(), value.data(), value.size(), &error),
                   error);
}

Result<std::string> Notices::read(const std::string& key, uint64_t deadline) const {
  std::string value(4096, '\0');
  for (;;) {
    const uint64_t now = driver::now_ns(), left = deadline == driver::never ? driver::never
                                                  : deadline > now          ? deadline - now
                                                                            : 0;
    tn_error error = no_error();
    uint64_t bytes = 0;
    TN_TRY(status_of(store_->get(store_->context, (prefix_ + key).c_str(), value.data(), value.size(), &bytes,
                                 left, &error),
                     error));
    const bool whole = bytes <= value.size();
    value.resize(bytes);
    if (whole) return value;
  }
}

bool Notices::has(const std::string& key) const { return read(key, 0).ok(); }

}  // namespace tenon::cpu::comm
