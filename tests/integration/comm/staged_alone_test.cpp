// SPDX-License-Identifier: Apache-2.0
// staged_alone_test.cpp: a device without communicators, and no plugin that could carry them.
#include "ranks.hpp"

#include <doctest/doctest.h>

using namespace comm_test;

TEST_CASE("staged: without a plugin that carries them, communicators are unsupported, with the remedy") {
  const char* folder = std::getenv("TENON_TEST_PLUGIN_DIR");
  REQUIRE(folder != nullptr);
  RuntimeOptions alone;
  alone.plugins = {std::string(folder) + "/tenon-sim.so"};
  alone.use_environment = false;
  alone.use_install_path = false;
  alone.probe = Probe::off;
  auto tenon = Runtime::open(std::move(alone));
  REQUIRE_MESSAGE(tenon.ok(), tenon.message());
  auto device = tenon->device("sim");
  REQUIRE_MESSAGE(device.ok(), device.message());
  const auto comm = Communicator::create(*device, Store::in_process(), 0, 1);
  CHECK(comm.code() == TN_UNSUPPORTED);
  CHECK_MESSAGE(comm.message().find("device 'sim:0' has no communicators") != std::string_view::npos,
                comm.message());
  CHECK_MESSAGE(comm.message().find("load one that does, such as cpu") != std::string_view::npos,
                comm.message());
}
