// SPDX-License-Identifier: Apache-2.0
// networks.hpp: two networks of this machine that reach each other over one wire, as two hosts do.
//
// Needs root and `ip netns`, and `tc` for a wire of a given speed; without them it is not there, and says so.
// Invariant: what was made ends with it.
#pragma once

#include <tenon/result.hpp>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tenon::test {

class Networks {
 public:
  Networks() {
    const std::string mark = "tnh" + std::to_string(getpid());
    for (const char* side : {"a", "b"}) names_.push_back(mark + side);
    made_ = geteuid() == 0 && run("ip netns add " + names_[0]) && run("ip netns add " + names_[1]) &&
            run("ip link add " + names_[0] + " netns " + names_[0] + " type veth peer name " + names_[1] +
                " netns " + names_[1]);
    for (size_t i = 0; made_ && i < 2; ++i) {
      made_ = run("ip -n " + names_[i] + " addr add " + address(i) + "/30 dev " + names_[i]) &&
              run("ip -n " + names_[i] + " link set lo up") &&
              run("ip -n " + names_[i] + " link set " + names_[i] + " up");
    }
  }
  Networks(const Networks&) = delete;
  Networks& operator=(const Networks&) = delete;
  ~Networks() {
    for (const std::string& name : names_) run("ip netns del " + name);
  }

  explicit operator bool() const { return made_; }
  static std::string address(size_t side) { return side == 0 ? "10.231.78.1" : "10.231.78.2"; }
  // Of the namespace, and of the interface in it.
  const std::string& name(size_t side) const { return names_[side]; }

  // Moves this process there.
  Status enter(size_t side) const { return enter(names_[side]); }
  static Status enter(const std::string& name) {
    const int space = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    const bool there = space >= 0 && setns(space, CLONE_NEWNET) == 0;
    if (space >= 0) close(space);
    return there ? Status() : Status(TN_INTERNAL, "cannot enter " + name);
  }

  // Both ways as fast as `rate` ("1gbit") and no faster. False: there is no `tc`, or it cannot.
  bool shape(const std::string& rate) const {
    bool done = made_;
    for (const std::string& name : names_) {
      done = done && run("tc -n " + name + " qdisc replace dev " + name + " root tbf rate " + rate +
                         " burst 256kb latency 50ms");
    }
    return done;
  }
  // Each connection by itself as fast as `rate` both ways, and no faster; a wire of a given speed no more. Connections are told apart
  // by their ports, modulo `classes`. False: there is no `tc`, or it cannot.
  bool shape_flows(const std::string& rate) const {
    bool done = made_;
    for (const std::string& name : names_) {
      const std::string file = std::filesystem::temp_directory_path() / (name + ".tc"),
                        to = " dev " + name + " parent 1: ";
      std::ofstream batch(file);
      batch << "qdisc replace dev " << name << " root handle 1: htb\n";
      for (int i = 0; i < classes; ++i) {
        const std::string id = " 1:" + in_hex(i + 1);
        batch << "class add" << to << "classid" << id << " htb rate " << rate
              << " burst 64kb cburst 64kb quantum 60000\n"
              << "filter add" << to << "protocol ip u32 match ip dport " << i << " 0x" << in_hex(classes - 1)
              << " flowid" << id << "\n";
      }
      batch.close();
      done = done && run("tc -n " + name + " -batch " + file);
      std::remove(file.c_str());
    }
    return done;
  }
  // Takes the wire away.
  bool cut() const { return run("ip -n " + names_[0] + " link set " + names_[0] + " down"); }

 private:
  static constexpr int classes = 256;  // a power of two
  static std::string in_hex(int number) {
    char text[12];
    std::snprintf(text, sizeof text, "%x", static_cast<unsigned>(number));
    return text;
  }
  static bool run(const std::string& words) { return std::system((words + " 2>/dev/null").c_str()) == 0; }
  std::vector<std::string> names_;
  bool made_ = false;
};

}  // namespace tenon::test
