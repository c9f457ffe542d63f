// SPDX-License-Identifier: Apache-2.0
// ipc_ticket.cpp: tickets as bytes.
#include "ipc_ticket.hpp"

#include <tenon/author/text.hpp>

#include <cstring>

namespace tenon::cuda::ipc {

using author::text;

namespace {

constexpr uint64_t ticket_mark = 0x314B'5449'5543'4E54;  // "TNCUITK1"

// As a ticket is carried. Another layout takes another mark.
struct Carried {
  uint64_t mark = ticket_mark;
  Ticket ticket{};
  uint64_t sum = 0;
};
static_assert(sizeof(Carried) == ticket_bytes);

// FNV-1a of all before the sum: finds damage, proves nothing.
uint64_t sum_of(const Carried& carried) noexcept {
  std::array<unsigned char, offsetof(Carried, sum)> bytes{};
  std::memcpy(bytes.data(), &carried, bytes.size());
  uint64_t out = 0xCBF2'9CE4'8422'2325;
  for (const unsigned char byte : bytes) out = (out ^ byte) * 0x100'0000'01B3;
  return out;
}

}  // namespace

std::string words_of(const DeviceId& device) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < device.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += digits[device[i] >> 4];
    out += digits[device[i] & 15];
  }
  return out;
}

Status Ticket::write(std::span<std::byte> bytes) const {
  if (bytes.size() != ticket_bytes) {
    return Status(TN_INVALID, text("a ticket of plugin 'cuda' takes ", ticket_bytes, " bytes, and there are ",
                                   bytes.size(), ": ask ticket_bytes"));
  }
  Carried carried{.ticket = *this};
  carried.sum = sum_of(carried);
  std::memcpy(bytes.data(), &carried, sizeof carried);
  return {};
}

Result<Ticket> Ticket::read(std::span<const std::byte> bytes) {
  if (bytes.size() != ticket_bytes) {
    return Status(TN_INVALID,
                  text("a ticket of plugin 'cuda' has ", ticket_bytes, " bytes, and this one has ",
                       bytes.size(), ": carry all of what export_memory wrote, and nothing besides"));
  }
  Carried carried;
  std::memcpy(&carried, bytes.data(), sizeof carried);
  if (carried.mark != ticket_mark) {
    return Status(
        TN_INVALID,
        "this ticket was not written by plugin 'cuda' of this version: open it with the plugin that "
        "wrote it");
  }
  if (carried.sum != sum_of(carried)) {
    return Status(TN_INVALID,
                  "this ticket was damaged on its way: carry its bytes as export_memory wrote them");
  }
  return carried.ticket;
}

}  // namespace tenon::cuda::ipc
