// SPDX-License-Identifier: Apache-2.0
// leaving.cpp: quiesce, shutdown, unloading, exit and fork: how a plugin and a process part.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/gate.hpp"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

namespace tenon::conform {

namespace fs = std::filesystem;

namespace {

// Threads of this process. A run-time may start one of its own beside the process's first (TSan does): that first one is
// started here, so that no plugin is blamed for its companion.
size_t threads_now() {
  static const bool first = (std::thread([] {}).join(), true);
  static_cast<void>(first);
  size_t count = 0;
  for ([[maybe_unused]] const auto& task : fs::directory_iterator("/proc/self/task")) ++count;
  return count;
}

// The kernel lists an ended thread a moment longer than join() waits for it.
bool threads_come_down_to(size_t count) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (threads_now() > count) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

// Ends with the number of the first call that a forked child was not refused; 0 when all were.
int first_call_that_works(const Device& device, const Memory& memory, const Stream& stream) {
  const tn_device_api& d = device.api().device;
  const tn_stream_api& s = device.api().stream;
  const tn_span span = memory.span();
  tn_memory* made = nullptr;
  tn_memory_info info{.size = sizeof info};
  uint64_t value = 0;
  if (d.alloc(device.handle(), TN_MEMORY_DEVICE, 64, 0, &made, nullptr) != TN_INVALID) return 1;
  if (d.memory_info(device.handle(), &info, nullptr) != TN_INVALID) return 2;
  if (s.fill(stream.handle(), &span, 0, 1, nullptr) != TN_INVALID) return 3;
  if (s.copy(stream.handle(), &span, &span, nullptr) != TN_INVALID) return 4;
  if (s.record(stream.handle(), 0, &value, nullptr) != TN_INVALID) return 5;
  if (s.query(stream.handle(), &value, nullptr) != TN_INVALID) return 6;
  if (s.sync(stream.handle(), 0, 0, nullptr) != TN_INVALID) return 7;
  if (s.wait(stream.handle(), stream.handle(), 0, nullptr) != TN_INVALID) return 8;
  return 0;
}

// What a case leaves alive on purpose: reachable to the end, so that a leak checker has nothing to say.
[[gnu::used]] std::unique_ptr<Device>* left_device = nullptr;
tn_memory* left_memory = nullptr;
tn_stream* left_stream = nullptr;

constexpr const char* calls[] = {"none",         "device.alloc", "device.memory_info",
                                 "stream.fill",  "stream.copy",  "stream.record",
                                 "stream.query", "stream.sync",  "stream.wait"};

// Makes a memory and a stream, and ends neither them nor the device.
Status leave_alive(Context& t, std::unique_ptr<Device> device, uint64_t bytes) {
  left_device = new std::unique_ptr<Device>(std::move(device));
  const Device& d = **left_device;
  const tn_stream_options options{.size = sizeof options};
  TN_TRY(t.call("device.alloc", [&](tn_error* e) {
    return d.api().device.alloc(d.handle(), TN_MEMORY_DEVICE, bytes, 0, &left_memory, e);
  }));
  return t.call("stream.create",
                [&](tn_error* e) { return d.api().stream.create(d.handle(), &options, &left_stream, e); });
}

// One life of the library in this process: from a process without it to a process without it.
Status load_use_unload(Context& t, int round) {
  const std::string& path = t.settings().plugin;
  const size_t before = threads_now();
  const Library library = TN_TRY(open_library(path));
  const Tables api = TN_TRY(enter(library.entry, t.host().table));
  if ((api.copy.features & TN_FEATURE_UNLOADABLE) == 0)
    return t.skip("the plugin does not declare UNLOADABLE: hosts never unload it");
  TN_TRY(t.require(api.copy.shutdown != nullptr, "a plugin that is UNLOADABLE needs shutdown"));
  const tn_device_options options{.size = sizeof options};
  tn_device* handle = nullptr;
  TN_TRY(t.call("device.open", [&](tn_error* e) {
    return api.device.open(api.plugin, t.settings().device, &options, &handle, e);
  }));
  {
    const Device device(t, api, handle);
    TN_TRY(tour(t, device));
  }
  TN_TRY(t.call("shutdown", [&](tn_error* e) { return api.copy.shutdown(api.plugin, e); }));
  TN_TRY(t.require(threads_come_down_to(before), "round ", round,
                   ": threads run after shutdown: unloading their code would crash"));
  const int closed = [&] {
    const Breadcrumb here("dlclose after shutdown");
    return dlclose(library.handle);
  }();
  TN_TRY(t.require(closed == 0, "round ", round, ": dlclose failed"));
  void* const still = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_NOW);
  if (still != nullptr) dlclose(still);
  return t.require(still == nullptr, "round ", round, ": the library is still loaded after dlclose");
}

}  // namespace

CONFORM_CASE(0, "leaving: shutdown is TN_BUSY while a device is open, then ends the plugin", .alone = true) {
  const Tables& api = *TN_TRY(t.tables());
  if (api.copy.shutdown == nullptr) return t.require(true);
  auto device = TN_TRY(Device::open(t, t.settings().device));
  TN_TRY(tour(t, *device));
  t.refuses(TN_BUSY, "shutdown while a device is open",
            [&](tn_error* e) { return api.copy.shutdown(api.plugin, e); });
  TN_TRY(tour(t, *device));
  TN_TRY(device->close());
  t.accepts("shutdown", [&](tn_error* e) { return api.copy.shutdown(api.plugin, e); });
  return {};
}

CONFORM_CASE(0, "leaving: quiesce finishes the work and stops the threads, and all goes on afterwards",
             .alone = true) {
  const Tables& api = *TN_TRY(t.tables());
  if (api.copy.quiesce == nullptr) return t.require(true);
  const size_t before = threads_now();
  {
    auto device = TN_TRY(Device::open(t, t.settings().device));
    const Memory memory = TN_TRY(device->alloc(4096));
    const Stream stream = TN_TRY(device->stream());
    for (uint64_t i = 0; i < 100; ++i) TN_TRY(stream.fill(memory.span(), i, 1));
    const uint64_t value = TN_TRY(stream.record());
    t.accepts("quiesce with work in flight", [&](tn_error* e) { return api.copy.quiesce(api.plugin, e); });
    t.check(TN_TRY(stream.completed()) >= value, "quiesce returned before the enqueued work was done");
    TN_TRY(tour(t, *device));
  }
  t.accepts("quiesce with nothing open", [&](tn_error* e) { return api.copy.quiesce(api.plugin, e); });
  t.check(threads_come_down_to(before), "after quiesce with nothing open ", threads_now(), " threads run, ",
          before, " ran before the device was opened");
  return tour(t);
}

CONFORM_CASE(0, "leaving: a process may end without shutdown", .alone = true) {
  // The device, a memory and a stream stay alive; the runner sees how the process ends.
  auto device = TN_TRY(Device::open(t, t.settings().device));
  TN_TRY(tour(t, *device));
  return leave_alive(t, std::move(device), 4096);
}

CONFORM_CASE(0, "leaving: a process may end while a stream works", .alone = true) {
  auto device = TN_TRY(Device::open(t, t.settings().device));
  const tn_stream_api api = device->api().stream;
  constexpr uint64_t bytes = uint64_t{8} << 20;
  TN_TRY(leave_alive(t, std::move(device), bytes));
  const tn_span span{left_memory, 0, bytes, TN_SPACE_MEMORY, 0};
  for (int i = 0; i < 50; ++i) {
    TN_TRY(t.call("stream.fill", [&](tn_error* e) { return api.fill(left_stream, &span, 1, 8, e); }));
  }
  return {};
}

CONFORM_CASE(0, "leaving: a forked child is refused with TN_INVALID, its parent goes on", .alone = true) {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  TN_TRY(stream.fill(memory.span(), 5, 1));
  const pid_t child = fork();
  TN_TRY(t.require(child >= 0, "fork failed"));
  if (child == 0) {
    alarm(10);  // a call that hangs ends the child
    _exit(first_call_that_works(device, memory, stream));
  }
  int status = 0;
  waitpid(child, &status, 0);
  t.check(WIFEXITED(status), "a call in the forked child hung or crashed (signal ",
          WIFSIGNALED(status) ? WTERMSIG(status) : 0, ")");
  if (WIFEXITED(status)) {
    const int call = WEXITSTATUS(status);
    t.check(call == 0, call < 9 ? calls[call] : "a call",
            " was not refused with TN_INVALID in a forked child");
  }
  const Bytes found = TN_TRY(download(stream, memory.span()));
  same_bytes(t, Bytes(64, std::byte{5}), found, "the parent's stream after a fork");
  return {};
}

CONFORM_CASE(0, "leaving: loaded, used and unloaded again and again where UNLOADABLE is declared",
             .alone = true) {
  for (int round = 0; round < (t.quick() ? 5 : 50); ++round) TN_TRY(load_use_unload(t, round));
  return {};
}

CONFORM_CASE(0, "leaving: entered again after shutdown", .alone = true) {
  const Tables first = *TN_TRY(t.tables());
  auto device = TN_TRY(Device::open(t, t.settings().device));
  TN_TRY(tour(t, *device));
  TN_TRY(device->close());
  if (first.copy.shutdown == nullptr) return t.require(true);
  TN_TRY(t.call("shutdown", [&](tn_error* e) { return first.copy.shutdown(first.plugin, e); }));
  TN_TRY(t.enter(t.host().table));
  return tour(t);
}

}  // namespace tenon::conform
