// SPDX-License-Identifier: Apache-2.0
// bridge.hpp: one rank's way to the ranks on other hosts.
//
// Every rank has a connection to each rank on other hosts, and none to its mates. A thread of its own looks every 20 ms
// whether the mates have failed: then it says so to the others, as the last words on every connection, and closes them. While
// connections are made it also ends the one that is waited for, when the mates have failed, the rank has given up, or it is late.
// Invariant: once a rank or its mates have failed, the connections are closed before a transfer's memory is given back.
#pragma once

#include "between.hpp"
#include "hosts.hpp"
#include "member.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

namespace tenon::cpu::comm {

class Bridge {
 public:
  struct Leaving {
    uint32_t rank;
    const std::byte* from;
    uint64_t bytes;
  };
  struct Coming {
    uint32_t rank;
    std::byte* to;
    uint64_t bytes;  // at most
  };

  // What carries the connections: a library beside the plugin, opened by the first call. TN_UNSUPPORTED with the remedy
  // where it is not. [any-thread; may block; may fail]
  static Result<const between::Engine*> find_engine();

  // Makes room for what crosses in `memory`, the segment's, and connects; then all ranks have connected. TN_UNSUPPORTED
  // without an engine, with the remedy; TN_INVALID when there are several machines and no interface was named; TN_NO_MEMORY,
  // TN_PEER_LOST, TN_TIMEOUT. A failure is the member's.
  // [all ranks; blocks; may fail]
  static Result<std::unique_ptr<Bridge>> build(Member& member, Hosts hosts, const Notices& notices,
                                               const std::string& interface, const system::Fd& memory,
                                               uint64_t deadline);
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  ~Bridge();

  const Hosts& hosts() const noexcept { return hosts_; }
  // The ranks on other hosts, in order.
  const std::vector<uint32_t>& far() const noexcept { return far_; }

  // Sends and receives that are under way together. Its end, before they are done, is the end of all connections.
  class Transfers {
   public:
    explicit Transfers(Bridge& bridge) noexcept : bridge_(bridge) {}
    Transfers(const Transfers&) = delete;
    Transfers& operator=(const Transfers&) = delete;
    ~Transfers();

    // [the thread that runs groups; does not block; may fail]
    Status send(uint32_t rank, uint64_t tag, const std::byte* from, uint64_t bytes);
    Status receive(uint32_t rank, uint64_t tag, std::byte* to, uint64_t bytes);
    size_t size() const noexcept { return open_.size(); }
    // Whether number `i` is done; waits a moment for it. TN_TIMEOUT when nothing went on for the member's timeout.
    // [the thread that runs groups; blocks; may fail]
    Result<bool> look(size_t i);
    // The same without a verdict: of several that are waited for in turn one may be done while another is looked at. None is, when none
    // was in a round that began late. [the thread that runs groups; blocks; may fail]
    Result<bool> glance(size_t i);
    bool is_late() const noexcept { return deadline_ != 0 && driver::now_ns() >= deadline_; }
    Status too_late(size_t i);
    // Waits for all. As Member::wait. [the thread that runs groups; blocks; may fail]
    Status finish();

   private:
    struct Open {
      between::Transfer* transfer;
      uint32_t rank;
      bool sends;
    };
    Status begun(int32_t code, const tn_error& error);
    void drop(size_t i) noexcept;
    Bridge& bridge_;
    std::vector<Open> open_{};
    uint64_t deadline_ = 0;  // of the next one to be done; 0: nobody waits yet
  };

  // What leaves and what comes, as part of `all`. Each pair of ranks calls with the same between them, in one order.
  // [the thread that runs groups; does not block; may fail]
  Status begin(Transfers& all, std::span<const Leaving> leaving, std::span<const Coming> coming);
  // The same, and waits for it. As Member::wait. [the thread that runs groups; blocks; may fail]
  Status exchange(std::span<const Leaving> leaving, std::span<const Coming> coming);

  // Numbers the messages of each pair and direction. [the thread that runs groups]
  uint64_t next_letter(uint32_t rank, bool sends) noexcept {
    return (sends ? sent_ : received_)[rank].letters++;
  }

 private:
  // What a rank that fails says last.
  struct LastWords {
    static constexpr uint32_t said = 0x64616564;
    char words[Failure::most_words];
    int32_t code;
    uint32_t mark;  // `said`, when it is whole
  };
  // What it is built with, until it stands.
  struct Building {
    const Notices* notices;
    uint64_t deadline;
  };
  enum class Phase { connecting, greeting, standing };
  struct Counts {
    uint64_t runs = 0, letters = 0;
  };

  Bridge(Member& member, Hosts hosts, const between::Engine& engine, Building building);
  void enter(Phase phase) noexcept;
  Status connect(const std::string& interface);
  Status greet();
  Status fail(const Status& why);
  Result<std::string> listen(const std::string& interface);
  Status connect_to(uint32_t rank);
  Result<std::string> address_said_by(uint32_t rank);
  Status hear_last_words();
  void watch();
  // Ends a connection that is waited for in vain.
  void look_after_connecting() noexcept;
  void give_up() noexcept;
  std::string doing_in_words() const;
  // Tells the others why, and closes. [any-thread; may block; cannot fail]
  void shut() noexcept;
  void say_last_words() noexcept;
  Status lost(uint32_t rank, const std::string& why);
  Status too_late(uint32_t rank, bool sends);

  Member& member_;
  const Hosts hosts_;
  const between::Engine& engine_;
  between::Link* link_ = nullptr;
  std::vector<uint32_t> far_{};
  std::vector<Counts> sent_, received_;  // of each rank
  std::vector<LastWords> heard_;         // of each rank; read once its connection has ended
  std::vector<between::Transfer*> hearing_{};
  std::mutex shutting_;
  bool shut_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  Phase phase_ = Phase::connecting;  // written by the thread that builds, under the mutex
  Building building_;                // the notices only before it stands
  std::thread watcher_;
};

}  // namespace tenon::cpu::comm
