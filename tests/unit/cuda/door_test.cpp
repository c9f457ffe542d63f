// SPDX-License-Identifier: Apache-2.0
// door_test.cpp: tickets as bytes, and what passes between who brings one and who wrote it; no plugin and no driver.
#include "plugins/cuda/engine/ipc_exports.hpp"
#include "plugins/cuda/engine/ipc_ticket.hpp"
#include "plugins/cuda/engine/ipc_visit.hpp"
#include "support/skip.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::cuda;
using namespace tenon::cuda::ipc;

namespace {

constexpr uint64_t ample_ns = 60'000'000'000, short_ns = 20'000'000;

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// A file in memory with one byte in it.
std::shared_ptr<const Fd> file_with(char byte) {
  auto out = std::make_shared<const Fd>(memfd_create("a test's", MFD_CLOEXEC));
  REQUIRE(pwrite(out->get(), &byte, 1, 0) == 1);
  return out;
}
char byte_of(const Fd& file) {
  char out = 0;
  return pread(file.get(), &out, 1, 0) == 1 ? out : '?';
}

Listing listed(Exports& exports, char byte) {
  auto made =
      exports.add({.pages = file_with(byte), .extent = {.page_bytes = 4096, .offset = 256, .bytes = 100}});
  REQUIRE(made.ok());
  return *made;
}
Result<Parcel> brought(const Listing& listing, uint64_t patience_ns = ample_ns) {
  return visit(listing.door, {.mark = ask_mark, .number = listing.number, .key = listing.key}, patience_ns);
}
int32_t code_of(const Result<Parcel>& said) { return said.ok() ? TN_OK : said.error().code; }

// A socket of a drawn name that listens, and that nobody serves.
struct Unattended {
  explicit Unattended(int backlog = 8) {
    auto drawn_name = drawn();
    auto made = make_socket(0);
    REQUIRE((drawn_name.ok() && made.ok()));
    name = *drawn_name;
    socket = std::move(*made);
    const Address address = address_of(name);
    REQUIRE(bind(socket.get(), address.get(), address.bytes) == 0);
    REQUIRE(listen(socket.get(), backlog) == 0);
  }
  Bits name{};
  Fd socket{};
};

Fd connected_to(const Bits& name) {
  auto out = make_socket(0);
  const Address address = address_of(name);
  REQUIRE(out.ok());
  REQUIRE(connect(out->get(), address.get(), address.bytes) == 0);
  return std::move(*out);
}

// Runs `body` in a fork of this process; its exit status.
template <class Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("door: who brings what was listed is given its pages and where in them it lies") {
  Exports exports;
  const Listing a = listed(exports, 'a'), b = listed(exports, 'b');
  const auto first = brought(a), second = brought(b), again = brought(a);
  REQUIRE((first.ok() && second.ok() && again.ok()));
  CHECK(byte_of(first->pages) == 'a');
  CHECK(byte_of(second->pages) == 'b');
  CHECK(byte_of(again->pages) == 'a');
  CHECK(first->extent.page_bytes == 4096);
  CHECK(first->extent.offset == 256);
  CHECK(first->extent.bytes == 100);
  CHECK((fcntl(first->pages.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("door: another process is given the same file") {
  Exports exports;
  const Listing listing = listed(exports, 'a');
  CHECK(in_child([&] {
          const auto parcel = brought(listing);
          return parcel.ok() && byte_of(parcel->pages) == 'a' && pwrite(parcel->pages.get(), "z", 1, 0) == 1
                     ? 0
                     : 1;
        }) == 0);
  const auto parcel = brought(listing);
  REQUIRE(parcel.ok());
  CHECK(byte_of(parcel->pages) == 'z');
}

TEST_CASE("door: memory of no bytes comes without a descriptor") {
  Exports exports;
  const auto listing = exports.add({});
  REQUIRE(listing.ok());
  const auto parcel = brought(*listing);
  REQUIRE(parcel.ok());
  CHECK_FALSE(parcel->pages);
}

TEST_CASE("door: a wrong key or number and what was withdrawn are not found") {
  Exports exports;
  const Listing listing = listed(exports, 'a');
  for (const size_t word : {0u, 1u}) {
    Listing forged = listing;
    forged.key[word] ^= 1;
    CHECK(code_of(brought(forged)) == TN_NOT_FOUND);
  }
  Listing other = listing;
  ++other.number;
  CHECK(code_of(brought(other)) == TN_NOT_FOUND);
  CHECK(code_of(brought(listing)) == TN_OK);
  exports.withdraw(listing.number);
  CHECK(code_of(brought(listing)) == TN_NOT_FOUND);
}

TEST_CASE("door: it stays while something is listed and is another one afterwards") {
  Exports exports;
  const Listing first = listed(exports, 'a');
  exports.rest();
  CHECK(code_of(brought(first)) == TN_OK);
  exports.withdraw(first.number);
  exports.rest();
  CHECK(code_of(brought(first)) == TN_NOT_FOUND);
  const Listing second = listed(exports, 'b');
  CHECK(second.door != first.door);
  CHECK(code_of(brought(second)) == TN_OK);
}

TEST_CASE("door: guests who say nothing or something else hold nobody up") {
  Exports exports;
  const Listing listing = listed(exports, 'a');
  std::vector<Fd> mute;
  for (int i = 0; i < 200; ++i) mute.push_back(connected_to(listing.door));
  for (int i = 0; i < 200; i += 3) (void)send(mute[i].get(), "hello", 5, MSG_NOSIGNAL | MSG_DONTWAIT);
  const auto parcel = brought(listing);
  CHECK(code_of(parcel) == TN_OK);
}

TEST_CASE("door: nothing is left open when guests and listings have come and gone") {
  Exports exports;
  const Listing stays = listed(exports, 'a');
  REQUIRE(brought(stays).ok());
  const size_t before = open_descriptors();
  for (char i = 0; i < 50; ++i) {
    const Listing listing = listed(exports, i);
    CHECK(code_of(brought(listing)) == TN_OK);
    exports.withdraw(listing.number);
    CHECK(code_of(brought(listing)) == TN_NOT_FOUND);
  }
  CHECK(open_descriptors() <= before + 1);  // the last guest's, who is shown out as he leaves
}

TEST_CASE("door: an exporter that is gone is not found") {
  Listing listing;
  {
    Exports exports;
    listing = listed(exports, 'a');
  }
  const auto said = brought(listing);
  CHECK(code_of(said) == TN_NOT_FOUND);
  CHECK(said.message().find("ask for a new one") != std::string_view::npos);
}

TEST_CASE("door: an exporter that does not answer costs the patience and no more") {
  const Unattended silent;
  const size_t before = open_descriptors();
  CHECK(code_of(brought({.door = silent.name}, short_ns)) == TN_TIMEOUT);
  CHECK(open_descriptors() == before);
}

TEST_CASE("door: an exporter with too many at its door costs the patience and no more") {
  const Unattended silent(0);
  const Fd first = connected_to(silent.name);
  CHECK(code_of(brought({.door = silent.name}, short_ns)) == TN_TIMEOUT);
}

TEST_CASE("door: an exporter that has ended is not found though a child of it still holds its socket") {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const auto name = drawn();
  REQUIRE(name.ok());
  // The exporter listens, forks, and ends; what it forked stays until this process lets it go.
  const int ended = in_child([&] {
    auto socket = make_socket(0);
    const Address address = address_of(*name);
    if (!socket.ok() || bind(socket->get(), address.get(), address.bytes) != 0 ||
        listen(socket->get(), 8) != 0)
      return 1;
    if (fork() != 0) return 0;
    close(pipe_ends[1]);
    char none = 0;
    return static_cast<int>(read(pipe_ends[0], &none, 1));
  });
  REQUIRE(ended == 0);
  const auto said = brought({.door = *name});
  CHECK(code_of(said) == TN_NOT_FOUND);
  close(pipe_ends[1]);
  close(pipe_ends[0]);
}

TEST_CASE("door: an answer that is none of this version is told") {
  const Unattended other;
  const pid_t child = fork();
  if (child == 0) {
    const Fd guest(accept(other.socket.get(), nullptr, nullptr));
    Ask ask;
    (void)recv(guest.get(), &ask, sizeof ask, 0);
    _exit(send(guest.get(), "hello", 5, MSG_NOSIGNAL) == 5 ? 0 : 1);
  }
  CHECK(code_of(brought({.door = other.name})) == TN_VERSION);
  CHECK(waitpid(child, nullptr, 0) == child);
}

TEST_CASE("door: memory goes to its owner's user and to root") {
  CHECK(may_open(1000, 1000));
  CHECK(may_open(1000, 0));
  CHECK_FALSE(may_open(1000, 1001));
  CHECK_FALSE(may_open(0, 1000));
}

TEST_CASE("door: a process of another user is refused by itself and by the door") {
  if (geteuid() != 0) TENON_SKIP("root", "another user is played by a child that root forks");
  Exports exports;
  const Listing listing = listed(exports, 'a');
  constexpr uid_t nobody = 65534;
  CHECK(in_child([&] {
          if (setresuid(nobody, nobody, nobody) != 0) return 1;
          if (code_of(brought(listing)) != TN_UNSUPPORTED) return 2;
          const Fd socket = connected_to(listing.door);
          const Ask ask{.mark = ask_mark, .number = listing.number, .key = listing.key};
          (void)send(socket.get(), &ask, sizeof ask, MSG_NOSIGNAL);
          Answer answer;
          return recv(socket.get(), &answer, sizeof answer, 0) > 0 ? 3 : 0;
        }) == 0);
}

TEST_CASE("ticket: it is read as it was written") {
  const Ticket ticket{.device = {1, 2, 3}, .door = {4, 5}, .number = 6, .key = {7, 8}};
  std::vector<std::byte> bytes(ticket_bytes);
  REQUIRE(ticket.write(bytes).ok());
  const auto read = Ticket::read(bytes);
  REQUIRE(read.ok());
  CHECK(read->device == ticket.device);
  CHECK(read->door == ticket.door);
  CHECK(read->number == 6);
  CHECK(read->key == ticket.key);
  CHECK(words_of(ticket.device) == "01020300-0000-0000-0000-000000000000");
}

TEST_CASE("ticket: a changed byte is found wherever it is") {
  std::vector<std::byte> bytes(ticket_bytes);
  REQUIRE(Ticket{.number = 6}.write(bytes).ok());
  for (std::byte& one : bytes) {
    one ^= std::byte{0x10};
    const auto said = Ticket::read(bytes);
    CHECK((!said.ok() && said.error().code == TN_INVALID));
    one ^= std::byte{0x10};
  }
  CHECK(Ticket::read(bytes).ok());
}

TEST_CASE("ticket: another length is told with both") {
  std::vector<std::byte> bytes(ticket_bytes + 1);
  CHECK(Ticket{}.write(bytes).code() == TN_INVALID);
  const auto said = Ticket::read(bytes);
  REQUIRE_FALSE(said.ok());
  CHECK(said.error().code == TN_INVALID);
  CHECK(said.error().message.find("72 bytes, and this one has 73") != std::string::npos);
}
