// SPDX-License-Identifier: Apache-2.0
// record.cpp: see record.hpp. Each call is passed on first and recorded after, with its code.
#include "layers/record.hpp"

#include "layers/handle_table.hpp"
#include "layers/interposer.hpp"
#include "layers/recorder.hpp"
#include "layers/spots.hpp"
#include "plugin/early.hpp"

#include <atomic>
#include <cstring>
#include <optional>
#include <span>

namespace tenon::layers {
namespace {

using namespace recording;

constexpr uint64_t largest_data = uint64_t{1} << 31;  // of one step: its payload is counted in 32 bits

struct KernelNote {
  Id id = 0;
  uint32_t input_count = 0;  // bindings from there on are outputs
};

struct StreamNote {
  explicit StreamNote(Id number) : id(number) {}
  const Id id;
  std::atomic<uint64_t> reached{0};  // the newest value that is recorded as reached
};

class RecordedPlugin final : public Interposer {
 public:
  RecordedPlugin(const tn_plugin& below, Recorder& to) : Interposer(below), to_(to) {
    to.add(Plugin{.name = below.name, .plugin_version = below.version == nullptr ? "" : below.version});
  }

  int32_t device_open(P* p, uint32_t ordinal, const tn_device_options* options, tn_device** device,
                      E* e) override {
    const int32_t code = Interposer::device_open(p, ordinal, options, device, e);
    to_.add(Open{.device = enter_device(code, device), .ordinal = ordinal, .code = code});
    return code;
  }
  int32_t device_close(tn_device* device, E* e) override {
    const auto id = devices_.erase(device);
    const int32_t code = Interposer::device_close(device, e);
    if (code != TN_OK && id) devices_.insert(device, id);
    to_.add(Close{.device = id ? *id : 0, .code = code});
    return code;
  }
  int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** memory,
                E* e) override {
    const int32_t code = Interposer::alloc(device, kind, bytes, alignment, memory, e);
    Alloc step{.device = id_of(devices_, device),
               .memory = 0,
               .memory_kind = kind,
               .bytes = bytes,
               .alignment = alignment,
               .code = code};
    if (code == TN_OK) step.memory = enter_memory(*memory, kind, bytes);
    to_.add(step);
    return code;
  }
  int32_t free(tn_memory* memory, E* e) override {
    const Id id = memories_.leave(memory);
    const int32_t code = Interposer::free(memory, e);
    to_.add(Free{.memory = id, .code = code});
    return code;
  }
  int32_t address(tn_memory* memory, uint64_t* address, E* e) override {
    const int32_t code = Interposer::address(memory, address, e);
    const bool seen = code == TN_OK && !OwnCall::here() && (below_.features & TN_FEATURE_HOST_MEMORY) != 0;
    if (const auto note = seen ? memories_.find(memory) : nullptr) note->host_sees = true;
    return code;
  }

  int32_t stream_create(tn_device* device, const tn_stream_options* options, tn_stream** stream,
                        E* e) override {
    const int32_t code = Interposer::stream_create(device, options, stream, e);
    Create step{.device = id_of(devices_, device), .stream = 0, .priority = 0, .name = "", .code = code};
    if (options != nullptr) step.priority = options->priority;
    if (options != nullptr && options->name != nullptr) step.name = options->name;
    step.stream = enter_stream(code, stream);
    to_.add(std::move(step));
    return code;
  }
  int32_t import_stream(tn_device* device, uint64_t native, tn_stream** stream, E* e) override {
    const int32_t code = Interposer::import_stream(device, native, stream, e);
    to_.add(Create{.device = id_of(devices_, device),
                   .stream = enter_stream(code, stream),
                   .priority = 0,
                   .name = "imported",
                   .code = code});
    return code;
  }
  int32_t stream_destroy(tn_stream* stream, uint32_t mode, E* e) override {
    const auto note = streams_.erase(stream);
    const int32_t code = Interposer::stream_destroy(stream, mode, e);
    to_.add(Destroy{.stream = note ? note->id : 0, .mode = mode, .code = code});
    return code;
  }
  int32_t copy(tn_stream* stream, const tn_span* dst, const tn_span* src, E* e) override {
    return copied(stream, *dst, *src, nullptr, [&] { return Interposer::copy(stream, dst, src, e); });
  }
  int32_t copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src, const tn_copy_shape* shape,
                       E* e) override {
    return copied(stream, *dst, *src, shape,
                  [&] { return Interposer::copy_strided(stream, dst, src, shape, e); });
  }
  int32_t fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
               E* e) override {
    const Spot to = memories_.spot(*dst);
    const int32_t code = Interposer::fill(stream, dst, pattern, pattern_bytes, e);
    if (!tell_unknown("fill", {&to, 1})) {
      to_.add(Fill{id_of(streams_, stream), to.note, pattern, pattern_bytes, code});
    }
    return code;
  }
  int32_t record(tn_stream* stream, uint32_t flags, uint64_t* value, E* e) override {
    const int32_t code = Interposer::record(stream, flags, value, e);
    to_.add(Record{id_of(streams_, stream), flags, code == TN_OK ? *value : 0, code});
    return code;
  }
  int32_t wait(tn_stream* stream, tn_stream* other, uint64_t value, E* e) override {
    const int32_t code = Interposer::wait(stream, other, value, e);
    to_.add(Wait{id_of(streams_, stream), id_of(streams_, other), value, code});
    return code;
  }
  int32_t query(tn_stream* stream, uint64_t* completed, E* e) override {
    const int32_t code = Interposer::query(stream, completed, e);
    learned(stream, code == TN_OK ? *completed : 0, code);
    return code;
  }
  int32_t sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, E* e) override {
    tn_error own = no_error();
    E* const told = e != nullptr ? e : &own;
    const int32_t code = Interposer::sync(stream, value, timeout_ns, told);
    if (!plugin::is_early(code, *told)) learned(stream, value, code);
    to_.flush();
    return code;
  }
  int32_t host_call(tn_stream* stream, void (*call)(void*), void* argument, E* e) override {
    const int32_t code = Interposer::host_call(stream, call, argument, e);
    to_.add(HostCall{id_of(streams_, stream), code});
    return code;
  }
  int32_t promise(tn_stream* stream, uint64_t* value, E* e) override {
    const int32_t code = Interposer::promise(stream, value, e);
    if (code == TN_OK) ++to_.open_promises;
    to_.add(Promise{id_of(streams_, stream), code == TN_OK ? *value : 0, code});
    return code;
  }
  int32_t signal(tn_stream* stream, uint64_t value, int32_t signalled, E* e) override {
    to_.add(Signal{id_of(streams_, stream), value, signalled});
    const int32_t code = Interposer::signal(stream, value, signalled, e);
    if (code == TN_OK) --to_.open_promises;
    return code;
  }

  int32_t compile(tn_device* device, const tn_fragment* fragment, const tn_compile_options* options,
                  tn_kernel** kernel, E* e) override {
    const int32_t code = Interposer::compile(device, fragment, options, kernel, e);
    Compile step{.device = id_of(devices_, device),
                 .kernel = 0,
                 .fragment = note_of(*fragment),
                 .budget_ms = 0,
                 .workspace_limit = TN_COMPILE_NO_LIMIT,
                 .code = code};
    if (options != nullptr)
      step.budget_ms = options->budget_ms, step.workspace_limit = options->workspace_limit;
    step.kernel = enter_kernel(code, kernel, *fragment);
    to_.add(std::move(step));
    return code;
  }
  int32_t load(tn_device* device, const tn_fragment* fragment, const void* data, uint64_t bytes,
               tn_kernel** kernel, E* e) override {
    const int32_t code = Interposer::load(device, fragment, data, bytes, kernel, e);
    if (code != TN_OK) return code;  // the host compiles instead
    to_.add(Compile{id_of(devices_, device), enter_kernel(code, kernel, *fragment), note_of(*fragment), 0,
                    TN_COMPILE_NO_LIMIT, code});
    return code;
  }
  int32_t launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t count,
                 const tn_span* workspace, E* e) override {
    std::vector<Spot> spots;
    for (uint32_t i = 0; i < count; ++i) spots.push_back(memories_.spot(bindings[i]));
    Launch step{.kernel = 0, .stream = id_of(streams_, stream), .bindings = {}, .workspace = {}, .code = 0};
    const auto note = kernels_.find(kernel);
    for (uint32_t i = 0; i < count; ++i) {
      if (note && i < note->input_count) poke(stream, spots[i]);
      step.bindings.push_back(spots[i].note);
    }
    if (workspace != nullptr) step.workspace = memories_.spot(*workspace).note;
    if (note) step.kernel = note->id;
    step.code = Interposer::launch(kernel, stream, bindings, count, workspace, e);
    const int32_t code = step.code;
    if (!tell_unknown("launch", spots)) to_.add(std::move(step));
    return code;
  }
  int32_t kernel_destroy(tn_kernel* kernel, E* e) override {
    const auto note = kernels_.erase(kernel);
    const int32_t code = Interposer::kernel_destroy(kernel, e);
    to_.add(DestroyKernel{.kernel = note ? note->id : 0, .code = code});
    return code;
  }
  int32_t submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count, E* e) override {
    to_.add(Unknown{"submit: a collective needs the other ranks"});
    return Interposer::submit(comm, stream, ops, count, e);
  }

  const void* extension(const char* id) override {
    return id != nullptr && std::strcmp(id, TN_CAPTURE_ID) == 0 ? nullptr : Interposer::extension(id);
  }

 private:
  Id enter_device(int32_t code, tn_device** device) {
    if (code != TN_OK) return 0;
    const Id id = to_.next_id();
    devices_.insert(*device, std::make_shared<Id>(id));
    return id;
  }
  Id enter_kernel(int32_t code, tn_kernel** kernel, const tn_fragment& fragment) {
    if (code != TN_OK) return 0;
    const Id id = to_.next_id();
    kernels_.insert(*kernel, std::make_shared<KernelNote>(KernelNote{id, fragment.input_count}));
    return id;
  }
  static Id id_of(const HandleTable<Id>& table, const void* handle) {
    const auto id = table.find(handle);
    return id ? *id : 0;
  }
  Id enter_stream(int32_t code, tn_stream** stream) {
    if (code != TN_OK) return 0;
    const Id id = to_.next_id();
    streams_.insert(*stream, std::make_shared<StreamNote>(id));
    return id;
  }
  Id id_of(const HandleTable<StreamNote>& table, const void* handle) const {
    const auto note = table.find(handle);
    return note ? note->id : 0;
  }

  // The host learned how far a stream is; what it knew before is not told again.
  void learned(tn_stream* stream, uint64_t value, int32_t code) {
    const auto note = streams_.find(stream);
    if (!note) return;
    uint64_t known = note->reached.load(std::memory_order_relaxed);
    while (code == TN_OK && known < value && !note->reached.compare_exchange_weak(known, value)) {
    }
    if (code != TN_OK || known < value) to_.add(Reached{note->id, value, code});
  }

  Id enter_memory(tn_memory* memory, uint32_t kind, uint64_t bytes) {
    uint64_t at = 0;
    tn_error ignored = no_error();
    std::optional<uint64_t> address;
    if (bytes != 0 && below_.device->address != nullptr &&
        Interposer::address(memory, &at, &ignored) == TN_OK)
      address = at;
    auto note = std::make_shared<MemoryNote>(to_.next_id(), bytes, address);
    note->host_sees = address.has_value() && kind != TN_MEMORY_DEVICE;
    const Id id = note->id;
    memories_.enter(memory, std::move(note));
    return id;
  }

  bool tell_unknown(const char* function, std::span<const Spot> spots) {
    for (const Spot& each : spots) {
      if (!each.unknown && each.note.bytes <= largest_data) continue;
      to_.add(Unknown{std::string(function) + (each.unknown ? ": uses memory that was not made by alloc"
                                                            : ": moves more than a step can hold")});
      return true;
    }
    return false;
  }

  // Waits until all work of `stream` is done; false when that cannot be.
  bool drain(tn_stream* stream) {
    if (to_.open_promises != 0) return false;
    uint64_t value = 0;
    tn_error ignored = no_error();
    return Interposer::record(stream, 0, &value, &ignored) == TN_OK &&
           Interposer::sync(stream, value, TN_TIMEOUT_NEVER, &ignored) == TN_OK;
  }

  // Records what the host may have written where the next step of `stream` reads.
  void poke(tn_stream* stream, const Spot& from) {
    if (!from.memory || from.host == nullptr || from.note.bytes > largest_data || !drain(stream)) return;
    to_.add(Poke{id_of(streams_, stream), from.note, from.bytes()});
  }

  template <class Go>
  int32_t copied(tn_stream* stream, const tn_span& dst, const tn_span& src, const tn_copy_shape* shape,
                 const Go& go) {
    const Spot spots[] = {memories_.spot(dst), memories_.spot(src)};
    const auto& [to, from] = spots;
    poke(stream, from);
    Copy step{.stream = id_of(streams_, stream),
              .dst = to.note,
              .src = from.note,
              .box = {},
              .data = {},
              .digest = {},
              .code = 0};
    if (shape != nullptr) {
      step.box = {shape->rank,
                  {shape->extent, shape->extent + shape->rank},
                  {shape->dst_stride, shape->dst_stride + shape->rank},
                  {shape->src_stride, shape->src_stride + shape->rank}};
    }
    const bool fits = from.note.bytes <= largest_data;
    if (!from.memory && from.host != nullptr && fits) step.data = from.bytes();
    const int32_t code = step.code = go();
    if (code == TN_OK && to.host != nullptr && drain(stream))
      step.digest = digest_of(to.host, to.note.bytes, step.box);
    if (!tell_unknown("copy", spots)) to_.add(std::move(step));
    return code;
  }

  Recorder& to_;
  HandleTable<Id> devices_;
  HandleTable<KernelNote> kernels_;
  HandleTable<StreamNote> streams_;
  Spots memories_;
};

class RecordLayer final : public InterposingLayer {
 public:
  RecordLayer(std::string file, Log log) : recorder_(std::move(file), log), log_(std::move(log)) {}
  ~RecordLayer() override {
    const Status ended = recorder_.end();
    if (!ended.ok() && log_) log_(TN_LOG_ERROR, ended.message());
    drop_interposers();
  }
  Status begin() { return recorder_.begin(); }
  Status finish() override { return recorder_.end(); }
  std::vector<std::string> report() const override {
    auto out = InterposingLayer::report();
    for (std::string& line : recorder_.report()) out.push_back(std::move(line));
    return out;
  }

 private:
  std::unique_ptr<Interposer> interpose(const tn_plugin& below) override {
    return std::make_unique<RecordedPlugin>(below, recorder_);
  }
  Recorder recorder_;
  Log log_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_record(std::string_view file, Log log) {
  if (file.empty()) return Status(TN_INVALID, "layer record needs a file: write record=FILE");
  auto layer = std::make_unique<RecordLayer>(std::string(file), std::move(log));
  TN_TRY(layer->begin());
  return std::unique_ptr<Layer>(std::move(layer));
}

}  // namespace tenon::layers
