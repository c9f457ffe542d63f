// SPDX-License-Identifier: Apache-2.0
// fabric.hpp: the one thread that carries what ranks and hubs of this process tell each other and those of other processes.
//
// A rank reaches its hub through a socket, be it in the same process or not. The thread runs while there is a rank or a hub.
// Invariant: everything here, hubs and what ranks hear included, is guarded by one mutex, which is not held while the thread
// waits. Whoever holds it may take a scheduler's mutex, and not the other way round.
#pragma once

#include "driver.hpp"
#include "hub.hpp"
#include "place.hpp"

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace tenon::sim::comm {

// A rank, as the fabric sees it. Called with the mutex held.
class Ear {
 public:
  virtual void hear(const Frame& frame) = 0;
  virtual void cut_off() = 0;
  virtual void look(uint64_t now_ns) = 0;     // time has passed, or a bell rang
  virtual uint64_t due() const noexcept = 0;  // when to look at the latest

 protected:
  ~Ear() = default;
};

class Fabric {
 public:
  using Lock = std::unique_lock<std::mutex>;
  // `peer_lost_at`: the group, counted by each hub, with which the rank that brings it is lost; 0: never.
  explicit Fabric(uint64_t peer_lost_at) : peer_lost_at_(peer_lost_at) {}
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  ~Fabric();

  // A hub that waits for its ranks; it lives until the last of them has gone. [any-thread; does not block; may fail]
  Result<Place> open_hub();
  // Stops the thread unless a rank lives here. [any-thread; blocks; cannot fail]
  void quiesce();

  Lock lock() { return Lock(mutex_); }
  // With the lock held. `ear` is heard of until it is taken off.
  Status attach(Ear& ear, const Place& place, const Hello& hello);
  void say(Ear& ear, const Frame& frame);
  // Says goodbye, and waits for the hub to let it go: its process may end then, with a hub in it or without. [any-thread; blocks]
  void detach(Lock& lock, Ear& ear, uint64_t patience_ns);
  // Until `done`, which something heard may change; false after the deadline. [any-thread; blocks]
  bool wait(Lock& lock, uint64_t deadline_ns, const std::function<bool()>& done);
  void changed() { changed_.notify_all(); }
  // Lets the thread look at every rank. [any-thread; does not block; cannot fail]
  void ring() const noexcept;

 private:
  struct Wire {
    driver::Socket socket;
    Reel reel{};
    bool cut = false;
  };
  struct Home {  // of a hub
    Place place{};
    std::optional<driver::Socket> door{};
    struct Guest {
      Wire wire;
      std::optional<uint64_t> rank{};
      bool leaves = false;  // has said so, and is let go when all the others have what they were sent
    };
    std::list<Guest> guests{};
    std::unique_ptr<Hub> hub{};
    uint64_t groups = 0;  // that ranks have brought
    bool over() const noexcept { return !door && guests.empty(); }
  };
  struct Line {  // of a rank of this process
    Ear* ear = nullptr;
    Wire wire;
  };

  void start();
  void stop(Lock& lock);
  void serve();
  std::vector<driver::Watch> watches() const;
  uint64_t due() const noexcept;
  void tend(uint64_t now_ns);
  void tend_home(Home& home, uint64_t now_ns);
  void receive(Home& home, Home::Guest& guest, const Frame& frame, uint64_t now_ns);
  static void send(Wire& wire);
  static void receive(Wire& wire);
  static void let_go(Home& home);
  Line* line_of(const Ear& ear);
  bool loses_peer(Home& home, Home::Guest& guest);

  const uint64_t peer_lost_at_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Home> homes_{};
  std::list<Line> lines_{};
  std::optional<driver::Socket> bell_{};  // made once
  uint64_t opened_ = 0;
  std::thread thread_;
  bool runs_ = false, stopping_ = false;
};

}  // namespace tenon::sim::comm
