// SPDX-License-Identifier: Apache-2.0
// stream.cpp: the life of streams: how many, how urgent, how they end, what they refuse.
#include "conformance/case.hpp"
#include "conformance/cases/tour.hpp"
#include "conformance/gate.hpp"
#include "conformance/open_files.hpp"

namespace tenon::conform {

CONFORM_CASE(0, "stream: as many as the limits say, and one more is TN_NO_MEMORY") {
  const Device& device = *TN_TRY(t.device());
  const tn_device_limits limits = TN_TRY(device.limits());
  const uint32_t most = t.quick() ? 100 : 600;
  const bool limited = limits.max_streams != 0 && limits.max_streams <= most;
  const uint32_t count = limited ? limits.max_streams : most;
  const Memory memory = TN_TRY(device.alloc(uint64_t{count} * 8));
  std::vector<Stream> streams;
  for (uint32_t i = 0; i < count; ++i) {
    auto stream = device.stream();
    TN_TRY(t.require(stream.ok(), "stream ", i, " of ", count, ": ", stream.message()));
    streams.push_back(*std::move(stream));
    TN_TRY(streams.back().fill(memory.span(uint64_t{i} * 8, 8), i, 8));
  }
  if (limited) {
    const auto extra = device.stream();
    t.check(extra.code() == TN_NO_MEMORY, "stream ", count + 1, " of ", count,
            ": expected TN_NO_MEMORY, got ", extra.ok() ? "TN_OK" : extra.message());
    t.check(extra.ok() || extra.message().find(std::to_string(count)) != std::string_view::npos,
            "the message does not hold the figure ", count, ": ", extra.message());
  }
  for (const Stream& stream : streams) TN_TRY(stream.finish());
  const Bytes found = TN_TRY(download(streams[0], memory.span()));
  for (uint32_t i = 0; i < count; ++i) {
    t.check(static_cast<uint32_t>(found[uint64_t{i} * 8]) == (i & 0xFF), "stream ", i,
            " did not write its mark");
  }
  streams.clear();
  return tour(t, device);
}

CONFORM_CASE(0, "stream: created and destroyed many times") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(64));
  const int rounds = t.quick() ? 200 : 1500;
  int64_t files = 0;
  for (int i = 0; i < rounds; ++i) {
    const Stream stream = TN_TRY(device.stream());
    TN_TRY(stream.fill(memory.span(), static_cast<uint64_t>(i), 8));
    if (i % 3 == 0) TN_TRY(stream.finish());
    if (i == 0) files = open_files();
  }
  check_open_files(t, files, rounds - 1, "a stream");
  const Stream last = TN_TRY(device.stream());
  return last.finish();
}

CONFORM_CASE(0, "stream: every priority makes a stream, another is TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const tn_device_limits limits = TN_TRY(device.limits());
  for (uint32_t priority = 0; priority < std::min(limits.priorities, 64u); ++priority) {
    const Stream stream = TN_TRY(device.stream(priority));
    TN_TRY(stream.finish());
  }
  for (const uint32_t priority : {limits.priorities, limits.priorities + 1, UINT32_MAX}) {
    const auto stream = device.stream(priority);
    t.check(stream.code() == TN_INVALID, "priority ", priority, " of ", limits.priorities,
            ": expected TN_INVALID, got ", stream.ok() ? "TN_OK" : stream.message());
  }
  return {};
}

CONFORM_CASE(0, "stream: a name is taken, and need not outlive the call") {
  const Device& device = *TN_TRY(t.device());
  const Stream unnamed = TN_TRY(device.stream(0, nullptr))
  , empty = TN_TRY(device.stream(0, ""));
  auto name = std::make_unique<std::string>(3000, 'n');
  const Stream named = TN_TRY(device.stream(0, name->c_str()));
  name.reset();
  TN_TRY(unnamed.finish());
  TN_TRY(empty.finish());
  return named.finish();
}

CONFORM_CASE(0, "stream: destroying it with COMPLETE finishes its work first") {
  const Device& device = *TN_TRY(t.device());
  constexpr uint64_t bytes = uint64_t{4} << 20;
  const Memory memory = TN_TRY(device.alloc(bytes));
  const Stream reader = TN_TRY(device.stream());
  for (uint64_t round = 1; round <= 5; ++round) {
    Stream stream = TN_TRY(device.stream());
    for (uint64_t i = 0; i < 10; ++i) TN_TRY(stream.fill(memory.span(), round * 16 + i, 1));
    TN_TRY(stream.destroy(TN_DESTROY_COMPLETE));
    const Bytes found = TN_TRY(download(reader, memory.span()));
    same_bytes(t, Bytes(bytes, static_cast<std::byte>(round * 16 + 9)), found,
               "after the writing stream was destroyed");
  }
  return {};
}

CONFORM_CASE(0, "stream: destroying it with ABANDON drops what has not started and harms nobody") {
  const Device& device = *TN_TRY(t.device());
  const Memory memory = TN_TRY(device.alloc(4096));
  const Stream producer = TN_TRY(device.stream());
  Stream abandoned = TN_TRY(device.stream());
  Gate gate = TN_TRY(Gate::make(t, device));
  TN_TRY(gate.hold(producer));
  TN_TRY(producer.fill(memory.span(), 1, 1));
  const uint64_t value = TN_TRY(producer.record());
  TN_TRY(abandoned.wait(producer, value));
  TN_TRY(abandoned.fill(memory.span(), 2, 1));
  TN_TRY(abandoned.record());
  static_cast<void>(
      abandoned.destroy(TN_DESTROY_ABANDON));  // it must come back although the producer is held
  gate.open();
  TN_TRY(producer.sync(value));
  return tour(t, device);
}

CONFORM_CASE(0, "stream: waiting for a stream that ends afterwards") {
  const Device& device = *TN_TRY(t.device());
  const Memory a = TN_TRY(device.alloc(64))
  , b = TN_TRY(device.alloc(64));
  const Stream consumer = TN_TRY(device.stream());
  for (uint64_t round = 1; round <= (t.quick() ? 20u : 200u); ++round) {
    Stream producer = TN_TRY(device.stream());
    TN_TRY(producer.fill(a.span(), round, 1));
    const uint64_t value = TN_TRY(producer.record());
    TN_TRY(consumer.wait(producer, value));
    TN_TRY(consumer.copy(b.span(), a.span()));
    TN_TRY(producer.destroy(TN_DESTROY_COMPLETE));
    const Bytes found = TN_TRY(download(consumer, b.span()));
    same_bytes(t, Bytes(64, static_cast<std::byte>(round)), found, words("round ", round));
  }
  return {};
}

CONFORM_CASE(0, "stream: null arguments are TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const tn_stream_api& s = device.api().stream;
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  const tn_span span = memory.span();
  const tn_stream_options options{.size = sizeof options};
  tn_stream* made = nullptr;
  uint64_t value = 0;
  t.refuses(TN_INVALID, "stream.create(device = NULL)",
            [&](tn_error* e) { return s.create(nullptr, &options, &made, e); });
  t.refuses(TN_INVALID, "stream.create(stream = NULL)",
            [&](tn_error* e) { return s.create(device.handle(), &options, nullptr, e); });
  t.refuses(TN_INVALID, "stream.destroy(NULL)",
            [&](tn_error* e) { return s.destroy(nullptr, TN_DESTROY_COMPLETE, e); });
  t.refuses(TN_INVALID, "stream.copy(NULL, dst, src)",
            [&](tn_error* e) { return s.copy(nullptr, &span, &span, e); });
  t.refuses(TN_INVALID, "stream.copy(dst = NULL)",
            [&](tn_error* e) { return s.copy(stream.handle(), nullptr, &span, e); });
  t.refuses(TN_INVALID, "stream.copy(src = NULL)",
            [&](tn_error* e) { return s.copy(stream.handle(), &span, nullptr, e); });
  t.refuses(TN_INVALID, "stream.fill(NULL, dst)",
            [&](tn_error* e) { return s.fill(nullptr, &span, 0, 1, e); });
  t.refuses(TN_INVALID, "stream.fill(dst = NULL)",
            [&](tn_error* e) { return s.fill(stream.handle(), nullptr, 0, 1, e); });
  t.refuses(TN_INVALID, "stream.record(NULL)", [&](tn_error* e) { return s.record(nullptr, 0, &value, e); });
  t.refuses(TN_INVALID, "stream.record(value = NULL)",
            [&](tn_error* e) { return s.record(stream.handle(), 0, nullptr, e); });
  t.refuses(TN_INVALID, "stream.wait(NULL, other)",
            [&](tn_error* e) { return s.wait(nullptr, stream.handle(), 0, e); });
  t.refuses(TN_INVALID, "stream.wait(stream, NULL)",
            [&](tn_error* e) { return s.wait(stream.handle(), nullptr, 0, e); });
  t.refuses(TN_INVALID, "stream.query(NULL)", [&](tn_error* e) { return s.query(nullptr, &value, e); });
  t.refuses(TN_INVALID, "stream.query(completed = NULL)",
            [&](tn_error* e) { return s.query(stream.handle(), nullptr, e); });
  t.refuses(TN_INVALID, "stream.sync(NULL)", [&](tn_error* e) { return s.sync(nullptr, 0, 0, e); });
  t.check(made == nullptr, "a refused create stored a stream");
  return stream.finish();
}

CONFORM_CASE(0, "stream: null arguments of the optional functions are TN_INVALID") {
  const Device& device = *TN_TRY(t.device());
  const tn_stream_api& s = device.api().stream;
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  const tn_span span = memory.span();
  uint64_t value = 0;
  const auto refuse = [&](bool there, const char* what, auto&& f) {
    if (there) t.refuses(TN_INVALID, what, f);
  };
  const tn_copy_shape shape{
      .size = sizeof shape, .rank = 1, .extent = {8}, .dst_stride = {1}, .src_stride = {1}};
  refuse(s.copy_strided, "stream.copy_strided(NULL)",
         [&](tn_error* e) { return s.copy_strided(nullptr, &span, &span, &shape, e); });
  refuse(s.copy_strided, "stream.copy_strided(shape = NULL)",
         [&](tn_error* e) { return s.copy_strided(stream.handle(), &span, &span, nullptr, e); });
  refuse(s.timestamp, "stream.timestamp(NULL)",
         [&](tn_error* e) { return s.timestamp(nullptr, 0, &value, e); });
  refuse(s.timestamp, "stream.timestamp(ns = NULL)",
         [&](tn_error* e) { return s.timestamp(stream.handle(), 0, nullptr, e); });
  refuse(s.host_call, "stream.host_call(NULL)", [&](tn_error* e) {
    return s.host_call(
        nullptr, [](void*) {}, nullptr, e);
  });
  refuse(s.host_call, "stream.host_call(call = NULL)",
         [&](tn_error* e) { return s.host_call(stream.handle(), nullptr, nullptr, e); });
  refuse(s.promise, "stream.promise(NULL)", [&](tn_error* e) { return s.promise(nullptr, &value, e); });
  refuse(s.promise, "stream.promise(value = NULL)",
         [&](tn_error* e) { return s.promise(stream.handle(), nullptr, e); });
  refuse(s.signal, "stream.signal(NULL)", [&](tn_error* e) { return s.signal(nullptr, 1, TN_OK, e); });
  t.check(true, "");  // a plugin without optional functions keeps this too
  return stream.finish();
}

CONFORM_CASE(0, "stream: errors may be NULL") {
  const Device& device = *TN_TRY(t.device());
  const tn_stream_api& s = device.api().stream;
  const tn_device_api& d = device.api().device;
  const Memory memory = TN_TRY(device.alloc(64));
  const Stream stream = TN_TRY(device.stream());
  const tn_span good = memory.span(), bad = memory.span(1, 64);
  uint64_t value = 0;
  const Breadcrumb here("a failing call with error = NULL");
  t.check(s.copy(stream.handle(), &good, &bad, nullptr) == TN_INVALID, "stream.copy out of range");
  t.check(s.fill(stream.handle(), &bad, 0, 1, nullptr) == TN_INVALID, "stream.fill out of range");
  t.check(s.fill(stream.handle(), &good, 0, 3, nullptr) == TN_INVALID, "stream.fill with 3 bytes of pattern");
  t.check(s.sync(stream.handle(), UINT64_MAX, 0, nullptr) == TN_INVALID,
          "stream.sync for a value nobody recorded");
  t.check(s.wait(stream.handle(), stream.handle(), UINT64_MAX, nullptr) == TN_INVALID,
          "stream.wait for a value nobody recorded");
  tn_memory* none = nullptr;
  t.check(d.alloc(device.handle(), 99, 64, 0, &none, nullptr) == TN_UNSUPPORTED, "device.alloc of kind 99");
  t.check(d.alloc(device.handle(), 0, 64, 3, &none, nullptr) == TN_INVALID, "device.alloc with alignment 3");
  t.check(d.close(device.handle(), nullptr) == TN_BUSY, "device.close while a stream lives");
  t.check(s.record(stream.handle(), 0, &value, nullptr) == TN_OK, "stream.record");
  return stream.sync(value);
}

}  // namespace tenon::conform
