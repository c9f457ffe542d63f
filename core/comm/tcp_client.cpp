// SPDX-License-Identifier: Apache-2.0
// tcp_client.cpp: a store that another process serves.
//
// Each call has a connection to itself, taken from those that are idle or made anew, so a long `get` holds nobody up.
// Invariant: a connection on which anything failed is closed, never used again.
#include "base/socket.hpp"
#include "comm/wire.hpp"

#include <algorithm>
#include <thread>

namespace tenon::comm {
namespace {

using base::Deadline;
using base::Socket;

struct TcpStore final : detail::StoreState {
  TcpStore(base::Numbers at, std::string secret) : where(std::move(at)), token(std::move(secret)) {
    address = where.text();
    server = "rank 0 or another process";
  }

  Status set(std::string_view key, std::string_view value, const Deadline& deadline) override {
    auto answer = ask('S', key, value, deadline);
    return answer.ok() ? Status() : std::move(answer).failure();
  }
  Result<std::string> get(std::string_view key, const Deadline& deadline) override {
    auto answer = ask('G', key, {}, deadline);
    if (answer.code() == TN_TIMEOUT) return missing(key, address);
    return answer;
  }
  Result<std::optional<std::string>> look(std::string_view key, const Deadline& deadline) override {
    auto answer = ask('L', key, {}, deadline);
    if (answer.code() == TN_NOT_FOUND) return std::optional<std::string>();
    if (!answer.ok()) return std::move(answer).failure();
    return std::optional(*std::move(answer));
  }

  Result<std::string> ask(char what, std::string_view key, std::string_view value, const Deadline& deadline) {
    Socket line = TN_TRY(connection(deadline));
    const std::string body = what + number_text(key.size(), 2) + std::string(key) + std::string(value);
    TN_TRY(named(line.send(framed(body), deadline)));
    auto answer = reply(line, deadline);
    if (answer.ok() || answer.code() == TN_INVALID || answer.code() == TN_NOT_FOUND) {
      const std::lock_guard lock(mutex);
      idle.push_back(std::move(line));
    }
    return answer;
  }

  Result<Socket> connection(const Deadline& deadline) {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        Socket line = std::move(idle.back());
        idle.pop_back();
        return line;
      }
    }
    auto line = Socket::connect(where, deadline);
    if (!line.ok()) return named(Status(line.error()));
    return introduced(*std::move(line), deadline);
  }

  Result<Socket> introduced(Socket line, const Deadline& deadline) const {
    std::string hello(wire_magic.size() + challenge_bytes, '\0');
    TN_TRY(named(line.receive(hello, deadline)));
    if (!hello.starts_with(wire_magic))
      return Status(TN_INVALID,
                    "what listens on " + address + " is no store of this version: is the port right?");
    TN_TRY(named(line.send(proof_of(token, std::string_view(hello).substr(wire_magic.size())), deadline)));
    auto welcome = reply(line, deadline);
    if (!welcome.ok()) return std::move(welcome).failure();
    return line;
  }

  // The answer's value, or the failure that it tells.
  Result<std::string> reply(Socket& line, const Deadline& deadline) const {
    std::string length(length_bytes, '\0');
    TN_TRY(named(line.receive(length, deadline)));
    const uint64_t size = number_in(length);
    if (size == 0 || size > largest_frame)
      return Status(TN_PEER_LOST, "the store " + address + " answers nonsense: is the port right?");
    std::string body(size, '\0');
    TN_TRY(named(line.receive(body, deadline)));
    const auto code = static_cast<int32_t>(static_cast<unsigned char>(body.front()));
    body.erase(0, 1);
    if (code == TN_OK) return body;
    return Status(code, std::move(body));
  }

  // A connection's failure, with who is to be looked after.
  Status named(Status status) const {
    if (status.ok()) return status;
    Error error = status.error();
    const bool silent = error.code == TN_TIMEOUT;
    error.message = "the store " + address + ", which " + server + " serves, " +
                    (silent ? "does not answer (" : "is lost (") + error.message + "): see " +
                    (silent ? "whether that still runs, and its host can be reached"
                            : "how that ended; a new run makes a new one");
    return Status(std::move(error));
  }

  const base::Numbers where;
  const std::string token;
  std::mutex mutex;  // of idle
  std::vector<Socket> idle;
};

}  // namespace

// The one who serves may start later than those who ask.
Result<std::shared_ptr<detail::StoreState>> make_tcp_client(const std::string& address,
                                                            const std::string& token, Timeout timeout) {
  const base::Address asked = TN_TRY(base::Address::parse(address));
  auto store = std::make_shared<TcpStore>(TN_TRY(base::Numbers::of(asked)), token);
  const Deadline deadline(timeout);
  for (std::chrono::milliseconds pause(2);; pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    auto line = Socket::connect(store->where, deadline);
    if (line.ok()) line = store->introduced(*std::move(line), deadline);
    if (line.ok()) {
      store->idle.push_back(*std::move(line));
      return std::shared_ptr<detail::StoreState>(std::move(store));
    }
    if (line.code() != TN_PEER_LOST) return std::move(line).failure();
    if (deadline.passed()) {
      return Status(TN_TIMEOUT, std::string(line.message()) +
                                    ", until the time was over: does rank 0 serve the store there?");
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
  }
}

}  // namespace tenon::comm
