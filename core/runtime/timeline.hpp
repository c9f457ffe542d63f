// SPDX-License-Identifier: Apache-2.0
// timeline.hpp: Timeline, all the host knows of one stream.
//
// Invariant: streams and points count references and keep the plugin's stream open; what only asks for a verdict (waits of
// other streams, uses of memory) holds the husk, so streams that wait for each other can end. A value is sound when the
// plugin reached it and everything it waited for is sound; `reached` is raised to sound values only.
#pragma once

#include "runtime/deadline.hpp"
#include "runtime/upstream.hpp"

#include <tenon/stream.hpp>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::detail {
struct DeviceState;
}

namespace tenon::runtime {

class Cache;
struct HostCall;

enum class Fate {
  reached,  // and sound
  pending,
  lost,     // the stream is poisoned, and the value came after
  refused,  // the plugin would not say; the reason is not the stream's
};

// Why a stream is lost: set once, the first failure wins.
struct Poison {
  Error error;         // as every later call tells it
  std::string origin;  // "stream 'a', which failed: …", for the streams that waited for it
  uint64_t since = 0;  // carried: values above are lost
  bool carried = false;
};

// Knows better than a stream why work of that stream failed: a communicator over several others, where the first failure
// of one ends work on all.
class Witness {
 public:
  virtual ~Witness() = default;
  // Turns `failure` into its cause where this one is behind it. False: the cause is being found out, ask again; true
  // within seconds. [any-thread; does not block; cannot fail]
  virtual bool settled(Error& failure) noexcept = 0;
};

enum class Phase : uint32_t { open, closing, closed };

struct Timeline final : detail::StreamState {
  std::shared_ptr<detail::DeviceState> device;  // until closed
  const tn_plugin* plugin = nullptr;
  std::string name;
  std::array<std::atomic<Cache*>, 3> caches{};  // by memory kind, the pools' own
  std::atomic<bool> collects{false};            // it captures: caches made now are the capture's

  UpstreamQueue upstream;
  std::mutex settling;              // the consumer's side of upstream
  tn_stream* promises = nullptr;    // a helper stream for what is bridged; the stream's thread makes it
  HostCall* oldest_call = nullptr;  // host calls in the order they were enqueued; the stream's thread's
  HostCall* newest_call = nullptr;

  std::atomic<const Poison*> poison{nullptr};
  std::atomic<Phase> phase{Phase::open};
  std::atomic<uint32_t> pins{0};     // calls into the plugin by those who hold the husk only
  std::atomic<uint32_t> holders{1};  // of the husk; the open stream is one
  std::mutex witness_mutex;
  std::vector<std::weak_ptr<Witness>> witnesses;  // those whose work the stream has carried
  std::weak_ptr<Witness> latest_witness;          // the one that was called last; the stream's thread's
  Timeline* older = nullptr;                      // all open streams, under one mutex in timeline.cpp
  Timeline* newer = nullptr;

  ~Timeline();
};

inline Timeline& timeline_of(detail::StreamState& state) noexcept { return static_cast<Timeline&>(state); }
inline Timeline& timeline_of(const Stream& stream) noexcept { return timeline_of(*stream.state()); }

void hold(Timeline& line) noexcept;
void drop(Timeline& line) noexcept;

// Owns one hold.
class Hold {
 public:
  Hold() noexcept = default;
  explicit Hold(Timeline* line) noexcept : line_(line) {
    if (line != nullptr) hold(*line);
  }
  Hold(const Hold& other) noexcept : Hold(other.line_) {}
  Hold(Hold&& other) noexcept : line_(std::exchange(other.line_, nullptr)) {}
  Hold& operator=(Hold other) noexcept {
    std::swap(line_, other.line_);
    return *this;
  }
  ~Hold() {
    if (line_ != nullptr) drop(*line_);
  }
  Timeline* get() const noexcept { return line_; }
  Timeline& operator*() const noexcept { return *line_; }
  Timeline* operator->() const noexcept { return line_; }

 private:
  Timeline* line_ = nullptr;
};

// Keeps the plugin's stream from being destroyed during one call; false once it is going or gone.
class Pin {
 public:
  explicit Pin(Timeline& line) noexcept : line_(line) {
    line.pins.fetch_add(1, std::memory_order_seq_cst);
    open_ = line.phase.load(std::memory_order_seq_cst) == Phase::open;
    if (!open_) line.pins.fetch_sub(1, std::memory_order_release);
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  ~Pin() {
    if (open_) line_.pins.fetch_sub(1, std::memory_order_release);
  }
  explicit operator bool() const noexcept { return open_; }

 private:
  Timeline& line_;
  bool open_;
};

// Opens a stream on `device`. TN_INVALID for a priority the device lacks. [any-thread; may block; may fail]
Result<Stream> open_stream(const std::shared_ptr<detail::DeviceState>& device, StreamOptions options);

// Whether `value` was reached and is sound. Blocks until `deadline` at most; `why` is filled when refused.
// [any-thread, no lock held; blocks as the deadline says; cannot fail]
Fate judge(Timeline& line, uint64_t value, const Deadline& deadline, Status& why);
// Whether the work up to `value` has ended, sound or not: what memory wants to know.
// Blocks until `deadline` at most; false, too, when the stream cannot tell. [any-thread; blocks as the deadline says; cannot fail]
bool finished(Timeline& line, uint64_t value, const Deadline& deadline) noexcept;
// Raises `reached`, never lowers it.
void raise(Timeline& line, uint64_t value) noexcept;

// From now on `witness` is asked why work of `line` failed. Locks and counts nothing for the one that was called last. True for one
// that was not called before. `last`, where it is asked for: the one that was called last, when it is another.
// [stream's thread; does not block; cannot fail]
bool call_witness(Timeline& line, const std::weak_ptr<Witness>& witness,
                  std::weak_ptr<Witness>* last = nullptr);
// Turns `failure` of `line` into what its witnesses know. False: one of them does not know yet, and `deadline` has passed.
// [any-thread, no lock held; blocks as the deadline says; cannot fail]
bool find_cause(Timeline& line, Error& failure, const Deadline& deadline);

// Makes `error` the poison of `line` unless it has one, and carries it to the streams that waited for a lost value.
// [any-thread, no lock held; may block; cannot fail]
void poison(Timeline& line, const Error& error);
// Poisons `line`, which waited for a lost value of `source` after its own value `since`.
void carry(Timeline& line, const Timeline& source, uint64_t since);
// What a call on the poisoned `line` returns.
Status told(const Timeline& line);

}  // namespace tenon::runtime
