// SPDX-License-Identifier: Apache-2.0
// ipc.cpp: tn.ipc/1: the other side is this case again, in a process of its own, with a folder between them.
//
// Invariant: whoever opens the memory is gone before the exporter lets it go.
#include "conformance/case.hpp"
#include "conformance/cases/visitor.hpp"
#include "conformance/comm/seat.hpp"
#include "conformance/comm/store.hpp"
#include "conformance/extensions.hpp"
#include "conformance/objects.hpp"

namespace tenon::conform {

namespace {

constexpr uint64_t shared_bytes = 70'001;

Result<const tn_ipc_api*> ipc_of(Context& t) {
  return extension_of<tn_ipc_api>(t, TN_IPC_ID, [](const tn_ipc_api& api) {
    return api.ticket_bytes != nullptr && api.export_memory != nullptr && api.open_memory != nullptr;
  });
}

Result<Bytes> ticket_for(Context& t, const Device& device, const tn_ipc_api& api, const Memory& memory) {
  uint64_t bytes = 0;
  TN_TRY(
      t.call("ipc.ticket_bytes", [&](tn_error* e) { return api.ticket_bytes(device.handle(), &bytes, e); }));
  TN_TRY(t.require(bytes > 0 && bytes <= 1 << 20, "a ticket of ", bytes, " bytes"));
  Bytes out(bytes);
  TN_TRY(t.call("ipc.export_memory",
                [&](tn_error* e) { return api.export_memory(memory.handle(), out.data(), bytes, e); }));
  return out;
}

Result<Memory> open_ticket(Context& t, const Device& device, const tn_ipc_api& api, const Bytes& ticket) {
  tn_memory* made = nullptr;
  TN_TRY(t.call("ipc.open_memory", [&](tn_error* e) {
    return api.open_memory(device.handle(), ticket.data(), ticket.size(), &made, e);
  }));
  TN_TRY(t.require(made != nullptr, "ipc.open_memory said TN_OK and gave no memory"));
  return Memory(t, device.api(), made, shared_bytes);
}

// What the other process does: it finds what was written, and writes the same bytes in reverse.
Status visit(Context& t, const Device& device, const tn_ipc_api& api, const FolderStore& store) {
  const uint64_t patience = t.settings().patience_ns;
  const Bytes ticket = TN_TRY(store.get("ticket", patience))
  , sent = TN_TRY(store.get("sent", patience));
  const Memory memory = TN_TRY(open_ticket(t, device, api, ticket));
  const Stream stream = TN_TRY(device.stream());
  same_bytes(t, sent, TN_TRY(download(stream, memory.span())), "the memory, in the process that opened it");
  return upload(stream, memory.span(), Bytes(sent.rbegin(), sent.rend()));
}

}  // namespace

CONFORM_CASE(0, "ipc: another process opens the memory, reads it and writes it", .alone = true) {
  const tn_ipc_api& api = *TN_TRY(ipc_of(t));
  const Device& device = *TN_TRY(t.device());
  const Bytes sent = random_bytes(t.random(), shared_bytes);
  if (is_visitor()) return visit(t, device, api, FolderStore(stage().seat.folder));
  const MeetingPlace place = TN_TRY(MeetingPlace::make());
  const FolderStore store(place.folder());
  const Memory memory = TN_TRY(device.alloc(shared_bytes));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(upload(stream, memory.span(), sent));
  TN_TRY(store.set("ticket", TN_TRY(ticket_for(t, device, api, memory))));
  TN_TRY(store.set("sent", sent));
  TN_TRY(send_visitor(t, place.folder(), "the process that opens the memory"));
  same_bytes(t, Bytes(sent.rbegin(), sent.rend()), TN_TRY(download(stream, memory.span())),
             "the memory, after another process wrote it");
  return {};
}

CONFORM_CASE(0, "ipc: a ticket that nobody wrote is refused") {
  const tn_ipc_api& api = *TN_TRY(ipc_of(t));
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  Bytes ticket = TN_TRY(ticket_for(t, device, api, memory));
  for (std::byte& one : ticket) one = ~one;
  t.check(!open_ticket(t, device, api, ticket).ok(), "a ticket of other bytes was opened");
  ticket.pop_back();
  t.check(!open_ticket(t, device, api, ticket).ok(), "a ticket that is a byte short was opened");
  return {};
}

}  // namespace tenon::conform
