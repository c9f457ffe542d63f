// SPDX-License-Identifier: Apache-2.0
// The services lent to plugins, called as a plugin calls them.
#include "runtime/host.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace tenon;
using runtime::Host;

namespace {

struct Line {
  LogLevel level;
  std::string component, text;
};

}  // namespace

TEST_CASE("host: lines reach the sink with level and component, quiet ones do not") {
  std::vector<Line> lines;
  Host& host = Host::make({.log_level = LogLevel::info,
                           .log = [&](LogLevel level, std::string_view component, std::string_view text) {
                             lines.push_back({level, std::string(component), std::string(text)});
                           }});
  const tn_host& table = host.table();
  CHECK(table.log_level(table.context) == TN_LOG_INFO);
  table.log(table.context, TN_LOG_WARN, "cpu", "hello");
  table.log(table.context, TN_LOG_DEBUG, "cpu", "too quiet");
  table.log(table.context, -5, nullptr, nullptr);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].level == LogLevel::warn);
  CHECK(lines[0].component == "cpu");
  CHECK(lines[0].text == "hello");
  CHECK(lines[1].level == LogLevel::error);
  host.let_go();
  table.log(table.context, TN_LOG_ERROR, "host_test", "this line belongs on standard error");
  CHECK(lines.size() == 2);
}

TEST_CASE("host: a sink may be used from many threads, one line at a time") {
  int inside = 0, most = 0, count = 0;
  Host& host = Host::make({.log = [&](LogLevel, std::string_view, std::string_view) {
    most = std::max(most, ++inside);
    ++count;
    --inside;
  }});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 200; ++k) Host::write(&host, TN_LOG_ERROR, "t", "line");
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(count == 800);
  CHECK(most == 1);
  host.let_go();
}

TEST_CASE("host: memory is aligned as asked and can be given back") {
  Host& host = Host::make({});
  const tn_host& table = host.table();
  for (const uint64_t alignment : {0, 1, 16, 64, 4096}) {
    for (const uint64_t bytes : {0, 1, 100, 100'000}) {
      void* memory = table.allocate(table.context, bytes, alignment);
      REQUIRE(memory != nullptr);
      CHECK(reinterpret_cast<uintptr_t>(memory) % (alignment == 0 ? 1 : alignment) == 0);
      std::memset(memory, 1, bytes);
      table.release(table.context, memory, bytes, alignment);
    }
  }
  CHECK(table.allocate(table.context, 8, 24) == nullptr);
  CHECK(table.allocate(table.context, UINT64_MAX, 64) == nullptr);
}

TEST_CASE("host: an option comes from the options, then from the environment, and its text stays") {
  setenv("TENON_CPU_HUGE_PAGES", "yes", 1);
  setenv("TENON_CPU_THREADS", "7", 1);
  Host& host = Host::make({.options = {{"cpu.threads", "2"}}});
  const tn_host& table = host.table();
  const char* threads = table.option(table.context, "cpu", "threads");
  const char* pages = table.option(table.context, "cpu", "huge-pages");
  unsetenv("TENON_CPU_HUGE_PAGES");
  unsetenv("TENON_CPU_THREADS");
  REQUIRE(threads != nullptr);
  CHECK(std::string(threads) == "2");
  REQUIRE(pages != nullptr);
  CHECK(std::string(pages) == "yes");
  CHECK(table.option(table.context, "cpu", "threads") == threads);
  CHECK(table.option(table.context, "cpu", "other") == nullptr);
  CHECK(table.option(table.context, nullptr, "threads") == nullptr);
  CHECK(table.option(table.context, "cpu", nullptr) == nullptr);
}

TEST_CASE("host: without the environment only options count") {
  setenv("TENON_CPU_THREADS", "7", 1);
  Host& host = Host::make({.use_environment = false});
  const tn_host& table = host.table();
  CHECK(table.option(table.context, "cpu", "threads") == nullptr);
  unsetenv("TENON_CPU_THREADS");
}

TEST_CASE("host: an option that a plugin asks for under a name much like it is told, once") {
  Host& host =
      Host::make({.use_environment = false,
                  .options = {{"vendor.thraeds", "2"}, {"vendor.depth", "3"}, {"vendor.colour", "red"}}});
  const tn_host& table = host.table();
  CHECK(host.misspelt("vendor").empty());  // it may ask yet
  table.option(table.context, "vendor", "threads");
  table.option(table.context, "vendor", "depth");
  table.option(table.context, "other", "colours");
  const std::vector<std::string> told = host.misspelt("vendor");
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("'vendor.thraeds'") != std::string::npos);
  CHECK(told[0].find("did you mean 'vendor.threads'?") != std::string::npos);
  CHECK(host.misspelt("vendor").empty());
}

TEST_CASE("host: the table names this ABI") {
  Host& host = Host::make({});
  const tn_host& table = host.table();
  CHECK(table.header.size == sizeof(tn_host));
  CHECK(table.header.major == TN_ABI_MAJOR);
  CHECK(table.header.minor == TN_ABI_MINOR);
  CHECK(std::string(table.name).substr(0, 9) == "libtenon ");
}

TEST_CASE("host: events and threads are services only when the program gives them") {
  Host& host = Host::make({});
  const tn_host& plain = host.table();
  CHECK((plain.trace == nullptr));
  CHECK((plain.parallel_for == nullptr));
}

TEST_CASE("host: a plugin's events reach the sink until it is let go") {
  std::vector<std::string> names;
  Host& host = Host::make({.trace = [&](int32_t kind, std::string_view name, uint64_t id, double value) {
    names.push_back(std::to_string(kind) + " " + std::string(name) + " " + std::to_string(id) + " " +
                    std::to_string(static_cast<int>(value)));
  }});
  const tn_host& table = host.table();
  REQUIRE((table.trace != nullptr));
  table.trace(table.context, TN_TRACE_BEGIN, "tune", 7, 0);
  table.trace(table.context, TN_TRACE_COUNTER, nullptr, 1, 42);
  host.let_go();
  table.trace(table.context, TN_TRACE_END, "tune", 7, 0);
  CHECK(names == std::vector<std::string>{"0 tune 7 0", "2  1 42"});
}

namespace {

// Adds the range up in pieces of `grain`, as a plugin would, and says which pieces there were.
std::vector<uint64_t> pieces_of(const tn_host& table, uint64_t count, uint64_t grain) {
  std::vector<uint64_t> begins;
  table.parallel_for(
      table.context, count, grain,
      [](void* argument, uint64_t begin, uint64_t) {
        static_cast<std::vector<uint64_t>*>(argument)->push_back(begin);
      },
      &begins);
  return begins;
}

}  // namespace

TEST_CASE(
    "host: work goes to the threads that this runtime was given, and to nobody's once they are let go") {
  int first_calls = 0, second_calls = 0;
  Host& first = Host::make({.parallel_for = [&](uint64_t count, uint64_t grain, const auto& piece) {
    ++first_calls;
    for (uint64_t at = 0; at < count; at += grain) piece(at, std::min(count, at + grain));
  }});
  Host& second = Host::make({.parallel_for = [&](uint64_t count, uint64_t, const auto& piece) {
    ++second_calls;
    piece(0, count);
  }});
  CHECK(pieces_of(first.table(), 10, 4) == std::vector<uint64_t>{0, 4, 8});
  CHECK(pieces_of(second.table(), 10, 4) == std::vector<uint64_t>{0});
  CHECK(first_calls == 1);
  CHECK(second_calls == 1);
  first.let_go();
  CHECK(pieces_of(first.table(), 10, 4) == std::vector<uint64_t>{0});
  CHECK(pieces_of(first.table(), 0, 4).empty());
  CHECK(first_calls == 1);
  second.let_go();
}

TEST_CASE("host: what was lent is let go after the last call") {
  std::atomic<bool> inside = false, leaving = false;
  bool over = false;  // plain: a call that is still underway would race
  Host& host = Host::make({.parallel_for = [&](uint64_t count, uint64_t, const auto& piece) {
    inside = true;
    inside.notify_all();
    leaving.wait(false);
    piece(0, count);
    over = true;
  }});
  std::thread plugin([&] { pieces_of(host.table(), 1, 1); });
  inside.wait(false);
  std::thread opener([&] {
    leaving = true;
    leaving.notify_all();
  });
  host.let_go();
  CHECK(over);
  plugin.join();
  opener.join();
}
