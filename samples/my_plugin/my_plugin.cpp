// SPDX-License-Identifier: Apache-2.0
// my_plugin.cpp: a whole Tenon plugin in one file. Its device is one GiB of this machine's memory, each
// stream has a worker thread of its own, and any group of add, mul and relu runs as one pass over the data.
//
// Read it from the bottom: Plugin finds devices; Device makes memory, streams and kernels. Before any of this
// is called, the framework has checked handles, spans, values and fragments; exceptions become errors.
// Invariant: work on a stream runs in order; a value is reached when all enqueued before it has run.
#include <tenon/author/op_rules.hpp>
#include <tenon/author/plugin.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

namespace my_plugin {

using namespace tenon::author;  // text, data_of, FragmentView, refuse, accept …
using tenon::Result;
using tenon::Status;

constexpr uint64_t capacity = 1ull << 30;

// A block of memory, counted against the device's capacity as long as it lives.
class Memory {
 public:
  Memory(uint64_t bytes, uint64_t alignment, std::atomic<uint64_t>& used)
      : bytes_(bytes), alignment_{alignment}, used_(used), data_(operator new(bytes, alignment_)) {
    used_ += bytes_;
  }
  Memory(Memory&&) = delete;
  ~Memory() {
    operator delete(data_, alignment_);
    used_ -= bytes_;
  }
  uint64_t bytes() const { return bytes_; }
  void* data() { return data_; }
  Result<uint64_t> address() { return reinterpret_cast<uintptr_t>(data_); }

 private:
  uint64_t bytes_;
  std::align_val_t alignment_;
  std::atomic<uint64_t>& used_;
  void* data_;
};

// How far a stream has come. Those who wait share it, so it may outlive its stream.
class Timeline {
 public:
  void reach(uint64_t value) {
    const std::lock_guard lock(mutex_);
    reached_ = value;
    changed_.notify_all();
  }
  uint64_t reached() const { return reached_; }
  // False when the time is up first; "never" is a year.
  bool wait_for(uint64_t value, uint64_t timeout_ns) {
    const std::chrono::nanoseconds limit(std::min<uint64_t>(timeout_ns, 365ull * 24 * 3600 * 1'000'000'000));
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return reached_ >= value; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<uint64_t> reached_{0};
};

// A queue of tasks and the thread that runs them in order.
class Stream {
 public:
  Stream() {
    const std::lock_guard lock(all_mutex);
    all.insert(this);
  }
  ~Stream() {
    const std::lock_guard lock(all_mutex);
    all.erase(this);
  }

  Status copy(const tn_span& dst, const tn_span& src) {
    std::byte *to = data_of<Memory>(dst), *from = data_of<Memory>(src);
    if (src.space == TN_SPACE_HOST_ADDRESS) {  // the caller may change it as soon as we return
      return enqueue(
          [to, kept = std::vector(from, from + src.bytes)] { std::memcpy(to, kept.data(), kept.size()); });
    }
    return enqueue([to, from, bytes = src.bytes] { std::memcpy(to, from, bytes); });
  }
  Status fill(const tn_span& dst, uint64_t pattern, uint32_t pattern_bytes) {
    return enqueue([to = bytes_of<Memory>(dst), pattern, pattern_bytes] {
      for (size_t i = 0; i < to.size(); i += pattern_bytes) std::memcpy(&to[i], &pattern, pattern_bytes);
    });
  }
  Status host_call(void (*call)(void*), void* argument) {
    return enqueue([call, argument] { call(argument); });
  }
  Result<uint64_t> record(uint32_t /*flags*/) {
    TN_TRY(enqueue([line = timeline_, value = issued_ + 1] { line->reach(value); }));
    return ++issued_;
  }
  Status wait(Stream& other, uint64_t value) {
    if (other.timeline_->reached() >= value) return {};
    return enqueue([line = other.timeline_, value] { line->wait_for(value, TN_TIMEOUT_NEVER); });
  }
  Result<uint64_t> completed() { return timeline_->reached(); }
  Status sync(uint64_t value, uint64_t timeout_ns) {
    if (timeline_->wait_for(value, timeout_ns)) return {};
    return Status(TN_TIMEOUT, text("value ", value, " was not reached in ", timeout_ns, " ns"));
  }
  // The last call before destruction.
  Status finish(uint32_t mode) {
    if (mode == TN_DESTROY_ABANDON) {
      const std::lock_guard lock(mutex_);
      tasks_.clear();
    }
    rest();
    timeline_->reach(UINT64_MAX);  // nobody waits for a stream that is gone
    return {};
  }

  Status enqueue(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    if (running_) return {};
    if (worker_.joinable()) worker_.join();
    worker_ = std::thread([this] { work(); });
    running_ = true;
    return {};
  }
  // Finishes the queue and ends the thread; the next task starts a new one.
  void rest() {
    std::unique_lock lock(mutex_);
    resting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !running_; });
    resting_ = false;
    if (worker_.joinable()) worker_.join();
  }

  static inline std::mutex all_mutex;
  static inline std::set<Stream*> all;  // that live now, for quiesce

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return resting_ || !tasks_.empty(); });
      if (tasks_.empty()) break;
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
    running_ = false;
    changed_.notify_all();
  }

  std::shared_ptr<Timeline> timeline_ = std::make_shared<Timeline>();
  uint64_t issued_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::thread worker_;
  bool running_ = false, resting_ = false;
};

// A compiled fragment: each element goes through all steps at once, so nothing between them touches memory.
struct Program {
  struct Step {
    uint32_t op, a, b, out;  // a, b and out number tensors
  };
  uint64_t elements, tensors;
  std::vector<Step> steps;
  std::vector<uint32_t> inputs, outputs;

  explicit Program(const FragmentView& f)
      : elements(f.tensors().empty() ? 0 : f.tensor(0).elements()),
        tensors(f.tensors().size()),
        inputs(f.inputs().begin(), f.inputs().end()),
        outputs(f.outputs().begin(), f.outputs().end()) {
    for (const tn_node& n : f.nodes()) {
      steps.push_back({n.op, n.inputs[0], n.inputs[n.input_count - 1], n.outputs[0]});
    }
  }
  void run(const std::vector<float*>& bindings) const {
    std::vector<float> value(tensors);  // one element of each
    for (uint64_t i = 0; i < elements; ++i) {
      for (size_t k = 0; k < inputs.size(); ++k) value[inputs[k]] = bindings[k][i];
      for (const Step& s : steps) value[s.out] = apply(s.op, value[s.a], value[s.b]);
      for (size_t k = 0; k < outputs.size(); ++k) bindings[inputs.size() + k][i] = value[outputs[k]];
    }
  }
  static float apply(uint32_t op, float a, float b) {
    if (op == TN_OP_add) return a + b;
    if (op == TN_OP_mul) return a * b;
    return a < 0 ? 0 : a;  // relu; NaN stays NaN
  }
};

class Kernel {
 public:
  explicit Kernel(const FragmentView& f) : program_(std::make_shared<const Program>(f)) {}
  void info(tn_kernel_info& out) const { set_text(out.engine, "one pass"); }

  // The task shares the program: a kernel may be destroyed while its launches are in flight.
  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& /*workspace*/) {
    std::vector<float*> places;
    for (const tn_span& binding : bindings) places.push_back(elements_of<float, Memory>(binding).data());
    return stream.enqueue([program = program_, places] { program->run(places); });
  }

 private:
  std::shared_ptr<const Program> program_;
};

// Why a fragment does not run here; empty when it does.
std::string obstacle(const FragmentView& f) {
  for (const tn_node& node : f.nodes()) {
    if (node.op == TN_OP_add || node.op == TN_OP_mul || node.op == TN_OP_relu) continue;
    return text("op ", op_name(node.op), " is not add, mul or relu");
  }
  for (const tn_tensor& raw : f.tensors()) {
    const TensorView tensor(raw);
    if (tensor.dtype() != TN_DTYPE_f32) return text("dtype ", tensor.dtype_name(), " is not f32");
    if (!tensor.is_dense() || tensor.is_constant()) return "a tensor is strided or constant";
    if (!same_dims(tensor, f.tensor(0))) return "tensors differ in shape";
  }
  return {};
}

class Device {
 public:
  void limits(tn_device_limits& out) const { out.max_alloc_bytes = capacity; }
  Status memory_info(tn_memory_info& out) {
    out.total_bytes = capacity;
    out.used_here_bytes = std::min<uint64_t>(used_, capacity);
    out.free_bytes = capacity - out.used_here_bytes;
    return {};
  }
  Result<std::unique_ptr<Memory>> allocate(uint32_t /*kind*/, uint64_t bytes, uint64_t alignment) {
    const uint64_t used = used_;
    if (used + bytes <= capacity) return std::make_unique<Memory>(bytes, alignment, used_);
    return Status(TN_NO_MEMORY, text("asked for ", bytes, " bytes with ", used, " of ", capacity, " in use"));
  }
  Result<std::unique_ptr<Stream>> create_stream(const tn_stream_options& /*options*/) {
    return std::make_unique<Stream>();
  }
  Status supports(const tn_fragment& fragment, tn_support& out) {
    TN_TRY(check_rules(FragmentView(fragment)));  // TN_INVALID: no device could run it
    const std::string reason = obstacle(FragmentView(fragment));
    if (!reason.empty()) return refuse(out, reason);
    out.alias_mask = UINT64_MAX;  // in place is fine: an element is read before it is written
    return accept(out);
  }
  Result<std::unique_ptr<Kernel>> compile(const tn_fragment& fragment, const tn_compile_options&) {
    TN_TRY(check_rules(FragmentView(fragment)));
    const std::string reason = obstacle(FragmentView(fragment));
    if (!reason.empty()) return Status(TN_UNSUPPORTED, reason);
    return std::make_unique<Kernel>(FragmentView(fragment));
  }

 private:
  std::atomic<uint64_t> used_{0};
};

struct Plugin {
  static constexpr Identity identity{.name = "my_plugin",
                                     .vendor = "Tenon samples",
                                     .version = "1.0.0",
                                     .features = TN_FEATURE_ADDRESSABLE | TN_FEATURE_HOST_MEMORY};
  using Device = my_plugin::Device;
  using Memory = my_plugin::Memory;
  using Stream = my_plugin::Stream;
  using Kernel = my_plugin::Kernel;

  Result<uint32_t> device_count() { return 1u; }
  Status describe(uint32_t /*ordinal*/, tn_device_info& out) {
    set_text(out.name, "A corner of this machine");
    set_text(out.id, "corner0");
    out.memory_bytes = capacity;
    out.dlpack_type = 1;  // kDLCPU
    return {};
  }
  Result<std::unique_ptr<Device>> open(uint32_t /*ordinal*/, const tn_device_options&) {
    return std::make_unique<Device>();
  }
  Status quiesce() {
    const std::lock_guard lock(Stream::all_mutex);
    for (Stream* stream : Stream::all) stream->rest();
    return {};
  }
};

}  // namespace my_plugin

TENON_PLUGIN(my_plugin::Plugin)
