// SPDX-License-Identifier: Apache-2.0
// store_test.cpp: the three kinds of store keep one contract; the one over TCP also keeps strangers and mischief out.
// Invariant: no case waits for a moment of time but for a timeout that it is about.
#include "comm/store.hpp"
#include "base/socket.hpp"
#include "comm/wire.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

using namespace tenon;
using namespace std::chrono_literals;

namespace {

// The ends of one store: who keeps it, and another who uses it.
struct Ends {
  Store one, other;
};

void on_each_kind(const std::function<void(Ends&)>& body) {
  SUBCASE("in this process") {
    const Store store = Store::in_process();
    Ends ends{store, store};
    body(ends);
  }
  SUBCASE("in a folder") {
    const test::TempFolder folder;
    Ends ends{*Store::in_folder(folder / "store"), *Store::in_folder(folder / "store")};
    body(ends);
  }
  SUBCASE("over TCP") {
    auto served = Store::serve("127.0.0.1:0", "secret");
    REQUIRE_MESSAGE(served.ok(), served.message());
    auto asking = Store::connect(served->address(), "secret");
    REQUIRE_MESSAGE(asking.ok(), asking.message());
    Ends ends{*served, *asking};
    body(ends);
  }
}

base::Deadline soon() { return base::Deadline(5s); }

// A connection that speaks for itself.
base::Socket raw(const Store& served) {
  auto line = base::Socket::connect(*base::Numbers::of(*base::Address::parse(served.address())), soon());
  REQUIRE_MESSAGE(line.ok(), line.message());
  return *std::move(line);
}

// Proves that it knows `token`; the challenge is answered, the welcome read.
void introduce(base::Socket& line, const std::string& token) {
  std::string hello(comm::wire_magic.size() + comm::challenge_bytes, '\0');
  REQUIRE(line.receive(hello, soon()).ok());
  REQUIRE(line.send(comm::proof_of(token, hello.substr(comm::wire_magic.size())), soon()).ok());
  std::string welcome(5, '\0');
  REQUIRE(line.receive(welcome, soon()).ok());
}

}  // namespace

TEST_CASE("store: what one end sets the other gets, whole, from either side") {
  on_each_kind([](Ends& ends) {
    CHECK(ends.one.set("a/b c", "one").ok());
    CHECK(*ends.other.get("a/b c") == "one");
    const std::string large(comm::largest_value, 'x'), binary("\0\xff\n", 3);
    CHECK(ends.other.set("large", large).ok());
    CHECK(ends.other.set("binary", binary).ok());
    CHECK(ends.other.set("empty", "").ok());
    CHECK(*ends.one.get("large") == large);
    CHECK(*ends.one.get("binary") == binary);
    CHECK(*ends.one.get("empty") == "");
  });
}

TEST_CASE("store: a key is written once") {
  on_each_kind([](Ends& ends) {
    CHECK(ends.one.set("key", "first").ok());
    const Status again = ends.other.set("key", "second");
    CHECK(again.code() == TN_INVALID);
    CHECK_MESSAGE(again.message().find("'key'") != std::string_view::npos, again.message());
    CHECK(*ends.other.get("key") == "first");
  });
}

TEST_CASE("store: a get waits for its key, and no longer than it was told") {
  on_each_kind([](Ends& ends) {
    const auto late = ends.other.get("never", 30ms);
    CHECK(late.code() == TN_TIMEOUT);
    CHECK_MESSAGE(late.message().find("'never'") != std::string_view::npos, late.message());
    Result<std::string> got(Status(TN_INTERNAL, "nothing yet"));
    std::thread waiter([&] { got = ends.other.get("soon", 20s); });
    CHECK(ends.one.set("soon", "now").ok());
    waiter.join();
    REQUIRE_MESSAGE(got.ok(), got.message());
    CHECK(*got == "now");
  });
}

TEST_CASE("store: a look says at once whether a key is there, and keeps its connection") {
  on_each_kind([](Ends& ends) {
    const auto look = [&](const char* key) { return ends.other.state()->look(key, soon()); };
    for (int i = 0; i < 3; ++i) {
      const auto absent = look("key");
      REQUIRE_MESSAGE(absent.ok(), absent.message());
      CHECK(!*absent);
    }
    CHECK(!*ends.other.state()->await("key", base::Deadline(20ms)));
    CHECK(ends.one.set("key", "value").ok());
    CHECK(**look("key") == "value");
    CHECK(**ends.other.state()->await("key", base::Deadline(0ms)) == "value");
  });
}

TEST_CASE(
    "store: one that listens and does not answer costs a call its own time, and a look says that it is the "
    "store") {
  auto listener = base::Socket::listen(*base::Numbers::of(*base::Address::parse("127.0.0.1:0")));
  REQUIRE(listener.ok());
  const std::string address = "127.0.0.1:" + std::to_string(listener->port());
  std::thread welcomes([&] {  // one client, once
    base::Socket line;
    std::vector<base::Interest> interests{{.number = listener->number()}};
    base::wait_any(interests, soon());
    line = listener->accept();
    const std::string hello = std::string(comm::wire_magic) + std::string(comm::challenge_bytes, 'c');
    CHECK(line.send(hello, soon()).ok());
    std::string proof(comm::proof_bytes, '\0');
    CHECK(line.receive(proof, soon()).ok());
    CHECK(line.send(comm::framed(std::string(1, '\0')), soon()).ok());
    char byte[1];
    while (line.receive(byte, soon()).ok()) continue;
  });
  auto silent = Store::connect(address, "secret", 5s);
  REQUIRE_MESSAGE(silent.ok(), silent.message());
  const auto begin = std::chrono::steady_clock::now();
  CHECK(silent->set("key", "value", 50ms).code() == TN_TIMEOUT);
  welcomes.join();
  CHECK(silent->state()->look("key", base::Deadline(50ms)).code() == TN_TIMEOUT);
  CHECK(silent->state()->await("key", base::Deadline(50ms)).code() == TN_TIMEOUT);
  CHECK(std::chrono::steady_clock::now() - begin < 4s);
}

TEST_CASE("store: one that nobody serves is told with the numbers that were tried") {
  auto served = Store::serve("localhost:0", "secret");
  REQUIRE_MESSAGE(served.ok(), served.message());
  const std::string address = served->address(), port = address.substr(address.find(':'));
  *served = Store();
  const auto refused = Store::connect(address, "secret", 20ms);
  CHECK(refused.code() == TN_TIMEOUT);
  CHECK_MESSAGE(refused.message().find("cannot connect to " + address + " (") == 0, refused.message());
  CHECK_MESSAGE(refused.message().find(port + ": Connection refused") != std::string_view::npos,
                refused.message());
}

TEST_CASE("store: who serves it by a name knows the number that it listens on") {
  const auto by_name = Store::serve("localhost:0", "secret"),
             by_number = Store::serve("127.0.0.1:0", "secret");
  REQUIRE_MESSAGE(by_name.ok(), by_name.message());
  REQUIRE_MESSAGE(by_number.ok(), by_number.message());
  const std::string& address = by_name->address();
  CHECK(by_name->state()->listens.ends_with(address.substr(address.find(':'))));
  CHECK(by_number->state()->listens.empty());
}

TEST_CASE("store: keys and values past the limits are refused by name") {
  on_each_kind([](Ends& ends) {
    CHECK(ends.other.set("", "x").code() == TN_INVALID);
    CHECK(ends.other.set(std::string(comm::longest_key + 1, 'k'), "x").code() == TN_INVALID);
    CHECK(ends.other.set("k", std::string(comm::largest_value + 1, 'x')).code() == TN_INVALID);
    CHECK(ends.other.get("").code() == TN_INVALID);
  });
}

TEST_CASE("store: plugins see the same keys through the table") {
  on_each_kind([](Ends& ends) {
    const tn_store& table = ends.other.table();
    tn_error error = no_error();
    CHECK(table.set(table.context, "key", "12345", 5, &error) == TN_OK);
    CHECK(*ends.one.get("key") == "12345");
    char text[3] = {};
    uint64_t bytes = 0;
    CHECK(table.get(table.context, "key", text, 3, &bytes, TN_TIMEOUT_NEVER, &error) == TN_OK);
    CHECK(bytes == 5);
    CHECK(std::string(text, 3) == "123");
    CHECK(table.get(table.context, "none", text, 3, &bytes, 1'000'000, &error) == TN_TIMEOUT);
    CHECK(table.set(table.context, "key", "1", 1, &error) == TN_INVALID);
  });
}

TEST_CASE("store: many threads share one end") {
  on_each_kind([](Ends& ends) {
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const std::string next = std::to_string((i + 1) % 8);
        if (ends.other.set(std::to_string(i), "v").ok() && ends.other.get(next, 20s).ok()) ++right;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(right == 8);
  });
}

TEST_CASE("store: a wrong token is turned away in words, and an empty one never serves") {
  const auto served = Store::serve("127.0.0.1:0", "secret");
  REQUIRE(served.ok());
  const auto stranger = Store::connect(served->address(), "guess", 5s);
  CHECK(stranger.code() == TN_INVALID);
  CHECK_MESSAGE(stranger.message().find("TENON_STORE_TOKEN") != std::string_view::npos, stranger.message());
  CHECK(Store::serve("127.0.0.1:0", "").code() == TN_INVALID);
}

TEST_CASE("store: an address that is none, taken or silent is told with itself") {
  CHECK(Store::serve("localhost", "t").code() == TN_INVALID);
  const auto served = Store::serve("127.0.0.1:0", "secret");
  REQUIRE(served.ok());
  const auto twice = Store::serve(served->address(), "secret");
  CHECK(twice.code() == TN_INVALID);
  CHECK_MESSAGE(twice.message().find(served->address()) != std::string_view::npos, twice.message());
  std::string gone;
  {
    const auto brief = Store::serve("127.0.0.1:0", "secret");
    REQUIRE(brief.ok());
    gone = brief->address();
  }
  const auto nobody = Store::connect(gone, "secret", 100ms);
  CHECK(nobody.code() == TN_TIMEOUT);
  CHECK_MESSAGE(nobody.message().find(gone) != std::string_view::npos, nobody.message());
}

TEST_CASE("store: clients that die, babble or lie cost themselves alone") {
  auto served = Store::serve("127.0.0.1:0", "secret");
  REQUIRE(served.ok());
  base::Socket silent = raw(*served);
  {
    base::Socket dies = raw(*served);
    introduce(dies, "secret");
    REQUIRE(dies.send(comm::framed(std::string("G") + comm::number_text(4, 2) + "late"), soon()).ok());
  }
  base::Socket huge = raw(*served), lies = raw(*served), half = raw(*served);
  introduce(huge, "secret");
  REQUIRE(huge.send(comm::number_text(0xffffffff, 4), soon()).ok());
  introduce(lies, "secret");
  REQUIRE(lies.send(comm::framed(std::string("S") + comm::number_text(500, 2) + "short"), soon()).ok());
  introduce(half, "secret");
  REQUIRE(half.send(comm::number_text(100, 4) + "S", soon()).ok());
  char byte[1];
  CHECK(huge.receive(byte, soon()).code() == TN_PEER_LOST);
  CHECK(lies.receive(byte, soon()).code() == TN_PEER_LOST);
  auto good = Store::connect(served->address(), "secret");
  REQUIRE_MESSAGE(good.ok(), good.message());
  CHECK(good->set("late", "still here").ok());
  CHECK(*served->get("late") == "still here");
}

TEST_CASE("store: when the one who serves has gone, every call says so") {
  auto served = Store::serve("127.0.0.1:0", "secret");
  REQUIRE(served.ok());
  auto asking = Store::connect(served->address(), "secret");
  REQUIRE(asking.ok());
  Result<std::string> waiting(Status(TN_INTERNAL, "nothing yet"));
  REQUIRE(asking->set("there", "").ok());
  std::thread waiter([&] { waiting = asking->get("never", 20s); });
  CHECK(asking->get("there").ok());
  *served = Store();
  waiter.join();
  CHECK(waiting.code() == TN_PEER_LOST);
  CHECK(asking->set("more", "x").code() == TN_PEER_LOST);
}

TEST_CASE("store: proofs are HMAC-SHA-256, as RFC 4231 has it") {
  const std::string proof = comm::proof_of("Jefe", "what do ya want for nothing?");
  const unsigned char expected[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e};
  CHECK(proof.compare(0, 8, reinterpret_cast<const char*>(expected), 8) == 0);
  CHECK(comm::same_proof(proof, proof));
  CHECK(!comm::same_proof(proof, comm::proof_of("jefe", "what do ya want for nothing?")));
  CHECK(!comm::same_proof(proof, proof.substr(1)));
}
