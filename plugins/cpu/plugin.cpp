// SPDX-License-Identifier: Apache-2.0
// plugin.cpp: the entry, the identity and the devices of this machine.
//
// Options of the host: `threads`, how many threads one command may use (default: the processors of the device);
// `share_memory`, whether other processes may open large allocations: "never", "with_peers" (default), "always"; `read_memory`,
// whether ranks read each other's other memory: "where_quick" (default), "large", "with_peers", "never"; `host` and
// `interface`, where communicators between hosts find this one (comm/hosts.hpp); `engine` and
// `isa`, who runs elementwise passes and with which instructions (default: the fastest); `search`, `workspace_limit`, `cache`
// and `prefer` (kernels/search.hpp).
// Invariant: until a device is opened nothing is started, written or kept but what /sys told about the machine.
#include "device.hpp"
#include "kernels/gemm.hpp"
#include "kernels/isa.hpp"
#include "kernels/tile_jit.hpp"

#include <tenon/author/capture_table.hpp>
#include <tenon/author/plugin.hpp>

#include <algorithm>
#include <array>

namespace tenon::cpu {
namespace {

using author::text;

template <class T>
struct Choice {
  std::string_view name;
  T value;
};

// The option's value among `choices`; the first one when it is not set.
template <class T, size_t n>
Result<T> chosen(const author::Host& host, const char* key, const std::array<Choice<T>, n>& choices) {
  const char* const set = host.option(key);
  if (set == nullptr) return choices[0].value;
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [&](const Choice<T>& choice) { return choice.name == set; });
  if (found != choices.end()) return found->value;
  std::string names;
  for (const Choice<T>& choice : choices) names += (names.empty() ? "" : ", ") + std::string(choice.name);
  return Status(TN_INVALID,
                text("option '", key, "' of plugin 'cpu' is '", set, "': it must be one of ", names));
}

// What kernels compiled from now on are made of.
Status choose_engine(const author::Host& host) {
  const TileEngine engine = TN_TRY(chosen<TileEngine>(host, "engine",
                                                      std::array<Choice<TileEngine>, 3>{{
                                                          {"auto", TileEngine::automatic},
                                                          {"interpreter", TileEngine::interpreter},
                                                          {"jit", TileEngine::jit},
                                                      }}));
  const Isa cap = TN_TRY(chosen<Isa>(host, "isa",
                                     std::array<Choice<Isa>, 3>{{
                                         {isa_name(Isa::avx512), Isa::avx512},
                                         {isa_name(Isa::avx2), Isa::avx2},
                                         {isa_name(Isa::baseline), Isa::baseline},
                                     }}));
  if (engine == TileEngine::jit && *why_no_jit() != '\0') {
    return Status(TN_UNSUPPORTED,
                  text("option 'engine' of plugin 'cpu' is 'jit', and the code generator is ", why_no_jit(),
                       ": install Xbyak's headers and build again, or leave it out"));
  }
  tile_engine = engine;
  isa_cap = cap;
  if (!cap_onednn())
    host.log(TN_LOG_WARN, text("option 'isa' of plugin 'cpu' is '", isa_name(cap),
                               "', and oneDNN, which this process has used before, keeps what it had"));
  return {};
}

}  // namespace

class Plugin {
 public:
  static constexpr author::Identity identity{
      .name = "cpu",
      .vendor = "Tenon",
      .version = TENON_PLUGIN_VERSION,
      .features = TN_FEATURE_ADDRESSABLE | TN_FEATURE_CROSS_DEVICE_WAIT | TN_FEATURE_HOST_MEMORY,
  };
  using Device = cpu::Device;
  using Memory = cpu::Memory;
  using Stream = cpu::Stream;
  using Kernel = cpu::Kernel;
  using Comm = cpu::Comm;
  using Capture = cpu::Capture;

  explicit Plugin(author::Host host) : host_(host) {}

  Result<uint32_t> device_count() { return static_cast<uint32_t>(nodes().size()); }

  Status describe(uint32_t ordinal, tn_device_info& out) {
    const driver::Node& node = nodes()[ordinal];
    out.kind = TN_DEVICE_CPU;
    out.dlpack_type = 1;  // kDLCPU
    out.numa_node = node.number;
    out.memory_bytes = node.memory_bytes;
    out.compute_units = static_cast<uint32_t>(node.processors.size());
    author::set_text(out.name, driver::cpu_model());
    author::set_text(out.id, author::text("numa", node.number));
    return {};
  }

  Result<std::unique_ptr<cpu::Device>> open(uint32_t ordinal, const tn_device_options& /*options*/) {
    const driver::Node& node = nodes()[ordinal];
    const auto all = static_cast<int64_t>(node.processors.size());
    const int64_t threads = TN_TRY(host_.integer("threads", all, 1, 4096));
    SearchOptions search = TN_TRY(search_options(host_));
    TN_TRY(choose_engine(host_));
    driver::Fence::prepare();
    SpinSeat::look_at_affinity();
    const Sharing sharing = TN_TRY(sharing_wanted());
    using Reads = comm::Where::Reads;
    const Reads reads =
        TN_TRY(chosen<Reads>(host_, "read_memory",
                             std::array<Choice<Reads>, 4>{{{"where_quick", Reads::where_quick},
                                                           {"large", Reads::large},
                                                           {"with_peers", Reads::always},
                                                           {"never", Reads::never}}}));
    segments_.stand_at({.host = text_of("host"), .interface = text_of("interface"), .reads = reads});
    tell_reach();
    return std::make_unique<cpu::Device>(node, static_cast<unsigned>(threads), std::move(search), sharing,
                                         host_, roster_, segments_);
  }

  const void* extension(std::string_view id) {
    return id == TN_CAPTURE_ID ? &author::CaptureTable<Plugin>::table : nullptr;
  }

  Status quiesce() {
    roster_.stop_all();
    return {};
  }

 private:
  std::string text_of(const char* option) const {
    const char* const set = host_.option(option);
    return set != nullptr ? set : "";
  }

  // For who asks (`tenon doctor`): the library that carries communicators between hosts is opened to know.
  void tell_reach() const {
    if (!host_.logs(TN_LOG_INFO)) return;
    const auto engine = comm::Bridge::find_engine();
    host_.log(TN_LOG_INFO, engine.ok() ? text("communicators reach other hosts through ", (*engine)->name)
                                       : std::string(engine.message()));
  }

  Result<Sharing> sharing_wanted() const {
    const char* value = host_.option("share_memory");
    const std::string_view word = value != nullptr ? value : "with_peers";
    if (word == "never") return Sharing::never;
    if (word == "with_peers") return Sharing::with_peers;
    if (word == "always") return Sharing::always;
    return Status(TN_INVALID, author::text("option 'share_memory' of plugin 'cpu' is '", word,
                                           "': it must be never, with_peers or always"));
  }

  const std::vector<driver::Node>& nodes() {
    const std::lock_guard lock(mutex_);
    if (nodes_.empty()) nodes_ = driver::nodes();
    return nodes_;
  }

  author::Host host_;
  std::mutex mutex_;  // of nodes_
  std::vector<driver::Node> nodes_;
  Roster roster_;
  comm::Segments segments_;
};

}  // namespace tenon::cpu

TENON_PLUGIN(tenon::cpu::Plugin)
