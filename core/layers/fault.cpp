// SPDX-License-Identifier: Apache-2.0
// fault.cpp: see fault.hpp. Rules count across all plugins and devices; a loss belongs to one open device.
#include "layers/fault.hpp"

#include "base/text.hpp"
#include "layers/handle_table.hpp"
#include "layers/interposer.hpp"
#include "layers/text.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

namespace tenon::layers {
namespace {

constexpr std::array<std::string_view, TN_CODE_COUNT> codes = {
    "ok",      "invalid",     "unsupported", "no_memory", "not_found", "timeout", "busy",
    "aborted", "device_lost", "peer_lost",   "mismatch",  "version",   "internal"};

struct Rule {
  std::string text;
  Function function = Function::count_;
  uint64_t number = 0;  // 0: each call
  int32_t code = TN_OK;
  uint64_t delay_ms = 0;
  std::atomic<uint64_t> seen{0}, fired{0};
};
using Rules = std::deque<Rule>;

Status wrong(std::string_view rule, const std::string& why) {
  return Status(TN_INVALID, "fault rule '" + std::string(rule) + "': " + why, "fault");
}

Status parse_delay(Rule& rule, std::string_view text) {
  const auto delay = number(text);
  if (!delay) return wrong(rule.text, "'" + std::string(text) + "' is no number of milliseconds");
  rule.delay_ms = *delay;
  return {};
}

Status parse_effect(Rule& rule, std::span<const std::string> parts) {
  if (parts[0].starts_with("delay=")) {
    if (parts.size() > 1) return wrong(rule.text, "a delay ends the rule: remove ':" + parts[1] + "'");
    return parse_delay(rule, std::string_view(parts[0]).substr(6));
  }
  for (size_t code = 1; code < codes.size(); ++code) {
    if (parts[0] != codes[code]) continue;
    rule.code = static_cast<int32_t>(code);
    return parts.size() > 1 ? parse_delay(rule, parts[1]) : Status();
  }
  return wrong(rule.text, "no code is called '" + parts[0] + "'" +
                              base::did_you_mean(parts[0], std::span(codes).subspan(1)) + "; or 'delay=MS'");
}

Status parse_rule(Rule& rule, std::string_view text) {
  rule.text = text;
  const auto parts = base::split(text, ':');
  if (parts.size() < 3 || parts.size() > 4) return wrong(text, "write FUNCTION:N:CODE[:DELAY_MS]");
  auto function = function_from(parts[0]);
  if (!function.ok()) return wrong(text, function.error().message);
  rule.function = *function;
  const auto count = number(parts[1]);
  if (parts[1] != "*" && (!count || *count == 0)) {
    return wrong(text, "'" + parts[1] + "' is no call number: count from 1, or write '*' for each");
  }
  rule.number = count.value_or(0);
  return parse_effect(rule, std::span(parts).subspan(2));
}

bool ends_a_handle(Function function) {
  return function == Function::free || function == Function::stream_destroy ||
         function == Function::kernel_destroy || function == Function::comm_destroy;
}

using Lost = std::atomic<bool>;

class FaultyPlugin final : public Interposer {
 public:
  FaultyPlugin(const tn_plugin& below, Rules& rules, const Log& log) noexcept
      : Interposer(below), rules_(rules), log_(log) {}

  int32_t around(Function function, const void* subject, tn_error* error, const Call& call) override {
    if (OwnCall::here()) return call();
    const auto device = devices_.find(subject);
    const bool ends = ends_a_handle(function);
    if (device && device->load(std::memory_order_acquire) && !ends && function != Function::device_close) {
      return fail(TN_DEVICE_LOST, "the device was lost by injection: only destroy and free are legal on it",
                  error);
    }
    const Rule* fired = consult(function);
    if (fired == nullptr || fired->code == TN_OK) return call();
    if (fired->code == TN_DEVICE_LOST && device) device->store(true, std::memory_order_release);
    if (ends) static_cast<void>(call());
    return fail(fired->code, "injected by fault rule '" + fired->text + "'", error);
  }

  int32_t device_open(P* p, uint32_t ordinal, const tn_device_options* options, tn_device** device,
                      E* e) override {
    const int32_t code = Interposer::device_open(p, ordinal, options, device, e);
    if (code == TN_OK) devices_.insert(*device, std::make_shared<Lost>(false));
    return code;
  }
  int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** memory,
                E* e) override {
    return made(Interposer::alloc(device, kind, bytes, alignment, memory, e), device, memory);
  }
  int32_t stream_create(tn_device* device, const tn_stream_options* options, tn_stream** stream,
                        E* e) override {
    return made(Interposer::stream_create(device, options, stream, e), device, stream);
  }
  int32_t compile(tn_device* device, const tn_fragment* fragment, const tn_compile_options* options,
                  tn_kernel** kernel, E* e) override {
    return made(Interposer::compile(device, fragment, options, kernel, e), device, kernel);
  }
  int32_t load(tn_device* device, const tn_fragment* fragment, const void* data, uint64_t bytes,
               tn_kernel** kernel, E* e) override {
    return made(Interposer::load(device, fragment, data, bytes, kernel, e), device, kernel);
  }
  int32_t comm_create(tn_device* device, uint32_t rank, uint32_t size, const void* id, uint64_t id_bytes,
                      const tn_comm_options* options, tn_comm** comm, E* e) override {
    return made(Interposer::comm_create(device, rank, size, id, id_bytes, options, comm, e), device, comm);
  }
  int32_t split(tn_comm* comm, int32_t color, int32_t key, const tn_comm_options* options, tn_comm** out,
                E* e) override {
    return made(Interposer::split(comm, color, key, options, out, e), comm, out);
  }

  int32_t device_close(tn_device* device, E* e) override {
    const auto lost = devices_.erase(device);
    const int32_t code = Interposer::device_close(device, e);
    if (code != TN_OK && lost) devices_.insert(device, lost);
    return code;
  }
  int32_t free(tn_memory* memory, E* e) override {
    return devices_.erase(memory), Interposer::free(memory, e);
  }
  int32_t stream_destroy(tn_stream* stream, uint32_t mode, E* e) override {
    return devices_.erase(stream), Interposer::stream_destroy(stream, mode, e);
  }
  int32_t kernel_destroy(tn_kernel* kernel, E* e) override {
    return devices_.erase(kernel), Interposer::kernel_destroy(kernel, e);
  }
  int32_t comm_destroy(tn_comm* comm, uint64_t timeout_ns, E* e) override {
    return devices_.erase(comm), Interposer::comm_destroy(comm, timeout_ns, e);
  }

 private:
  // Counts the call for every rule of `function`, waits as the firing ones say, and returns the first that fires (one
  // with a code before a mere delay).
  const Rule* consult(Function function) {
    const Rule* fired = nullptr;
    for (Rule& rule : rules_) {
      if (rule.function != function) continue;
      const uint64_t seen = rule.seen.fetch_add(1, std::memory_order_relaxed) + 1;
      if (rule.number != 0 && seen != rule.number) continue;
      if (rule.fired.fetch_add(1, std::memory_order_relaxed) == 0 && log_) {
        log_(TN_LOG_WARN, "fault rule '" + rule.text + "' fires at call " + std::to_string(seen) + " of " +
                              function_name(function));
      }
      if (rule.delay_ms != 0) std::this_thread::sleep_for(std::chrono::milliseconds(rule.delay_ms));
      if (fired == nullptr || fired->code == TN_OK) fired = &rule;
    }
    return fired;
  }

  // A new handle shares its maker's fate.
  template <class Handle>
  int32_t made(int32_t code, const void* maker, Handle** handle) {
    if (code != TN_OK || *handle == nullptr) return code;
    if (auto lost = devices_.find(maker)) devices_.insert(*handle, std::move(lost));
    return code;
  }

  static int32_t fail(int32_t code, std::string why, tn_error* error) {
    return write_error(Error{.code = code, .message = std::move(why), .domain = "fault"}, error);
  }

  Rules& rules_;
  const Log& log_;
  HandleTable<Lost> devices_;  // every handle → whether its device is lost
};

class FaultLayer final : public InterposingLayer {
 public:
  FaultLayer(Rules rules, Log log) : rules_(std::move(rules)), log_(std::move(log)) {}
  ~FaultLayer() override { drop_interposers(); }

  std::vector<std::string> report() const override {
    auto out = InterposingLayer::report();
    for (const Rule& rule : rules_) {
      const uint64_t seen = rule.seen.load(), fired = rule.fired.load();
      out.push_back("fault rule '" + rule.text + "' " +
                    (fired == 0 ? "never fired" : "fired " + std::to_string(fired) + " times") + " in " +
                    std::to_string(seen) + " calls of " + function_name(rule.function));
    }
    return out;
  }

 private:
  std::unique_ptr<Interposer> interpose(const tn_plugin& below) override {
    return std::make_unique<FaultyPlugin>(below, rules_, log_);
  }
  Rules rules_;
  Log log_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_fault(std::string_view text, Log log) {
  Rules rules;
  for (const std::string& rule : base::split(text, ';')) {
    if (!rule.empty()) TN_TRY(parse_rule(rules.emplace_back(), rule));
  }
  if (rules.empty()) return wrong(text, "no rule given: write fault=FUNCTION:N:CODE[:DELAY_MS]");
  return std::unique_ptr<Layer>(std::make_unique<FaultLayer>(std::move(rules), std::move(log)));
}

}  // namespace tenon::layers
