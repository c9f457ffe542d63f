// SPDX-License-Identifier: Apache-2.0
// A peer answers line by line; one that is missing, ends or breaks costs its figures and says so.
#include "peer.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <csignal>

#include <cstdlib>
#include <string>

using bench::Peer;

namespace {

struct Script {
  tenon::test::TempFolder folder{};
  std::string path{};
  explicit Script(const std::string& text) : path(folder.write("peer.py", "import os, sys\n" + text)) {}
};

const char* const echo =
    "print('ready', 'echo', os.environ.get('PEER_TEST'), *sys.argv[1:], flush=True)\n"
    "for line in sys.stdin:\n"
    "    print(line.strip(), flush=True)\n";

}  // namespace

TEST_CASE("bench peer: it says what it is, and answers line by line") {
  const Script script(echo);
  setenv("PEER_TEST", "inherited", 1);
  Peer peer(Peer::python(script.path, {"seven"}), {{"PEER_TEST", "set"}});
  unsetenv("PEER_TEST");
  CHECK(peer.why() == "");
  CHECK(peer.about() == "echo set seven");
  CHECK(peer.ask("what is said") == "what is said");
  for (int i = 0; i < 100; ++i) CHECK(peer.figure(std::to_string(i) + ".5") == i + 0.5);
}

TEST_CASE("bench peer: several answer at the same time, each its own") {
  const Script script(echo);
  Peer one(Peer::python(script.path)), other(Peer::python(script.path));
  one.say("first");
  other.say("second");
  one.say("third");
  CHECK(other.hear() == "second");
  CHECK(one.hear() == "first");
  CHECK(one.hear() == "third");
}

TEST_CASE("bench peer: a program that is not there is told") {
  Peer peer({"/nowhere/at/all"});
  CHECK(peer.why() == "/nowhere/at/all could not be started");
  peer.say("run");
  CHECK(peer.hear() == "! /nowhere/at/all could not be started");
}

TEST_CASE("bench peer: an answer that is no figure is none") {
  const Script script(echo);
  Peer peer(Peer::python(script.path));
  CHECK(peer.figure("! no such row") < 0);
  CHECK(peer.figure("") < 0);
  CHECK(peer.figure("1.5 or so") < 0);
  CHECK(peer.why() == "");
}

TEST_CASE("bench peer: what it lacks is why it cannot be asked") {
  const Script script("print('torch is not installed')\n");
  Peer peer(Peer::python(script.path));
  CHECK(peer.why() == "torch is not installed");
  CHECK(peer.ask("run") == "! torch is not installed");
}

TEST_CASE("bench peer: one that ends by itself is told, at once and for good") {
  const Script script("print('ready', flush=True)\nsys.stdin.readline()\nos._exit(3)\n");
  Peer peer(Peer::python(script.path));
  REQUIRE(peer.why() == "");
  CHECK(peer.figure("run") < 0);
  CHECK(peer.why() == "its process ended by itself");
  CHECK(peer.ask("run") == "! its process ended by itself");
  const Script none("os._exit(0)\n");
  CHECK(Peer(Peer::python(none.path)).why() == "its process ended by itself");
}

TEST_CASE("bench peer: one that waits for more does not outlive its owner") {
  const Script script("print('ready', os.getpid(), flush=True)\nimport signal\nwhile True: signal.pause()\n");
  pid_t child = 0;
  {
    Peer peer(Peer::python(script.path));
    REQUIRE(peer.why() == "");
    child = std::atoi(peer.about().c_str());
    REQUIRE(kill(child, 0) == 0);
  }
  CHECK(kill(child, 0) != 0);
}
