// SPDX-License-Identifier: Apache-2.0
// trouble.cpp: trouble that the vendor lets the kit order (faults.hpp): a lost device, an allocation without memory.
//
// Invariant: a case orders trouble before the plugin is entered, in a process of its own.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tenon::conform {

namespace {

constexpr uint64_t longest_answer_ns = 2'000'000'000;

// Orders it for this process; leaves the case as skipped where the vendor has declared no way to.
Status order(Context& t, const char* fault) {
  const Faults& known = t.settings().judging.faults;
  const auto found = known.find(fault);
  if (found == known.end())
    return t.skip(words("no option is declared that orders it: `", fault,
                        " = \"OPTION=VALUE\"` under [faults] of capabilities.toml"));
  t.host().options[found->second.option] = found->second.value;
  return {};
}

template <class T>
Status status_of_result(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

// One call to the lost device: it must answer soon, and say so; where `may_succeed` it may know better.
template <class Call>
void says_lost(Context& t, const char* what, bool may_succeed, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  const Status said = call();
  const auto took = std::chrono::steady_clock::now() - start;
  t.check(took < std::chrono::nanoseconds(longest_answer_ns), what, " on a lost device took ",
          took / std::chrono::milliseconds(1), " ms");
  t.check(said.code() == TN_DEVICE_LOST || (may_succeed && said.ok()), what,
          " on a lost device: expected TN_DEVICE_LOST, got ", said.ok() ? "TN_OK" : said.message());
}

// A device at work on two streams, the second behind the first.
struct Doomed {
  std::unique_ptr<Device> device{};
  Memory memory{};
  Stream first{}, second{};
  uint64_t last = 0;  // value of the first stream that never came
  Status behind{};    // what a thread was told that waited for the second

  // Works until a call says TN_DEVICE_LOST, and returns that; anything else that fails is the case's failure.
  Status work(Context& t) {
    for (int step = 0; step < 1000; ++step) {
      Status said = one_step(t);
      if (!said.ok()) return said;
    }
    return Status(
        TN_INTERNAL,
        "1000 fills and syncs met no lost device: the option that the vendor declares does not order one");
  }

 private:
  Status one_step(Context& t) {
    TN_TRY(first.fill(memory.span(), 7, 1));
    last = TN_TRY(first.record());
    TN_TRY(second.wait(first, last));
    const uint64_t value = TN_TRY(second.record());
    std::thread waiter([&] { behind = second.sync(value, t.settings().patience_ns); });
    Status reached = first.sync(last, t.settings().patience_ns);
    waiter.join();
    TN_TRY(t.require(reached.code() != TN_TIMEOUT && behind.code() != TN_TIMEOUT,
                     "a wait did not end when the device was lost: ", reached.message(), behind.message()));
    return reached.ok() ? std::move(behind) : std::move(reached);
  }
};

// Every call that a host may still make by mistake or before it knows.
Status ask_everything(Context& t, Doomed& doomed) {
  const Device& device = *doomed.device;
  const Stream& stream = doomed.first;
  Bytes host(64);
  const tn_span span = doomed.memory.span(0, 64);
  says_lost(t, "device.alloc", false, [&] { return status_of_result(device.alloc(64)); });
  says_lost(t, "stream.create", false, [&] { return status_of_result(device.stream()); });
  says_lost(t, "stream.fill", false, [&] { return stream.fill(span, 0, 1); });
  says_lost(t, "stream.copy", false, [&] { return stream.copy(host_span(host.data(), 64), span); });
  says_lost(t, "stream.record", false, [&] { return status_of_result(stream.record()); });
  says_lost(t, "stream.wait", true, [&] { return doomed.second.wait(stream, doomed.last); });
  says_lost(t, "stream.sync", true, [&] { return stream.sync(doomed.last, longest_answer_ns); });
  says_lost(t, "stream.query", true, [&] { return status_of_result(stream.completed()); });
  says_lost(t, "device.memory_info", true, [&] { return status_of_result(device.memory_info()); });
  return device.limits().ok() ? Status() : Status(TN_INTERNAL, "the limits of a lost device are gone");
}

}  // namespace

CONFORM_CASE(0, "trouble: a lost device says so in every call, lets nobody wait, and closes", .alone = true) {
  TN_TRY(order(t, "lost"));
  TN_TRY(t.present());
  Doomed doomed;
  doomed.device = TN_TRY(Device::open(t, t.settings().device));
  doomed.memory = TN_TRY(doomed.device->alloc(4096));
  doomed.first = TN_TRY(doomed.device->stream());
  doomed.second = TN_TRY(doomed.device->stream());
  doomed.first.forgive();
  doomed.second.forgive();
  const Status lost = doomed.work(t);
  TN_TRY(t.require(lost.code() == TN_DEVICE_LOST, "expected TN_DEVICE_LOST, got ", lost.message()));
  TN_TRY(ask_everything(t, doomed));
  for (Stream* const stream : {&doomed.second, &doomed.first})
    says_lost(t, "stream.destroy", true, [&] { return stream->destroy(TN_DESTROY_ABANDON); });
  TN_TRY(doomed.memory.release());
  TN_TRY(doomed.device->close());
  const auto again = Device::open(t, t.settings().device);
  t.check(again.ok() || again.code() == TN_DEVICE_LOST,
          "device.open after a loss: expected TN_OK or TN_DEVICE_LOST, got ", again.message());
  return {};
}

CONFORM_CASE(0, "trouble: an allocation that finds no memory says so, and the next one is as good as ever",
             .alone = true) {
  TN_TRY(order(t, "no_memory"));
  TN_TRY(t.present());
  const auto device = TN_TRY(Device::open(t, t.settings().device));
  std::vector<Memory> kept;
  Status refused;
  for (int i = 0; i < 1000 && refused.ok(); ++i) {
    auto memory = device->alloc(4096);
    if (memory.ok()) {
      kept.push_back(*std::move(memory));
    } else {
      refused = Status(memory.error());
    }
  }
  TN_TRY(t.require(refused.code() == TN_NO_MEMORY, "1000 allocations: expected one to be TN_NO_MEMORY, got ",
                   refused.ok() ? "TN_OK" : refused.message()));
  t.check(refused.message().find("4096") != std::string_view::npos,
          "the message does not hold the figure that was asked for, 4096: ", refused.message());
  return tour(t, *device);
}

}  // namespace tenon::conform
