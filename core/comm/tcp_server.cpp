// SPDX-License-Identifier: Apache-2.0
// tcp_server.cpp: the store that rank 0 keeps for all: one thread, all connections.
//
// Invariant: a client that is silent, wrong or gone costs its own connection and nothing else.
#include "base/socket.hpp"
#include "base/text.hpp"
#include "comm/entries.hpp"
#include "comm/wire.hpp"

#include <algorithm>
#include <list>
#include <random>
#include <thread>

namespace tenon::comm {
namespace {

using base::Deadline;
using base::Socket;

constexpr size_t most_clients = 4096;
// Within this time a new client must prove that it knows the token.
constexpr std::chrono::seconds introduction(5);

std::string challenge() {
  std::random_device device;
  std::string out;
  while (out.size() < challenge_bytes) out += number_text(device(), 4);
  return out;
}

std::string reply(int32_t code, std::string_view words) {
  return framed(static_cast<char>(code) + std::string(words));
}

struct Client {
  Client(Socket line, std::string asked)
      : socket(std::move(line)), nonce(std::move(asked)), expires(introduction) {}
  Socket socket;
  std::string in{}, out{};
  std::string nonce;
  std::string waits_for{};  // a key that is not there yet
  Deadline expires;
  bool known = false;
  bool ends = false;  // once `out` is sent
};

class TcpServer final : public detail::StoreState {
 public:
  TcpServer(Socket listener, base::Bell bell, base::Address at, std::string token)
      : listener_(std::move(listener)), bell_(std::move(bell)), token_(std::move(token)) {
    at.port = listener_.port();
    address = at.text();
    server = "this process";
    if (const std::string numbers = listener_.here(); numbers != address) listens = numbers;
    thread_ = std::thread([this] { serve(); });
  }
  ~TcpServer() override {
    ending_.store(true);
    bell_.ring();
    thread_.join();
  }

  // Rank 0 itself needs no connection.
  Status set(std::string_view key, std::string_view value, const Deadline&) override {
    if (!entries_.add(key, value)) return taken(key, address);
    added_.store(true);
    bell_.ring();
    return {};
  }
  Result<std::string> get(std::string_view key, const Deadline& deadline) override {
    auto value = entries_.find(key, deadline);
    if (!value) return missing(key, address);
    return *std::move(value);
  }
  Result<std::optional<std::string>> look(std::string_view key, const Deadline&) override {
    return entries_.find(key, Deadline(std::chrono::nanoseconds(0)));
  }
  bool serves() const noexcept override { return true; }

 private:
  void serve() {
    while (!ending_.load()) {
      std::vector<base::Interest> interests{{.number = bell_.number()}, {.number = listener_.number()}};
      for (const Client& client : clients_)
        interests.push_back({.number = client.socket.number(), .writes = !client.out.empty()});
      base::wait_any(interests, Deadline(std::chrono::seconds(1)));
      if (interests[0].ready) bell_.hush();
      size_t at = 2;
      for (Client& client : clients_) {
        if (interests[at++].ready) hear(client);
      }
      if (added_.exchange(false)) answer_waiting();
      std::erase_if(clients_, [](Client& client) { return !speak(client); });
      if (interests[1].ready) admit();
    }
  }

  void admit() {
    while (Socket line = listener_.accept()) {
      if (clients_.size() >= most_clients) continue;  // closes it
      Client& client = clients_.emplace_back(std::move(line), challenge());
      client.out = std::string(wire_magic) + client.nonce;
    }
  }

  // False when the client is done with.
  static bool speak(Client& client) {
    if (!client.socket) return false;
    if (!client.out.empty() && !client.socket.write_from(client.out)) return false;
    if (client.ends && client.out.empty()) return false;
    return client.known || !client.expires.passed();
  }

  void hear(Client& client) {
    if (!client.socket.read_into(client.in, client.known ? largest_frame + length_bytes : proof_bytes)) {
      client.socket = Socket();
      return;
    }
    if (!client.known && client.in.size() >= proof_bytes) introduce(client);
    while (client.known && !client.ends && client.waits_for.empty() && next_frame(client)) {
    }
  }

  void introduce(Client& client) {
    client.known = same_proof(client.in.substr(0, proof_bytes), proof_of(token_, client.nonce));
    client.in.erase(0, proof_bytes);
    client.ends = !client.known;
    client.out += client.known ? reply(TN_OK, "")
                               : reply(TN_INVALID, "the store " + address +
                                                       " does not know this token: give all ranks the same "
                                                       "TENON_STORE_TOKEN");
  }

  // True when there was one.
  bool next_frame(Client& client) {
    if (client.in.size() < length_bytes) return false;
    const uint64_t size = number_in(std::string_view(client.in).substr(0, length_bytes));
    if (size < 3 || size > largest_frame) {
      client.ends = true;
      return false;
    }
    if (client.in.size() < length_bytes + size) return false;
    const std::string body = client.in.substr(length_bytes, size);
    client.in.erase(0, length_bytes + size);
    obey(client, body);
    return true;
  }

  void obey(Client& client, std::string_view body) {
    const uint64_t key_bytes = number_in(body.substr(1, 2));
    const std::string_view key = body.substr(3, key_bytes);
    if (key.size() != key_bytes || key.empty() || key_bytes > longest_key ||
        (body[0] != 'S' && body[0] != 'G' && body[0] != 'L')) {
      client.ends = true;
      return;
    }
    if (body[0] == 'G') {
      client.waits_for = key;
      answer(client);
      return;
    }
    if (body[0] == 'L') {
      const auto value = entries_.find(key, Deadline(std::chrono::nanoseconds(0)));
      client.out += value ? reply(TN_OK, *value) : reply(TN_NOT_FOUND, "");
      return;
    }
    if (!entries_.add(key, body.substr(3 + key_bytes))) {
      client.out += reply(TN_INVALID, taken(key, address).message());
      return;
    }
    client.out += reply(TN_OK, "");
    added_.store(true);
  }

  void answer(Client& client) {
    const auto value = entries_.find(client.waits_for, Deadline(std::chrono::nanoseconds(0)));
    if (!value) return;
    client.waits_for.clear();
    client.out += reply(TN_OK, *value);
  }

  void answer_waiting() {
    for (Client& client : clients_) {
      if (!client.waits_for.empty()) answer(client);
      while (client.known && !client.ends && client.waits_for.empty() && next_frame(client)) {
      }
    }
  }

  Socket listener_;
  base::Bell bell_;
  const std::string token_;
  Entries entries_;
  std::list<Client> clients_;  // the thread's own
  std::atomic<bool> ending_{false}, added_{false};
  std::thread thread_;
};

}  // namespace

Result<std::shared_ptr<detail::StoreState>> make_tcp_server(const std::string& address,
                                                            const std::string& token) {
  if (token.empty())
    return Status(TN_INVALID,
                  "a store over TCP needs a token: anyone who reaches its port could write to it");
  const base::Address at = TN_TRY(base::Address::parse(address));
  const base::Numbers where = TN_TRY(base::Numbers::of(at));
  Socket listener = TN_TRY(Socket::listen(where));
  base::Bell bell = TN_TRY(base::Bell::make());
  return std::shared_ptr<detail::StoreState>(
      std::make_shared<TcpServer>(std::move(listener), std::move(bell), at, token));
}

}  // namespace tenon::comm
