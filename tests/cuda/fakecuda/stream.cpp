// SPDX-License-Identifier: Apache-2.0
// stream.cpp: streams: what they order, and the calls on them that are neither copies nor launches.
//
// Invariant: a destroyed stream's work still runs; only its handle is gone.
#include "capture.hpp"
#include "timeline.hpp"

#include <algorithm>
#include <atomic>

namespace fakecuda {
namespace {

Stream& default_stream_of_thread(Context& context) {
  auto& stream = context.per_thread[std::this_thread::get_id()];
  if (stream == nullptr) {
    stream = std::make_unique<Stream>();
    stream->id = next_stream_id();
    stream->context = &context;
    stream->blocking = true;
  }
  return *stream;
}

template <class Visit>
void for_each_blocking(const Driver& d, const Context& context, Visit&& visit) {
  for (const auto& [thread, stream] : context.per_thread) visit(*stream);
  for (const auto& [handle, stream] : d.streams.all())
    if (stream->context == &context && stream->blocking) visit(*stream);
}

}  // namespace

uint64_t next_stream_id() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

Stream& stream_of(Driver& d, Context& context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return context.legacy;
  if (handle == CU_STREAM_PER_THREAD) return default_stream_of_thread(context);
  const auto stream = d.streams.get(handle);
  require(stream->context == &context, CUDA_ERROR_INVALID_HANDLE);
  return *stream;
}

std::vector<TaskPtr> before_next(const Driver& d, const Stream& stream) {
  std::vector<TaskPtr> out{stream.last};
  if (stream.legacy) {
    for_each_blocking(d, *stream.context, [&](const Stream& other) { out.push_back(other.last); });
  } else if (stream.blocking) {
    out.push_back(stream.context->legacy.last);
  }
  return out;
}

std::vector<TaskPtr> last_tasks(const Driver& d, const Context& context) {
  std::vector<TaskPtr> out{context.legacy.last};
  for (const auto& [thread, stream] : context.per_thread) out.push_back(stream->last);
  for (const auto& [handle, stream] : d.streams.all())
    if (stream->context == &context) out.push_back(stream->last);
  return out;
}

void wait_shut(Driver& d, Lock& lock, const std::vector<TaskPtr>& tasks) {
  d.shut = true;
  for (const TaskPtr& task : tasks) d.engine.wait(lock, task);
  d.shut = false;
  d.let_in.notify_all();
}

TaskPtr enqueue(Driver& d, Stream& stream, Work work, const std::vector<TaskPtr>& after) {
  if (stream.legacy)
    for_each_blocking(d, *stream.context, [&](const Stream& other) { refuse_implicit(other); });
  if (stream.capture != nullptr) {
    add_node(stream, std::move(work));
    return nullptr;
  }
  if (begins(work.kind)) stream.begun = true;
  auto task = std::make_shared<Task>();
  task->stream = stream.id;
  task->work = std::move(work);
  task->health = stream.context->health;
  auto all = before_next(d, stream);
  all.insert(all.end(), after.begin(), after.end());
  d.engine.submit(task, all);
  stream.last = task;
  return task;
}

}  // namespace fakecuda

using namespace fakecuda;

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    require(flags == CU_STREAM_DEFAULT || flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    answer(out);
    auto stream = std::make_shared<Stream>();
    stream->id = next_stream_id();
    stream->context = &context;
    stream->blocking = flags == CU_STREAM_DEFAULT;
    stream->priority = std::clamp(priority, greatest_priority, 0);
    *out = d.streams.add(std::move(stream));
  });
}

CUresult cuStreamDestroy(CUstream handle) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = *d.streams.get(handle);
    require(stream.context == &context, CUDA_ERROR_INVALID_HANDLE);
    leave_capture(d, stream);
    d.streams.remove(handle);
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return call_in_context(
      [&](Driver& d, Lock&, Context& context) { answer(priority) = stream_of(d, context, handle).priority; });
}

// The one question that may be asked of a stream under another context.
CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    const bool by_default = handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    answer(out) = by_default ? context.handle : d.streams.get(handle)->context->handle;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return call_in_context([&](Driver& d, Lock& lock, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    refuse_while_capturing(stream);
    check_unsafe(d);
    const auto health = context.health;
    const auto tasks = stream.legacy ? before_next(d, stream) : std::vector<TaskPtr>{stream.last};
    for (const TaskPtr& task : tasks) d.engine.wait(lock, task);
    require_healthy(*health);
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    refuse_while_capturing(stream);
    check_unsafe(d);
    const auto tasks = stream.legacy ? before_next(d, stream) : std::vector<TaskPtr>{stream.last};
    for (const TaskPtr& task : tasks) {
      if (task == nullptr || task->done) continue;
      d.engine.look(*task);
      throw Refused{CUDA_ERROR_NOT_READY};
    }
  });
}

CUresult cuStreamWaitValue64(CUstream handle, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    require(flags <= CU_STREAM_WAIT_VALUE_NOR, CUDA_ERROR_INVALID_VALUE);
    require(address % sizeof(uint64_t) == 0, CUDA_ERROR_INVALID_VALUE);
    d.memory.check_device_access(address, sizeof(uint64_t), context.device);
    if (++d.counts.values == d.settings.drop_value) return;
    const auto holds = [address, value, flags] {
      const uint64_t seen =
          std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(address)).load(std::memory_order_acquire);
      switch (flags) {
        case CU_STREAM_WAIT_VALUE_GEQ:
          return static_cast<int64_t>(seen - value) >= 0;
        case CU_STREAM_WAIT_VALUE_EQ:
          return seen == value;
        case CU_STREAM_WAIT_VALUE_AND:
          return (seen & value) != 0;
        default:
          return ~(seen | value) != 0;
      }
    };
    const TaskPtr task = enqueue(d, stream, {.kind = Kind::value, .holds = holds});
    if (task == nullptr) return;
    std::erase_if(context.waits, [](const TaskPtr& wait) { return wait->done; });
    context.waits.push_back(task);
  });
}

CUresult cuStreamWriteValue64(CUstream handle, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    Stream& stream = stream_of(d, context, handle);
    require(flags == CU_STREAM_WRITE_VALUE_DEFAULT, CUDA_ERROR_INVALID_VALUE);
    require(address % sizeof(uint64_t) == 0, CUDA_ERROR_INVALID_VALUE);
    d.memory.check_device_access(address, sizeof(uint64_t), context.device);
    const auto write = [address, value] {
      std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(address))
          .store(value, std::memory_order_release);
    };
    // A write that a stream begins with may lie behind those who wait for it. A captured one does not run in this stream.
    std::function<bool()> nobody_waits{};
    if (!stream.begun && stream.capture == nullptr) {
      nobody_waits = [waits = context.waits, id = stream.id] {
        return std::ranges::none_of(waits,
                                    [id](const TaskPtr& wait) { return wait->stream != id && !wait->done; });
      };
    }
    enqueue(d, stream, {.kind = Kind::value, .run = write, .holds = std::move(nobody_waits)});
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return call_in_context([&](Driver& d, Lock&, Context& context) {
    require(function != nullptr, CUDA_ERROR_INVALID_VALUE);
    enqueue(d, stream_of(d, context, handle),
            {.kind = Kind::host, .run = [function, data] { function(data); }});
  });
}
