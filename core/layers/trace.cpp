// SPDX-License-Identifier: Apache-2.0
// trace.cpp: see trace.hpp. Device intervals are harvested when the host next learns how far a stream is.
#include "layers/trace.hpp"

#include "base/clock.hpp"
#include "base/text.hpp"
#include "layers/handle_table.hpp"
#include "layers/interposer.hpp"
#include "layers/text.hpp"
#include "layers/trace_log.hpp"

#include <deque>
#include <span>

namespace tenon::layers {
namespace {

// The event of the call that this thread is in, for methods that know more of it.
thread_local TraceEvent* current = nullptr;

// Work between two timed values of one stream, not yet known to be over.
struct Pending {
  uint64_t before = 0, after = 0;
  uint64_t enqueued_at = 0;  // host ns
  uint64_t bytes = 0;
  Label what;
};

struct TracedStream {
  Label label;
  tn_device* device = nullptr;
  std::mutex mutex;
  std::deque<Pending> pending;
};

class TracedPlugin final : public Interposer {
 public:
  TracedPlugin(const tn_plugin& below, TraceLog& log, bool device) noexcept
      : Interposer(below), log_(log), wants_device_(device) {}

  int32_t around(Function function, const void* subject, tn_error* /*error*/, const Call& call) override {
    TraceEvent event{.subject = labels_.find(subject), .stream = {}, .function = function};
    TraceEvent* const outer = std::exchange(current, &event);
    event.begin = base::now_ns();
    event.code = call();
    event.end = base::now_ns();
    current = outer;
    log_.add(event);
    return event.code;
  }

  int32_t device_open(P* p, uint32_t ordinal, const tn_device_options* options, tn_device** device,
                      E* e) override {
    const int32_t code = Interposer::device_open(p, ordinal, options, device, e);
    return made(code, device, "device '" + std::string(below_.name) + ":" + std::to_string(ordinal) + "'");
  }
  int32_t alloc(tn_device* device, uint32_t kind, uint64_t bytes, uint64_t alignment, tn_memory** memory,
                E* e) override {
    current->bytes = bytes;
    return Interposer::alloc(device, kind, bytes, alignment, memory, e);
  }
  int32_t stream_create(tn_device* device, const tn_stream_options* options, tn_stream** stream,
                        E* e) override {
    const int32_t code = Interposer::stream_create(device, options, stream, e);
    const bool named = options != nullptr && options->name != nullptr;
    const std::string number = std::to_string(streams_made_.fetch_add(1, std::memory_order_relaxed) + 1);
    made(code, stream, named ? "stream '" + std::string(options->name) + "'" : "stream #" + number);
    if (code != TN_OK) return code;
    auto traced = std::make_shared<TracedStream>();
    traced->label = labels_.find(*stream);
    traced->device = device;
    streams_.insert(*stream, std::move(traced));
    return code;
  }
  int32_t compile(tn_device* device, const tn_fragment* fragment, const tn_compile_options* options,
                  tn_kernel** kernel, E* e) override {
    return made(Interposer::compile(device, fragment, options, kernel, e), kernel, fragment_label(*fragment));
  }
  int32_t load(tn_device* device, const tn_fragment* fragment, const void* data, uint64_t bytes,
               tn_kernel** kernel, E* e) override {
    return made(Interposer::load(device, fragment, data, bytes, kernel, e), kernel,
                fragment_label(*fragment));
  }

  int32_t device_close(tn_device* device, E* e) override {
    return ended(Interposer::device_close(device, e), device);
  }
  int32_t kernel_destroy(tn_kernel* kernel, E* e) override {
    labels_.erase(kernel);
    return Interposer::kernel_destroy(kernel, e);
  }
  int32_t stream_destroy(tn_stream* stream, uint32_t mode, E* e) override {
    labels_.erase(stream);
    if (const auto traced = streams_.erase(stream)) harvest(stream, *traced, mode == TN_DESTROY_COMPLETE);
    return Interposer::stream_destroy(stream, mode, e);
  }

  int32_t copy(tn_stream* stream, const tn_span* dst, const tn_span* src, E* e) override {
    current->bytes = dst->bytes;
    return timed(stream, copy_label_, dst->bytes, [&] { return Interposer::copy(stream, dst, src, e); });
  }
  int32_t copy_strided(tn_stream* stream, const tn_span* dst, const tn_span* src, const tn_copy_shape* shape,
                       E* e) override {
    current->bytes = dst->bytes;
    return timed(stream, copy_label_, dst->bytes,
                 [&] { return Interposer::copy_strided(stream, dst, src, shape, e); });
  }
  int32_t fill(tn_stream* stream, const tn_span* dst, uint64_t pattern, uint32_t pattern_bytes,
               E* e) override {
    current->bytes = dst->bytes;
    return timed(stream, fill_label_, dst->bytes,
                 [&] { return Interposer::fill(stream, dst, pattern, pattern_bytes, e); });
  }
  int32_t launch(tn_kernel* kernel, tn_stream* stream, const tn_span* bindings, uint32_t count,
                 const tn_span* workspace, E* e) override {
    for (uint32_t i = 0; i < count; ++i) current->bytes += bindings[i].bytes;
    current->stream = labels_.find(stream);
    const Label what = current->subject ? current->subject : launch_label_;
    return timed(stream, what, current->bytes,
                 [&] { return Interposer::launch(kernel, stream, bindings, count, workspace, e); });
  }
  int32_t submit(tn_comm* comm, tn_stream* stream, const tn_comm_op* ops, uint32_t count, E* e) override {
    for (uint32_t i = 0; i < count; ++i) current->bytes += std::max(ops[i].send.bytes, ops[i].recv.bytes);
    current->stream = labels_.find(stream);
    return timed(stream, submit_label_, current->bytes,
                 [&] { return Interposer::submit(comm, stream, ops, count, e); });
  }
  int32_t query(tn_stream* stream, uint64_t* completed, E* e) override {
    return harvested(stream, Interposer::query(stream, completed, e));
  }
  int32_t sync(tn_stream* stream, uint64_t value, uint64_t timeout_ns, E* e) override {
    return harvested(stream, Interposer::sync(stream, value, timeout_ns, e));
  }

  // Takes what is over from all streams. [any-thread; may block]
  void harvest_all() {
    for (const auto& [handle, traced] : streams_.all()) {
      harvest(static_cast<tn_stream*>(const_cast<void*>(handle)), *traced, false);
    }
  }

 private:
  template <class Handle>
  int32_t made(int32_t code, Handle** handle, std::string label) {
    if (code == TN_OK) labels_.insert(*handle, std::make_shared<const std::string>(std::move(label)));
    return code;
  }
  int32_t ended(int32_t code, const void* handle) {
    if (code == TN_OK) labels_.erase(handle);
    return code;
  }

  bool mark(tn_stream* stream, uint64_t& value) {
    const OwnCall own;
    tn_error ignored = no_error();
    return Interposer::record(stream, TN_RECORD_TIMED, &value, &ignored) == TN_OK;
  }

  // Runs `enqueue`; with device times, between two timed values.
  template <class Enqueue>
  int32_t timed(tn_stream* stream, const Label& what, uint64_t bytes, const Enqueue& enqueue) {
    const auto traced = wants_device_.load(std::memory_order_relaxed) ? streams_.find(stream) : nullptr;
    if (!traced) return enqueue();
    Pending pending{.enqueued_at = base::now_ns(), .bytes = bytes, .what = what};
    const bool marked = mark(stream, pending.before);
    const int32_t code = enqueue();
    if (!marked || code != TN_OK || !mark(stream, pending.after)) return code;
    const std::lock_guard lock(traced->mutex);
    traced->pending.push_back(std::move(pending));
    if (traced->pending.size() > default_trace_events) traced->pending.pop_front();
    return code;
  }

  int32_t harvested(tn_stream* stream, int32_t code) {
    if (code != TN_OK || !wants_device_.load(std::memory_order_relaxed)) return code;
    if (const auto traced = streams_.find(stream)) harvest(stream, *traced, false);
    return code;
  }

  // Turns pending work that is over into intervals; `finish` waits for all of it.
  void harvest(tn_stream* stream, TracedStream& traced, bool finish) {
    const std::lock_guard lock(traced.mutex);
    const OwnCall own;
    tn_error ignored = no_error();
    if (finish && !traced.pending.empty()) {
      static_cast<void>(Interposer::sync(stream, traced.pending.back().after, TN_TIMEOUT_NEVER, &ignored));
    }
    uint64_t reached = 0;
    if (traced.pending.empty() || Interposer::query(stream, &reached, &ignored) != TN_OK) return;
    while (!traced.pending.empty() && traced.pending.front().after <= reached) {
      const Pending& work = traced.pending.front();
      uint64_t begin = 0, end = 0;
      const int32_t code = Interposer::timestamp(stream, work.before, &begin, &ignored);
      if (code == TN_UNSUPPORTED) wants_device_ = false;
      if (code == TN_OK && Interposer::timestamp(stream, work.after, &end, &ignored) == TN_OK &&
          end >= begin) {
        const uint64_t shift = host_shift(traced.device, begin, work.enqueued_at);
        log_.add({begin + shift, end + shift, work.what, traced.label, work.bytes});
      }
      traced.pending.pop_front();
    }
  }

  // What to add to a device time for the host's clock: as tn.profile/1 pairs them; without it the first work seen is
  // taken to begin when it was enqueued. Modulo 2^64.
  uint64_t host_shift(tn_device* device, uint64_t device_ns, uint64_t enqueued_at) {
    const auto shift = shifts_.find_or_insert(device, [&] {
      uint64_t there = device_ns, here = enqueued_at, uncertainty = 0;
      tn_error ignored = no_error();
      const auto* profile = static_cast<const tn_profile_api*>(extension(TN_PROFILE_ID));
      if (profile != nullptr)
        static_cast<void>(profile->clocks(device, &there, &here, &uncertainty, &ignored));
      return std::make_shared<uint64_t>(here - there);
    });
    return *shift;
  }

  TraceLog& log_;
  std::atomic<bool> wants_device_;
  std::atomic<uint64_t> streams_made_{0};
  HandleTable<const std::string> labels_;
  HandleTable<TracedStream> streams_;
  HandleTable<uint64_t> shifts_;
  const Label copy_label_ = std::make_shared<const std::string>("copy");
  const Label fill_label_ = std::make_shared<const std::string>("fill");
  const Label launch_label_ = std::make_shared<const std::string>("launch");
  const Label submit_label_ = std::make_shared<const std::string>("submit");
};

class TraceLayer final : public InterposingLayer {
 public:
  TraceLayer(std::string file, uint64_t events, bool device, Log log)
      : events_(std::move(file), events), device_(device), log_(std::move(log)) {}
  ~TraceLayer() override {
    const Status written = TraceLayer::finish();
    if (!written.ok() && log_) log_(TN_LOG_ERROR, written.message());
    drop_interposers();
  }
  std::vector<std::string> report() const override {
    auto out = InterposingLayer::report();
    if (const uint64_t lost = events_.dropped()) {
      out.push_back("trace " + events_.file() + " keeps the newest events of each thread and dropped " +
                    std::to_string(lost) + ": give it more with ';events=N'");
    }
    return out;
  }
  Status finish() override {
    for (const auto& each : interposers()) static_cast<TracedPlugin&>(*each).harvest_all();
    const uint64_t added = events_.added();
    if (std::exchange(written_, added) == added) return {};
    return events_.write();
  }
  Status try_file() const { return events_.write(); }

 private:
  std::unique_ptr<Interposer> interpose(const tn_plugin& below) override {
    return std::make_unique<TracedPlugin>(below, events_, device_);
  }
  TraceLog events_;
  bool device_;
  uint64_t written_ = 0;  // events that the file counts
  Log log_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_trace(std::string_view argument, Log log) {
  const auto parts = base::split(argument, ';');
  uint64_t events = default_trace_events;
  bool device = false;
  for (const std::string& part : std::span(parts).subspan(1)) {
    const uint64_t count = part.starts_with("events=") ? number(part.substr(7)).value_or(0) : 0;
    if (count > 0) {
      events = count;
    } else if (part == "device") {
      device = true;
    } else {
      return Status(TN_INVALID,
                    "layer trace does not know '" + part + "': write trace=FILE[;events=N][;device]");
    }
  }
  if (parts[0].empty()) return Status(TN_INVALID, "layer trace needs a file: write trace=FILE.json");
  auto layer = std::make_unique<TraceLayer>(parts[0], events, device, std::move(log));
  const Status tried = layer->try_file();
  if (!tried.ok()) return Status(TN_INVALID, "trace: " + tried.error().message);
  return std::unique_ptr<Layer>(std::move(layer));
}

}  // namespace tenon::layers
