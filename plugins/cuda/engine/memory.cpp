// SPDX-License-Identifier: Apache-2.0
// memory.cpp: memory that other processes may open.
#include "memory.hpp"

namespace tenon::cuda {

Result<ipc::Listing> Memory::listing() {
  if (is_borrowed()) {
    return Status(
        TN_UNSUPPORTED,
        "imported memory is its framework's: have that share it, or export memory allocated here, and "
        "copy there");
  }
  const std::lock_guard lock(mutex_);
  if (listing_) return *listing_;
  ipc::Offer offer;
  offer.extent.bytes = bytes_;
  if (storage_ != nullptr) {
    Share share = TN_TRY(storage_->share());
    offer.extent.page_bytes = share.page_bytes;
    offer.extent.offset = share.offset;
    offer.pages = std::move(share.pages);
  }
  partings_.reserve(partings_.size() + 1);  // so that what is listed is withdrawn for certain
  listing_ = TN_TRY(gpu_->exports().add(std::move(offer)));
  partings_.emplace_back([this] { gpu_->exports().withdraw(listing_->number); });
  return *listing_;
}

}  // namespace tenon::cuda
