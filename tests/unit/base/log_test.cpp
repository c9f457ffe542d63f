// SPDX-License-Identifier: Apache-2.0
// Lines leave whole, one at a time, and only when they are wanted.
#include "base/log.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using tenon::LogLevel;
using tenon::base::Logger;

TEST_CASE("log: a line below the level does not reach the sink") {
  std::vector<std::string> lines;
  Logger logger([&](LogLevel level, std::string_view component, std::string_view text) {
    lines.push_back(std::string(tenon::base::name(level)) + "/" + std::string(component) + "/" +
                    std::string(text));
  });
  logger.write(LogLevel::info, "plugin", "quiet");
  logger.write(LogLevel::warn, "plugin", "heard");
  CHECK(lines == std::vector<std::string>{"warn/plugin/heard"});
  CHECK_FALSE(logger.wants(LogLevel::debug));
  logger.set_level(LogLevel::debug);
  CHECK(logger.wants(LogLevel::debug));
}

TEST_CASE("log: a sink that throws loses its line and nothing else") {
  int lines = 0;
  Logger logger([&](LogLevel, std::string_view, std::string_view) {
    if (++lines == 1) throw std::runtime_error("full");
  });
  logger.write(LogLevel::error, "x", "first");
  logger.write(LogLevel::error, "x", "second");
  CHECK(lines == 2);
}

TEST_CASE("log: a sink may log") {
  int depth = 0;
  Logger* self = nullptr;
  Logger logger([&](LogLevel, std::string_view, std::string_view) {
    if (++depth < 3) self->write(LogLevel::error, "x", "again");
  });
  self = &logger;
  logger.write(LogLevel::error, "x", "once");
  CHECK(depth == 3);
}

TEST_CASE("log: lines of many threads come one at a time") {
  std::vector<std::string> lines;  // not protected: the logger is what protects it
  Logger logger([&](LogLevel, std::string_view, std::string_view text) { lines.emplace_back(text); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 250; ++i) logger.write(LogLevel::error, "x", "line of " + std::to_string(t));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(lines.size() == 1000);
}
