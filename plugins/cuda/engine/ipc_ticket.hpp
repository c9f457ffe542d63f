// SPDX-License-Identifier: Apache-2.0
// ipc_ticket.hpp: the bytes that let another process open a memory: which device it is on, whom to ask, and the proof.
//
// Invariant: bytes that were damaged, cut, or written by somebody else are told from a ticket before anybody is asked.
#pragma once

#include "ipc_wire.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace tenon::cuda::ipc {

// What the driver calls a device in every process: its UUID.
using DeviceId = std::array<unsigned char, 16>;
// As `nvidia-smi -L` spells it. [any-thread; does not block; may throw bad_alloc]
std::string words_of(const DeviceId& device);

inline constexpr uint64_t ticket_bytes = 72;

struct Ticket {
  DeviceId device{};
  Bits door{};  // the name of the exporter's socket
  uint64_t number = 0;
  Bits key{};

  // TN_INVALID where `bytes` are not as many as a ticket has. [any-thread; does not block; may fail]
  Status write(std::span<std::byte> bytes) const;
  // TN_INVALID. [any-thread; does not block; may fail]
  static Result<Ticket> read(std::span<const std::byte> bytes);
};

}  // namespace tenon::cuda::ipc
