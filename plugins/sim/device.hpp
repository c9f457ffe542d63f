// SPDX-License-Identifier: Apache-2.0
// device.hpp: an opened device, and its memory.
//
// Invariant: what a profile limits or lacks is refused here in words, before anything is done.
#pragma once

#include "comm.hpp"
#include "engine/card.hpp"
#include "kernel.hpp"
#include "stream.hpp"

#include <tenon/kernel.h>

#include <algorithm>

namespace tenon::sim {

// A block of a card's memory. Only pinned and managed memory may be touched through its address.
class Memory {
 public:
  Memory(std::shared_ptr<Card> card, Arena::Block block, uint64_t bytes)
      : card_(std::move(card)), block_(block), bytes_(bytes) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { card_->arena().give_back(block_); }

  uint64_t bytes() const { return bytes_; }
  Result<uint64_t> address() { return card_->arena().address(block_.offset); }
  Card& card() const noexcept { return *card_; }
  std::byte* inside() const noexcept { return card_->arena().inside(block_.offset); }

 private:
  std::shared_ptr<Card> card_;
  Arena::Block block_;
  uint64_t bytes_;
};

class Device {
 public:
  Device(std::shared_ptr<Card> card, Scheduler& scheduler, comm::Fabric& fabric)
      : card_(std::move(card)), scheduler_(scheduler), fabric_(fabric) {}

  void limits(tn_device_limits& out) const;
  Status memory_info(tn_memory_info& out);
  Result<std::unique_ptr<Memory>> allocate(uint32_t kind, uint64_t bytes, uint64_t alignment);
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& options);
  Result<bool> peer(Device& other);
  Status supports(const tn_fragment& fragment, tn_support& out);
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment& fragment, const tn_compile_options& options);
  Result<std::unique_ptr<Kernel>> load(const tn_fragment& fragment, std::span<const std::byte> saved);
  tn_string_list layouts();
  Result<uint64_t> layout_bytes(const tn_tensor& tensor);
  Result<uint64_t> comm_id_bytes() const { return std::max(profile().comm_id_bytes, comm::least_id_bytes); }
  Status make_comm_id(std::span<std::byte> id);
  Result<std::unique_ptr<Comm>> create_comm(uint32_t rank, uint32_t size, std::span<const std::byte> id,
                                            const tn_comm_options& options);

 private:
  const Profile& profile() const noexcept { return card_->profile(); }

  std::shared_ptr<Card> card_;
  Scheduler& scheduler_;
  comm::Fabric& fabric_;
};

}  // namespace tenon::sim
