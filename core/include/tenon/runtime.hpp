// SPDX-License-Identifier: Apache-2.0
// runtime.hpp: Runtime, which finds plugins and opens devices.
//
// Invariant: a bad plugin is never a failure of `open`: it ends as a Candidate with the reason in words.
#pragma once

#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/result.hpp>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

namespace detail {
struct RuntimeState;  // core/runtime
}

enum class LogLevel : int32_t { error = 0, warn = 1, info = 2, debug = 3, trace = 4 };
// Called from any thread, one line at a time.
using LogSink = std::function<void(LogLevel level, std::string_view component, std::string_view text)>;
// One event of a plugin's own (TN_TRACE_…, tenon/host.h). Called from any thread, several at a time; returns soon.
using TraceSink = std::function<void(int32_t kind, std::string_view name, uint64_t id, double value)>;
// Runs `piece` over parts of [0, count), each of at least `grain` but the last, on threads of the program, and returns when
// all are done. Called from plugins' threads, several at a time; it must not throw, nor wait for a device.
using ParallelFor = std::function<void(uint64_t count, uint64_t grain,
                                       const std::function<void(uint64_t begin, uint64_t end)>& piece)>;

// How libraries of unknown digest are tried before they enter this process.
enum class Probe {
  child,  // in a child process, remembered by digest while the libraries that came with it are the same (default)
  off,  // not at all: a plugin that crashes on load takes this process with it
};

struct RuntimeOptions {
  std::vector<std::string> plugins{};      // explicit library files, first
  std::vector<std::string> search_path{};  // folders, before TENON_PLUGIN_PATH
  bool use_environment = true;             // TENON_PLUGIN_PATH, TENON_LAYERS, …; never when elevated
  bool use_install_path = true;            // the folder beside libtenon
  Probe probe = Probe::child;
  std::vector<std::string> layers{};  // "validate", "trace", "record=FILE", "fault=…"; outermost first
  std::map<std::string, std::string> options{};  // "cpu.threads" → "2"; "pool.reserve_fraction" → "0.5"
  LogLevel log_level = LogLevel::warn;
  LogSink log{};  // default: standard error
  // Services that a plugin does without when they are absent, as by default. They are called while this Runtime or a device
  // of it lives, and by plugins that it was the first to open.
  TraceSink trace{};
  ParallelFor parallel_for{};  // default: a plugin uses threads of its own
};

// One library that was considered.
struct Candidate {
  enum class State { loaded, skipped };
  State state = State::skipped;
  std::string name{};       // from the manifest or the plugin; the file's when neither speaks
  std::string path{};       // as found
  std::string real_path{};  // links resolved
  std::string digest{};     // SHA-256 of the file, in hex; empty when it was not read
  std::string vendor{}, version{}, license{};
  std::string abi{};     // "1.0", as negotiated
  std::string reason{};  // why it was skipped: object, value, remedy
  std::string probe{};   // "child", "remembered", "off", or empty
  std::vector<std::string> warnings{};
  std::vector<std::string> features{};  // "ADDRESSABLE" …
  std::vector<std::string> emulated{};  // what the host does in its stead
};

class TN_API Runtime {
 public:
  Runtime() noexcept = default;
  // Finds, probes and loads plugins. Fails only for options that contradict themselves (an unknown layer, an option of
  // the wrong form). [any-thread; may block; may fail]
  static Result<Runtime> open(RuntimeOptions options = {});

  // Everything that was considered, in search order. [any-thread; does not block; cannot fail]
  std::span<const Candidate> candidates() const noexcept;
  // The folders searched, in order, each with a remark ("does not exist", "world-writable: refused").
  struct Folder {
    std::string path, origin, remark;
  };
  std::span<const Folder> folders() const noexcept;

  // Opens "cpu" (its first device), "cpu:1", or "best": the first device of the fastest kind present (GPU, NPU, other,
  // CPU). TN_NOT_FOUND names what there is and why the rest was skipped. [any-thread; may block; may fail]
  Result<Device> device(std::string_view name);
  // Device infos of one loaded plugin, none opened. TN_NOT_FOUND. [any-thread; may block; may fail]
  Result<std::vector<tn_device_info>> devices(std::string_view plugin);
  // The (layered) descriptor of a loaded plugin. TN_NOT_FOUND. [any-thread; does not block; may fail]
  Result<const tn_plugin*> plugin(std::string_view name) const;
  // What the layers have to say: leaks and hazards found by "validate", where "record" wrote. Empty when all is well.
  std::vector<std::string> layer_reports() const;

  const std::shared_ptr<detail::RuntimeState>& state() const noexcept { return state_; }

 private:
  explicit Runtime(std::shared_ptr<detail::RuntimeState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<detail::RuntimeState> state_;
};

}  // namespace tenon
