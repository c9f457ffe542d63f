// SPDX-License-Identifier: Apache-2.0
// fakecuda_settings_test.cpp: the keys of FAKECUDA, and what is told on stderr.
#include "fakecuda/settings.hpp"
#include "program.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>

using namespace cuda_test;

namespace {

// What one case of this program prints under settings, as a process of its own.
std::string run_case(const std::string& settings, const std::string& name) {
  std::array<char, 4096> self{};
  REQUIRE(readlink("/proc/self/exe", self.data(), self.size() - 1) > 0);
  const std::string command = "FAKECUDA='" + settings + "' '" + self.data() + "' -tc='" + name + "' 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  REQUIRE((child != nullptr));
  std::string out;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), child.get()) != nullptr) out += part.data();
  return out;
}

size_t count(const std::string& text, const std::string& words) {
  size_t out = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++out;
  return out;
}

}  // namespace

TEST_CASE("settings: keys are read, and what is left out has its default") {
  std::string error;
  const auto settings = fakecuda::parse_settings("seed=7,devices=3,check,slow_ns=9", error);
  REQUIRE(settings.has_value());
  CHECK(settings->seed == 7);
  CHECK(settings->devices == 3);
  CHECK(settings->check);
  CHECK(settings->slow_ns == 9);
  CHECK(settings->sm == 90);
  CHECK_FALSE(settings->stub);
}

TEST_CASE("settings: a key or a value that is not understood is named, with the keys that are") {
  for (const char* wrong : {"sead=7", "seed=x", "seed=", "check=1", "devices", "devices=-1", "seed=7 "}) {
    CAPTURE(wrong);
    std::string error;
    CHECK_FALSE(fakecuda::parse_settings(wrong, error).has_value());
    CHECK(error.find(wrong) != std::string::npos);
    CHECK(error.find("drop_wait=N") != std::string::npos);
  }
}

TEST_CASE("settings: cuInit refuses for ever what FAKECUDA spells wrongly, and says so once") {
  const std::string told = run_case("sead=7", "settings: (child) cuInit is called twice");
  CHECK(count(told, "FAKECUDA: 'sead=7' is not understood") == 1);
  CHECK(count(told, "cuInit: 1 1") == 1);
}

TEST_CASE("settings: (child) cuInit is called twice") {
  const CUresult first = cu().cuInit(0), second = cu().cuInit(0);
  std::printf("cuInit: %d %d\n", first, second);
  CHECK(first == second);
}

TEST_CASE("settings: check names what is left over at the end") {
  const std::string told = run_case("check", "settings: (child) some of everything is left over");
  CHECK(count(told, "left over: 1 streams") == 1);
  CHECK(count(told, "left over: 2 events") == 1);
  CHECK(count(told, "left over: 1 pieces of device memory") == 1);
  CHECK(count(told, "left over: 1 pinned blocks") == 1);
  CHECK(count(told, "modules") == 0);
  CHECK(count(run_case("check", "settings: (child) cuInit is called twice"), "left over") == 0);
}

TEST_CASE("settings: (child) some of everything is left over") {
  must(cu().cuInit(0));
  CUcontext context = nullptr;
  must(cu().cuDevicePrimaryCtxRetain(&context, 0));
  must(cu().cuCtxPushCurrent(context));
  const CUstream stream = make_stream();
  make_event();
  CHECK((record(stream) != nullptr));
  const CUmemAllocationProp properties = on_device();
  CUmemGenericAllocationHandle piece = 0;
  must(cu().cuMemCreate(&piece, unit, &properties, 0));
  void* host = nullptr;
  must(cu().cuMemHostAlloc(&host, 64, 0));
}
