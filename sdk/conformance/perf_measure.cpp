// SPDX-License-Identifier: Apache-2.0
// perf_measure.cpp: calls, latencies and copies, through the tables alone.
#include "conformance/perf_rig.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace tenon::conform {

namespace {

using Against = Figure::Against;

// `n` calls with a wait after every few, which is not counted: a queue that is full would be measured otherwise.
Batch_ns calls(const Rig& rig, const std::function<Status()>& once) {
  return [&rig, once](uint64_t n) -> Result<double> {
    constexpr uint64_t few = 64;
    double out = 0;
    for (uint64_t done = 0; done < n; done += few) {
      const double start = now_ns();
      for (uint64_t i = done; i < std::min(n, done + few); ++i) TN_TRY(once());
      out += now_ns() - start;
      TN_TRY(rig.stream.finish());
    }
    return out;
  };
}

void measure_calls(const Rig& rig) {
  const Tables& api = rig.device.api();
  tn_stream* const stream = rig.stream.handle();
  const auto call = [&](const char* name, const std::function<Status()>& once) {
    tell_time(rig, {.group = "call", .name = name, .unit = "ns"}, 1, calls(rig, once));
  };
  uint64_t value = 0, reached = 0;
  call("stream.record", [&] {
    return raw("stream.record", [&](tn_error* e) { return api.stream.record(stream, 0, &value, e); });
  });
  call("stream.query", [&] {
    return raw("stream.query", [&](tn_error* e) { return api.stream.query(stream, &reached, e); });
  });
  auto other = rig.device.stream();
  if (other.ok() && rig.stream.finish().ok()) {
    call("stream.wait for a reached value", [&] {
      return raw("stream.wait",
                 [&](tn_error* e) { return api.stream.wait(other->handle(), stream, reached, e); });
    });
  }
  const auto alloc_and_free = [&]() -> Status {
    tn_memory* memory = nullptr;
    TN_TRY(raw("device.alloc", [&](tn_error* e) {
      return api.device.alloc(rig.device.handle(), TN_MEMORY_DEVICE, 1 << 20, 0, &memory, e);
    }));
    return raw("device.free", [&](tn_error* e) { return api.device.free(memory, e); });
  };
  tell_time(rig, {.group = "call", .name = "device.alloc and free of 1 MiB", .unit = "µs"}, 1000,
            calls(rig, alloc_and_free));
}

// From host_call to the first line of what it calls, which is as near to "start" as the contract lets a host see.
Result<double> submit_to_start(const Rig& rig) {
  std::atomic<int64_t> began{0};
  const auto note = [](void* at) {
    static_cast<std::atomic<int64_t>*>(at)->store(static_cast<int64_t>(now_ns()), std::memory_order_release);
  };
  const double start = now_ns();
  TN_TRY(rig.stream.host_call(note, &began));
  TN_TRY(rig.stream.finish());
  return std::max(0.0, static_cast<double>(began.load(std::memory_order_acquire)) - start);
}

void measure_latencies(const Rig& rig) {
  const Figure start{.group = "latency", .name = "submit to start of a host call", .unit = "µs"};
  if (rig.device.api().stream.host_call == nullptr) {
    tell_trouble(rig, start,
                 Status(TN_UNSUPPORTED, "the plugin has no host_call, so nothing tells when work starts"));
  } else {
    tell_time(rig, start, 1000, [&](uint64_t n) -> Result<double> {
      double out = 0;
      for (uint64_t i = 0; i < n; ++i) out += TN_TRY(submit_to_start(rig));
      return out;
    });
  }
  tell_time(rig, {.group = "latency", .name = "record and sync on an idle stream", .unit = "µs"}, 1000,
            [&](uint64_t n) -> Result<double> {
              const double begin = now_ns();
              for (uint64_t i = 0; i < n; ++i) TN_TRY(rig.stream.finish());
              return now_ns() - begin;
            });
  auto memory = rig.device.alloc(4096);
  const Figure fill{.group = "latency", .name = "fill of 4 KiB until it is seen finished", .unit = "µs"};
  if (!memory.ok()) return tell_trouble(rig, fill, Status(memory.error()));
  tell_time(rig, fill, 1000, [&](uint64_t n) -> Result<double> {
    const double begin = now_ns();
    for (uint64_t i = 0; i < n; ++i) {
      TN_TRY(rig.stream.fill(memory->span(), 0, 1));
      TN_TRY(rig.stream.finish());
    }
    return now_ns() - begin;
  });
}

void copy(const Rig& rig, const char* name, const tn_span& dst, const tn_span& src) {
  tell_rate(rig, {.group = "copy", .name = name, .unit = "GB/s", .against = Against::link},
            static_cast<double>(src.bytes), enqueued(rig, [&] { return rig.stream.copy(dst, src); }));
}

void measure_pinned(const Rig& rig, const Memory& device) {
  auto pinned = rig.device.alloc(device.bytes(), TN_MEMORY_HOST);
  if (!pinned.ok()) {
    const Figure none{.group = "copy", .name = "pinned host memory", .unit = "GB/s"};
    return tell_trouble(rig, none, Status(pinned.error()));
  }
  copy(rig, "host to device, pinned", device.span(), pinned->span());
  copy(rig, "device to host, pinned", pinned->span(), device.span());
}

// Memory traffic: a copy reads and writes each byte, a fill writes it.
void measure_inside(const Rig& rig, const Memory& a, const Memory& b) {
  const double bytes = static_cast<double>(a.bytes());
  tell_rate(
      rig, {.group = "copy", .name = "device to device, traffic", .unit = "GB/s", .against = Against::memory},
      2 * bytes, enqueued(rig, [&] { return rig.stream.copy(b.span(), a.span()); }));
  tell_rate(rig, {.group = "copy", .name = "fill, traffic", .unit = "GB/s", .against = Against::memory},
            bytes, enqueued(rig, [&] { return rig.stream.fill(a.span(), 0x5a, 1); }));
}

Status measure_copies(const Rig& rig) {
  const Memory a = TN_TRY(rig.device.alloc(rig.large()))
  , b = TN_TRY(rig.device.alloc(rig.large()));
  Bytes host(rig.large(), std::byte{1});
  copy(rig, "host to device, pageable", a.span(), host_span(host.data(), host.size()));
  copy(rig, "device to host, pageable", host_span(host.data(), host.size()), a.span());
  measure_pinned(rig, a);
  measure_inside(rig, a, b);
  return rig.stream.finish();
}

}  // namespace

uint64_t Rig::large() const {
  const uint64_t wanted = quick ? 16u << 20 : 64u << 20;
  const auto memory = device.memory_info();
  if (!memory.ok() || memory->free_bytes == 0) return wanted;
  return std::max<uint64_t>(std::min(wanted, memory->free_bytes / 8) / 4096 * 4096, 4096);
}

Result<std::vector<double>> sampled(const Rig& rig, const Batch_ns& batch) {
  uint64_t n = 1;
  double took = TN_TRY(batch(n));  // the first run pays for pages and caches
  took = TN_TRY(batch(n));
  while (took < rig.sample_ns() && n < (1u << 20)) {
    n *= took * 8 < rig.sample_ns() ? 8 : 2;
    took = TN_TRY(batch(n));
  }
  std::vector<double> out;
  for (size_t i = 0; i < rig.samples(); ++i) out.push_back(TN_TRY(batch(n)) / static_cast<double>(n));
  return out;
}

Batch_ns enqueued(const Rig& rig, const std::function<Status()>& once) {
  return [&rig, once](uint64_t n) -> Result<double> {
    const double start = now_ns();
    for (uint64_t i = 0; i < n; ++i) TN_TRY(once());
    TN_TRY(rig.stream.finish());
    return now_ns() - start;
  };
}

void tell_trouble(const Rig& rig, Figure figure, const Status& why) {
  figure.trouble = std::string(why.message());
  rig.tell(std::move(figure));
}

void tell_time(const Rig& rig, Figure figure, double divisor, const Batch_ns& batch) {
  const Breadcrumb here(figure.name);
  auto samples = sampled(rig, batch);
  if (!samples.ok()) return tell_trouble(rig, std::move(figure), Status(samples.error()));
  for (double& sample : *samples) sample /= divisor;
  summarise(figure, *std::move(samples));
  rig.tell(std::move(figure));
}

void tell_rate(const Rig& rig, Figure figure, double amount, const Batch_ns& batch) {
  const Breadcrumb here(figure.name);
  auto samples = sampled(rig, batch);
  if (!samples.ok()) return tell_trouble(rig, std::move(figure), Status(samples.error()));
  for (double& sample : *samples) sample = amount / std::max(sample, 1e-3);
  summarise(figure, *std::move(samples));
  rig.tell(std::move(figure));
}

void measure(Context& t, const Tell& tell) {
  const auto run = [&]() -> Status {
    const Device& device = *TN_TRY(t.device());
    const Stream stream = TN_TRY(device.stream());
    const Rig rig{t, device, stream, tell, t.quick()};
    measure_calls(rig);
    measure_latencies(rig);
    const Status copied = measure_copies(rig);
    if (!copied.ok()) tell_trouble(rig, {.group = "copy", .name = "copies", .unit = "GB/s"}, copied);
    measure_kernels(rig);
    return stream.finish();
  };
  const Status said = run();
  if (said.ok()) return;
  tell({.group = "call", .name = "measuring", .trouble = std::string(said.message())});
}

}  // namespace tenon::conform
