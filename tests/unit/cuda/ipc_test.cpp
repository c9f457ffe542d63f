// SPDX-License-Identifier: Apache-2.0
// ipc_test.cpp: tn.ipc/1: memory that is one in two processes, and every ticket that is refused.
#include "puppet.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

using namespace cuda_test;

namespace {

constexpr uint64_t page = 2 << 20, largest_piece = 512 << 10;

size_t threads_at_the_door() {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    count += name == "tenon-tickets" ? 1 : 0;
  }
  return count;
}

// The kernel lists an ended thread a moment longer than join() waits for it.
bool door_is_closed() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads_at_the_door() != 0) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

// Descriptors of this process, by number: what they are of.
std::map<int, std::string> descriptors() {
  std::map<int, std::string> out;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone) out[std::stoi(entry.path().filename())] = target;
  }
  return out;
}

void quiesce() {
  must([](tn_error* e) { return plugin().quiesce(&plugin(), e); });
}

// Opened here: a failure ends the case.
Memory opened(tn_device* device, const std::string& ticket) {
  Memory out;
  const Outcome said = try_open_ticket(device, ticket, out);
  if (!said.ok()) FAIL(said.message());
  return out;
}

}  // namespace

TEST_CASE("ipc: (child) a process that obeys") {
  if (std::getenv(Puppet::variable) == nullptr) return;  // nobody's child: there is nothing to obey
  const char* const settings = std::getenv("FAKECUDA");
  CUDA_DRIVER(settings != nullptr ? settings : "");
  obey();
}

TEST_CASE("ipc: another process sees what is written here and is seen") {
  CUDA_DRIVER("");
  const World world;
  const Puppet puppet;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{70'001}, largest_piece, 2 * page + 77}) {
    CAPTURE(bytes);
    const Memory memory = allocate(device, bytes);
    fill(stream, span(memory, 0, bytes), 5);
    drain(stream);
    CHECK(puppet.tell("n" + std::to_string(bytes)) == "done");
    CHECK(puppet.tell("o" + export_of(memory, device)) == "done");
    CHECK(puppet.tell("r") == "5");
    CHECK(puppet.tell("w6") == "done");
    CHECK(content(stream, memory, bytes) == "6");
    CHECK(puppet.tell("f") == "done");
    CHECK(content(stream, memory, bytes) == "6");
  }
}

TEST_CASE("ipc: a memory of no bytes is opened too") {
  CUDA_DRIVER("");
  const World world;
  const Puppet puppet;
  const Device device = open_device();
  const Memory memory = allocate(device, 0);
  CHECK(puppet.tell("o" + export_of(memory, device)) == "done");
}

TEST_CASE("ipc: a ticket works in its own process and on another handle of its device") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device(), again = open_device();
  const Stream stream = make_stream(device);
  const Memory memory = allocate(device, 70'001);
  const Memory same = opened(device, export_of(memory, device)),
               other = opened(again, export_of(memory, again));
  fill(stream, span(memory, 0, 70'001), 9);
  CHECK(address(same) != address(memory));
  CHECK(content(stream, same, 70'001) == "9");
  CHECK(content(stream, other, 70'001) == "9");
}

TEST_CASE("ipc: what is opened is counted by its maker alone") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const auto used = [&] {
    tn_memory_info out{};
    out.size = sizeof out;
    must([&](tn_error* e) { return plugin().device->memory_info(device, &out, e); });
    return out.used_here_bytes;
  };
  const Memory memory = allocate(device, page);
  const uint64_t before = used();
  {
    const Memory same = opened(device, export_of(memory, device));
    CHECK(used() == before);
  }
  CHECK(used() == before);
}

TEST_CASE("ipc: what is open outlives its memory and the process that made it") {
  CUDA_DRIVER("");
  const World world;
  Puppet puppet;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  CHECK(puppet.tell("a70001") == "done");
  CHECK(puppet.tell("w7") == "done");
  const Memory memory = opened(device, puppet.tell("x"));
  CHECK(puppet.tell("f") == "done");
  CHECK(content(stream, memory, 70'001) == "7");
  puppet.kill_it();
  CHECK(content(stream, memory, 70'001) == "7");
  fill(stream, span(memory, 0, 70'001), 8);
  CHECK(content(stream, memory, 70'001) == "8");
}

TEST_CASE("ipc: a ticket of freed memory is refused and one of memory that stays is not") {
  CUDA_DRIVER("");
  const World world;
  const Puppet puppet;
  const Device device = open_device();
  const Memory stays = allocate(device, 256);
  const std::string good = export_of(stays, device);
  Memory memory = allocate(device, 70'001), none;
  const std::string ticket = export_of(memory, device);
  CHECK(export_of(memory, device) == ticket);
  memory.reset();
  const Memory next = allocate(device, 70'001);
  CHECK(export_of(next, device) != ticket);
  const Outcome said = try_open_ticket(device, ticket, none);
  CHECK(said.code == TN_NOT_FOUND);
  CHECK(said.says("freed its memory"));
  CHECK(puppet.tell("o" + ticket).starts_with(std::to_string(TN_NOT_FOUND)));
  CHECK(puppet.tell("o" + good) == "done");
}

TEST_CASE("ipc: an exporter that has ended is not found") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  std::string ticket;
  {
    Puppet puppet;
    ticket = puppet.ticket_of_256();
    puppet.kill_it();
  }
  Memory none;
  const Outcome said = try_open_ticket(device, ticket, none);
  CHECK(said.code == TN_NOT_FOUND);
  CHECK(said.says("has ended or closed its device"));
}

TEST_CASE("ipc: an exporter that is stopped is told and answers when it goes on") {
  CUDA_DRIVER("");
  const World world;
  const Puppet puppet;
  const Device device = open_device();
  const std::string ticket = puppet.ticket_of_256();
  puppet.stop();
  Memory none;
  const Outcome said = try_open_ticket(device, ticket, none);
  puppet.send_signal(SIGCONT);
  CHECK(said.code == TN_TIMEOUT);
  CHECK(said.says("whether it is stopped"));
  opened(device, ticket);
}

TEST_CASE("ipc: bytes that are no ticket are refused in words") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Memory memory = allocate(device, 256);
  const std::string ticket = export_of(memory, device);
  Memory none;
  for (size_t i = 0; i < ticket.size(); ++i) {
    std::string damaged = ticket;
    damaged[i] = static_cast<char>(~damaged[i]);
    CHECK(try_open_ticket(device, damaged, none).code == TN_INVALID);
  }
  CHECK(try_open_ticket(device, std::string(ticket.size(), '\0'), none).says("not written by plugin 'cuda'"));
  CHECK(try_open_ticket(device, ticket.substr(1), none).code == TN_INVALID);
  CHECK(try_open_ticket(device, ticket + "x", none).says("this one has 73"));
  CHECK(try_open_ticket(device, "x", none).code == TN_INVALID);
  std::string room(ticket.size() - 1, '\0');
  const Outcome cramped =
      outcome_of([&](tn_error* e) { return ipc().export_memory(memory, room.data(), room.size(), e); });
  CHECK(cramped.code == TN_INVALID);
  CHECK(cramped.says("ask ticket_bytes"));
  CHECK(ipc().export_memory(nullptr, room.data(), room.size(), nullptr) == TN_INVALID);
  CHECK(ipc().open_memory(device, nullptr, 72, nullptr, nullptr) == TN_INVALID);
}

TEST_CASE("ipc: a ticket of another device is refused with both" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device(), other = open_device(1);
  const Memory memory = allocate(device, 256);
  Memory none;
  const Outcome said = try_open_ticket(other, export_of(memory, device), none);
  CHECK(said.code == TN_MISMATCH);
  CHECK(said.says("'cuda:1' is "));
  CHECK(said.says("open it on that device"));
}

TEST_CASE("ipc: memory that cannot be shared is refused with what to do") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Memory pinned = allocate(device, 256, TN_MEMORY_HOST), memory = allocate(device, 256);
  const Memory same = opened(device, export_of(memory, device));
  const auto* const imports = static_cast<const tn_import_api*>(plugin().extension(&plugin(), TN_IMPORT_ID));
  tn_memory* made = nullptr;
  must([&](tn_error* e) { return imports->memory(device, address(memory), 256, &made, e); });
  const Memory borrowed(made);
  std::string ticket;
  const Outcome of_pinned = try_export(pinned, ticket, device), of_opened = try_export(same, ticket, device),
                of_borrowed = try_export(borrowed, ticket, device);
  CHECK(of_pinned.code == TN_UNSUPPORTED);
  CHECK(of_pinned.says("pinned host memory"));
  CHECK(of_opened.code == TN_UNSUPPORTED);
  CHECK(of_opened.says("pass that ticket on"));
  CHECK(of_borrowed.code == TN_UNSUPPORTED);
  CHECK(of_borrowed.says("imported memory"));
}

TEST_CASE("ipc: a device that gives its memory to no other process says so" * fake_only) {
  CUDA_DRIVER("no_exports");
  const World world;
  const Device device = open_device();
  std::string ticket;
  for (const uint64_t bytes : {uint64_t{256}, page}) {
    const Memory memory = allocate(device, bytes);
    const Outcome said = try_export(memory, ticket, device);
    CHECK(said.code == TN_UNSUPPORTED);
    CHECK(said.says("device 'cuda:0'"));
  }
  CHECK(threads_at_the_door() == 0);
}

TEST_CASE("ipc: pages that were given away hold nothing that came later") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Memory neighbour = allocate(device, 256);
  Memory memory = allocate(device, 256);
  const uint64_t shared = address(memory) / page;
  REQUIRE(address(neighbour) / page == shared);
  export_of(memory, device);
  const Memory later = allocate(device, 256);
  CHECK(address(later) / page != shared);
  memory.reset();
  std::vector<Memory> many;
  for (int i = 0; i < 100; ++i) CHECK(address(many.emplace_back(allocate(device, 256))) / page != shared);
}

TEST_CASE("ipc: its thread starts with the first export and ends when nothing is exported") {
  CUDA_DRIVER("");
  const World world;
  {
    const Device device = open_device();
    Memory memory = allocate(device, 256);
    CHECK(threads_at_the_door() == 0);
    const std::string ticket = export_of(memory, device);
    export_of(memory, device);
    CHECK(threads_at_the_door() == 1);
    quiesce();
    opened(device, ticket);
    memory.reset();
    quiesce();
    CHECK(door_is_closed());
    memory = allocate(device, 256);
    opened(device, export_of(memory, device));
    CHECK(threads_at_the_door() == 1);
    memory.reset();
  }
  CHECK(door_is_closed());
}

TEST_CASE("ipc: no descriptor is left behind and none is inherited" * fake_only) {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const auto start = descriptors();
  {
    const Memory stays = allocate(device, page);
    export_of(stays, device);
    const size_t before = descriptors().size();
    Memory none;
    for (int i = 0; i < 20; ++i) {
      const Memory memory = allocate(device, page);
      const std::string ticket = export_of(memory, device);
      const Memory same = opened(device, ticket);
      CHECK(try_open_ticket(device, std::string(ticket.size(), 'x'), none).code == TN_INVALID);
      for (const auto& one : descriptors()) {
        if (start.contains(one.first)) continue;
        const int flags = fcntl(one.first, F_GETFD);
        CHECK_MESSAGE((flags < 0 || (flags & FD_CLOEXEC) != 0), one.second);
      }
    }
    CHECK(descriptors().size() <= before + 1);  // the last guest's, who is shown out as he leaves
  }
  quiesce();
  CHECK(descriptors().size() == start.size());
}

TEST_CASE("ipc: where no descriptor is left for the pages that is told") {
  CUDA_DRIVER("");
  const World world;
  const Puppet puppet;
  const Device device = open_device();
  const std::string ticket = puppet.ticket_of_256();
  const int next = dup(0);
  close(next);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit tight{.rlim_cur = static_cast<rlim_t>(next) + 1, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &tight);
  Memory none;
  const Outcome said = try_open_ticket(device, ticket, none);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(said.code == TN_NO_MEMORY);
  CHECK(said.says("ulimit -n"));
  opened(device, ticket);
}
