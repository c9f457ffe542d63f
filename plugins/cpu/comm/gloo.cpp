// SPDX-License-Identifier: Apache-2.0
// gloo.cpp: the engine between hosts, over Gloo's TCP transport: pairs and unbound buffers, none of its collectives.
//
// Pairs are made for ranks on other hosts alone. What Gloo lacks is made up for here:
//
//   - It has no call that ends a wait without harm but `abortWait…`, which returns from one wait: it is begun again. Its
//     timeouts end every connection, so they serve for the last words only.
//   - A pair waits five times its timeout for its connection, and nothing but its end cuts that short: it is ended.
//   - A pair that breaks does not tell the transfer whose bytes are just on their way. So each pair has a receive that
//     nothing ever comes for, which is told, and is asked after each interrupted wait.
//   - Its thread does not wait for a pair that somebody sends on, but asks for its events again and again. Should it take the
//     sender's processor, that is all it does until its turn ends; so it takes none.
//   - It writes to closed sockets without MSG_NOSIGNAL, so SIGPIPE is kept from its threads and from ours.
//
// Invariant: a pair is used and ended under one mutex, so no transfer begins on one that is going.
#include "between.hpp"

#include <tenon/result.hpp>

#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <time.h>

namespace tenon::cpu::comm::between {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

struct Link {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
  std::mutex pairs;
  bool closed = false, stopped = false;
  gloo::transport::Pair* connecting = nullptr;
  std::mutex waits;
  std::vector<Transfer*> waiting;
  std::mutex asking;
  std::vector<Buffer> canaries;  // of each peer: the receive that nothing comes for
  std::byte nothing{};
};

struct Transfer {
  Link& link;
  bool sends;
  uint32_t peer;
  Buffer buffer;

  bool wait(std::chrono::milliseconds limit) {
    return sends ? buffer->waitSend(limit) : buffer->waitRecv(limit);
  }
  void interrupt() {
    if (sends) {
      buffer->abortWaitSend();
    } else {
      buffer->abortWaitRecv();
    }
  }
};

namespace {

using std::chrono::milliseconds;

constexpr uint64_t canary_tag = UINT64_MAX;

// How many timeouts Gloo waits for a connection.
constexpr uint64_t longer_to_connect = 5;

// As long as a clock can add without overflow.
constexpr milliseconds forever = std::chrono::hours(24 * 365);

milliseconds patience(uint64_t timeout_ns) {
  constexpr auto limit = static_cast<uint64_t>(std::chrono::nanoseconds(forever).count());
  return milliseconds(1 + static_cast<int64_t>(std::min(timeout_ns, limit) / 1'000'000));
}

// Gloo's messages begin with the place in its source.
std::string words(const char* what) {
  const std::string_view all = what;
  const size_t end = all.starts_with('[') ? all.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? all : all.substr(end + 2));
}

int32_t told(int32_t code, std::string message, tn_error* error) {
  return write_error({.code = code, .message = std::move(message), .domain = "gloo"}, error);
}

// What body() returns; what it throws is `code`.
template <class Body>
int32_t guarded(int32_t code, tn_error* error, Body body) noexcept {
  try {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return told(TN_NO_MEMORY, "no host memory", error);
    } catch (const std::exception& failure) {
      return told(code, words(failure.what()), error);
    }
  } catch (...) {
    return code;  // no memory for the words
  }
}

// For its life no signal that begins here reaches the process: all, or the one of a write to a closed socket.
class Quiet {
 public:
  explicit Quiet(bool all) {
    sigset_t set;
    if (all) {
      sigfillset(&set);
    } else {
      sigemptyset(&set);
      sigaddset(&set, SIGPIPE);
    }
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() {
    sigset_t broken;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    constexpr timespec now{};
    if (!was_pending_) (void)sigtimedwait(&broken, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
  bool was_pending_ = false;
};

// A thread that begins in its life takes a processor only when that is free, or its turn comes.
class Unhurried {
 public:
  Unhurried() {
    before_ = sched_getscheduler(0);
    constexpr sched_param none{};
    if (before_ == SCHED_OTHER) changed_ = sched_setscheduler(0, SCHED_BATCH, &none) == 0;
  }
  Unhurried(const Unhurried&) = delete;
  Unhurried& operator=(const Unhurried&) = delete;
  ~Unhurried() {
    constexpr sched_param none{};
    if (changed_) (void)sched_setscheduler(0, before_, &none);
  }

 private:
  int before_ = SCHED_OTHER;
  bool changed_ = false;
};

int32_t open(const char* interface, uint32_t rank, uint32_t size, uint64_t timeout_ns, Link** link,
             tn_error* error) {
  *link = nullptr;
  return guarded(TN_INVALID, error, [&] {
    gloo::transport::tcp::attr where;
    const bool address = std::strpbrk(interface, ".:") != nullptr;
    (address ? where.hostname : where.iface) = interface;
    auto made = std::make_unique<Link>();
    made->canaries.resize(size);
    const Quiet quiet(true);  // Gloo's thread, which begins here, stays so
    const Unhurried unhurried;
    made->device = gloo::transport::tcp::CreateDevice(where);
    made->context = made->device->createContext(static_cast<int>(rank), static_cast<int>(size));
    made->context->setTimeout(patience(timeout_ns / longer_to_connect));  // pairs take it when they are made
    *link = made.release();
    return static_cast<int32_t>(TN_OK);
  });
}

int32_t listen(Link* link, uint32_t peer, void* address, uint64_t capacity, uint64_t* bytes,
               tn_error* error) {
  return guarded(TN_INVALID, error, [&] {
    const std::lock_guard lock(link->pairs);
    const std::vector<char> where = link->context->createPair(static_cast<int>(peer))->address().bytes();
    if (where.size() > capacity) return told(TN_INTERNAL, "Gloo's addresses are longer than expected", error);
    std::memcpy(address, where.data(), where.size());
    *bytes = where.size();
    return static_cast<int32_t>(TN_OK);
  });
}

// The pair that is being connected, where `stop` finds it.
class Connecting {
 public:
  Connecting(Link& link, uint32_t peer) : link_(link) {
    const std::lock_guard lock(link_.pairs);
    if (!link_.stopped) link_.connecting = link_.context->getPair(static_cast<int>(peer)).get();
  }
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;
  // False when it was stopped, which looks like a connection, or throws.
  bool end() {
    const std::lock_guard lock(link_.pairs);
    link_.connecting = nullptr;
    return !link_.stopped;
  }
  ~Connecting() { end(); }
  // nullptr: it was stopped before.
  gloo::transport::Pair* pair() const { return link_.connecting; }

 private:
  Link& link_;
};

int32_t connect(Link* link, uint32_t peer, const void* address, uint64_t bytes, tn_error* error) {
  const auto* first = static_cast<const char*>(address);
  const Quiet quiet(false);
  const int32_t code = guarded(TN_PEER_LOST, error, [&]() -> int32_t {
    Connecting connecting(*link, peer);
    if (connecting.pair() != nullptr) connecting.pair()->connect(std::vector<char>(first, first + bytes));
    return connecting.end() ? TN_OK : told(TN_ABORTED, "it was given up", error);
  });
  if (code != TN_OK) return code;
  return guarded(TN_PEER_LOST, error, [&] {
    link->canaries[peer] = link->context->createUnboundBuffer(&link->nothing, sizeof link->nothing);
    link->canaries[peer]->recv(static_cast<int>(peer), canary_tag, 0, sizeof link->nothing);
    return static_cast<int32_t>(TN_OK);
  });
}

void stop(Link* link) {
  tn_error ignored = no_error();
  (void)guarded(TN_INTERNAL, &ignored, [&] {
    const std::lock_guard lock(link->pairs);
    link->stopped = true;
    if (link->connecting != nullptr) link->connecting->close();
    return static_cast<int32_t>(TN_OK);
  });
}

// What broke the pair of `peer`, if anything did.
std::exception_ptr ask_canary(Link& link, uint32_t peer) {
  const std::lock_guard lock(link.asking);
  link.canaries[peer]->abortWaitRecv();
  try {
    (void)link.canaries[peer]->waitRecv(forever);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

int32_t begin(Link* link, bool sends, uint32_t peer, uint64_t tag, void* data, uint64_t bytes,
              Transfer** transfer, tn_error* error) {
  *transfer = nullptr;
  return guarded(TN_PEER_LOST, error, [&] {
    const std::lock_guard lock(link->pairs);
    if (link->closed) return told(TN_ABORTED, "the link is closed", error);
    if (link->canaries[peer] == nullptr) return told(TN_PEER_LOST, "it was never connected", error);
    std::unique_ptr<Transfer> made(
        new Transfer{*link, sends, peer, link->context->createUnboundBuffer(data, bytes)});
    const Quiet quiet(false);
    if (sends) {
      made->buffer->send(static_cast<int>(peer), tag, 0, bytes);
    } else {
      made->buffer->recv(static_cast<int>(peer), tag, 0, bytes);
    }
    *transfer = made.release();
    return static_cast<int32_t>(TN_OK);
  });
}

int32_t send(Link* link, uint32_t peer, uint64_t tag, const void* data, uint64_t bytes, Transfer** transfer,
             tn_error* error) {
  return begin(link, true, peer, tag, const_cast<void*>(data), bytes, transfer, error);
}

int32_t receive(Link* link, uint32_t peer, uint64_t tag, void* data, uint64_t bytes, Transfer** transfer,
                tn_error* error) {
  return begin(link, false, peer, tag, data, bytes, transfer, error);
}

// Stands in the link's list, where `interrupt` finds it.
class Waiting {
 public:
  explicit Waiting(Transfer& transfer) : transfer_(transfer) {
    const std::lock_guard lock(transfer_.link.waits);
    transfer_.link.waiting.push_back(&transfer_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    const std::lock_guard lock(transfer_.link.waits);
    std::erase(transfer_.link.waiting, &transfer_);
  }

 private:
  Transfer& transfer_;
};

int32_t wait(Transfer* transfer, uint64_t timeout_ns, tn_error* error) {
  const auto begun = std::chrono::steady_clock::now();
  const milliseconds limit = patience(timeout_ns);
  const int32_t code = guarded(TN_PEER_LOST, error, [&]() -> int32_t {
    const Waiting waiting(*transfer);
    if (transfer->wait(limit)) return TN_OK;
    const std::exception_ptr broken = ask_canary(transfer->link, transfer->peer);
    if (broken == nullptr) return TN_BUSY;
    // It may have been done before the pair broke, and the interruption hid it.
    if (transfer->wait(limit)) return TN_OK;
    std::rethrow_exception(broken);
  });
  const bool late = code == TN_PEER_LOST && std::chrono::steady_clock::now() - begun >= limit;
  return late ? told(TN_TIMEOUT, "no progress in the time given", error) : code;
}

void interrupt(Link* link) {
  const std::lock_guard lock(link->waits);
  for (Transfer* transfer : link->waiting) transfer->interrupt();
}

void release(Transfer* transfer) { delete transfer; }

void close(Link* link) {
  const std::lock_guard lock(link->pairs);
  if (std::exchange(link->closed, true)) return;
  // Its destructor closes the socket as usual; Gloo's own `close` would throw away what was just sent.
  for (int peer = 0; peer < link->context->size; ++peer) link->context->getPair(peer).reset();
}

void destroy(Link* link) {
  close(link);
  delete link;
}

constexpr Engine engine{.version = version,
                        .reserved = 0,
                        .name = "gloo",
                        .open = open,
                        .listen = listen,
                        .connect = connect,
                        .stop = stop,
                        .send = send,
                        .receive = receive,
                        .wait = wait,
                        .interrupt = interrupt,
                        .release = release,
                        .close = close,
                        .destroy = destroy};

}  // namespace
}  // namespace tenon::cpu::comm::between

extern "C" __attribute__((visibility("default"))) const tenon::cpu::comm::between::Engine* tenon_between(
    uint32_t version) {
  using namespace tenon::cpu::comm::between;
  return version == engine.version ? &engine : nullptr;
}
