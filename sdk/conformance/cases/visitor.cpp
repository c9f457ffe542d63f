// SPDX-License-Identifier: Apache-2.0
// visitor.cpp: one process, listened to until it ends or patience does.
#include "conformance/cases/visitor.hpp"

#include "conformance/case.hpp"
#include "conformance/comm/seat.hpp"
#include "conformance/process.hpp"
#include "conformance/protocol.hpp"

#include <chrono>

namespace tenon::conform {

bool is_visitor() noexcept { return stage().seat.size != 0; }

Status send_visitor(Context& t, const std::string& folder, const std::string& who) {
  Request request;
  request.settings = t.settings();
  request.round = stage().round;
  request.cases.emplace_back(t.wanted()->name);
  request.seat = {.meeting = 0, .rank = 1, .size = 2, .folder = folder};
  Process process = TN_TRY(Process::start(own_command(), encode(request)));
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(2 * t.settings().patience_ns);
  std::optional<Finding> found;
  std::optional<End> over;
  while (!over && std::chrono::steady_clock::now() < end) {
    wait_for_any({process.connection()}, 5);
    over = process.ended();
    while (const auto text = process.receive()) {
      const auto message = decode_message(*text);
      if (message.ok() && message->kind == Message::Kind::end) found = message->finding;
    }
  }
  TN_TRY(t.require(over.has_value(), who, " does not come back: ",
                   hang_of(process.trail(), 2e-9 * static_cast<double>(t.settings().patience_ns))));
  TN_TRY(t.require(found.has_value(), who, " ended without a word"));
  return t.require(found->failures.empty(), "in ", who, ": ",
                   found->failures.empty() ? "" : found->failures.front());
}

}  // namespace tenon::conform
