// SPDX-License-Identifier: Apache-2.0
// trace_log.cpp: rings, and the Trace Event Format: one object with "traceEvents", complete events ("ph":"X"), times in µs.
#include "layers/trace_log.hpp"

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/text.hpp"

#include <tenon/version.hpp>

#include <cstdio>
#include <map>

namespace tenon::layers {
namespace {

std::atomic<uint64_t> serials{0};

// "12.345": µs from `start`.
std::string micros(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%llu.%03u", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned>(ns % 1000));
  return text;
}

constexpr int host_process = 1, device_process = 2;

std::string meta(const char* what, int process, uint64_t thread, const std::string& name) {
  return std::string("{\"name\":\"") + what + "\",\"ph\":\"M\",\"pid\":" + std::to_string(process) +
         ",\"tid\":" + std::to_string(thread) + ",\"args\":{\"name\":" + base::json_quoted(name) + "}},\n";
}

struct Span {
  uint64_t begin, end;
};

std::string complete(const std::string& name, const char* category, int process, uint64_t thread, Span time,
                     const std::string& arguments) {
  return "{\"name\":" + base::json_quoted(name) + ",\"cat\":\"" + category +
         "\",\"ph\":\"X\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread) +
         ",\"ts\":" + micros(time.begin) + ",\"dur\":" + micros(time.end - time.begin) + ",\"args\":{" +
         arguments + "}},\n";
}

// `"key":value` pairs, with commas between.
class Arguments {
 public:
  void add(const char* key, const std::string& json) {
    text_ += std::string(text_.empty() ? "\"" : ",\"") + key + "\":" + json;
  }
  void add(const char* key, const Label& label) {
    if (label) add(key, base::json_quoted(*label));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string line_of(const TraceEvent& event, uint64_t thread, uint64_t start) {
  Arguments arguments;
  arguments.add("on", event.subject);
  arguments.add("stream", event.stream);
  if (event.bytes != 0) arguments.add("bytes", std::to_string(event.bytes));
  if (event.code != TN_OK) arguments.add("code", base::json_quoted(code_name(event.code)));
  std::string name = function_name(event.function);
  if (event.function == Function::launch && event.subject) name += " " + *event.subject;
  return complete(name, "host", host_process, thread, {event.begin - start, event.end - start},
                  arguments.text());
}

}  // namespace

TraceLog::TraceLog(std::string file, uint64_t capacity)
    : file_(std::move(file)),
      capacity_(capacity),
      serial_(serials.fetch_add(1) + 1),
      start_(base::now_ns()) {}

TraceLog::Thread& TraceLog::mine() {
  thread_local uint64_t known_serial = 0;
  thread_local Thread* known = nullptr;
  thread_local std::map<uint64_t, Thread*> others;  // of a thread that works under several traces
  if (known_serial == serial_) return *known;
  Thread*& thread = others[serial_];
  if (thread == nullptr) {
    const std::lock_guard lock(mutex_);
    thread = threads_.emplace_back(std::make_unique<Thread>()).get();
    thread->number = threads_.size();
  }
  known_serial = serial_;
  return *(known = thread);
}

void TraceLog::add(const TraceEvent& event) {
  Thread& thread = mine();
  const std::lock_guard lock(thread.mutex);
  const uint64_t at = thread.added++;
  if (at < capacity_) {
    thread.ring.push_back(event);
  } else {
    thread.ring[at % capacity_] = event;
  }
}

void TraceLog::add(DeviceInterval interval) {
  const std::lock_guard lock(mutex_);
  intervals_.push_back(std::move(interval));
  if (intervals_.size() <= capacity_) return;
  intervals_.pop_front();
  ++intervals_dropped_;
}

uint64_t TraceLog::added() const {
  const std::lock_guard lock(mutex_);
  uint64_t count = intervals_.size() + intervals_dropped_;
  for (const auto& thread : threads_) {
    const std::lock_guard thread_lock(thread->mutex);
    count += thread->added;
  }
  return count;
}

uint64_t TraceLog::dropped() const {
  const std::lock_guard lock(mutex_);
  uint64_t count = intervals_dropped_;
  for (const auto& thread : threads_) {
    const std::lock_guard thread_lock(thread->mutex);
    count += thread->added - thread->ring.size();
  }
  return count;
}

std::string TraceLog::host_events() const {
  std::string out = meta("process_name", host_process, 0, "host");
  for (const auto& thread : threads_) {
    const std::lock_guard lock(thread->mutex);
    out += meta("thread_name", host_process, thread->number, "thread " + std::to_string(thread->number));
    const uint64_t count = thread->ring.size(), first = thread->added > count ? thread->added % count : 0;
    for (uint64_t i = 0; i < count; ++i) {
      out += line_of(thread->ring[(first + i) % count], thread->number, start_);
    }
  }
  return out;
}

std::string TraceLog::device_events() const {
  if (intervals_.empty()) return {};
  std::string out = meta("process_name", device_process, 0, "device");
  std::map<std::string, uint64_t> tracks;
  for (const DeviceInterval& each : intervals_) {
    const auto [track, made] = tracks.emplace(*each.stream, tracks.size() + 1);
    if (made) out += meta("thread_name", device_process, track->second, track->first);
    Arguments arguments;
    if (each.bytes != 0) arguments.add("bytes", std::to_string(each.bytes));
    const uint64_t begin = std::max(each.begin, start_) - start_, end = std::max(each.end, start_) - start_;
    out += complete(*each.what, "device", device_process, track->second, {begin, end}, arguments.text());
  }
  return out;
}

Status TraceLog::write() const {
  const uint64_t lost = dropped();
  std::string text = "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"generator\":\"libtenon " TENON_VERSION
                     "\",\"dropped_events\":" +
                     std::to_string(lost) + "},\n\"traceEvents\":[\n";
  {
    const std::lock_guard lock(mutex_);
    text += host_events() + device_events();
  }
  text.erase(text.size() - 2);  // the last comma: there is always the host's name
  return base::write_file(file_, text + "\n]}\n");
}

}  // namespace tenon::layers
