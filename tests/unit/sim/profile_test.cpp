// SPDX-License-Identifier: Apache-2.0
// profile_test.cpp: how a profile is chosen, changed by options, and refused when it is wrong.
#include "support/temp_folder.hpp"
#include "world.hpp"

#include <fstream>

using namespace sim_test;

namespace {

Outcome count_devices(uint32_t& count) {
  return outcome_of([&](tn_error* e) { return plugin().device->count(&plugin(), &count, e); });
}

// What the plugin says to options that are wrong.
Outcome said_to(Options options) {
  const World world(std::move(options));
  uint32_t count = 0;
  return count_devices(count);
}

tn_device_limits limits_of(tn_device* device) {
  tn_device_limits out{};
  out.size = sizeof out;
  must([&](tn_error* e) { return plugin().device->limits(device, &out, e); });
  return out;
}

}  // namespace

TEST_CASE("profile: each of the six opens") {
  for (const char* name : {"plain", "ascend", "kunlun", "mlu", "ipu", "ze"}) {
    CAPTURE(name);
    const World world(Options{{"profile", name}});
    const Device device = open_device();
    const Stream stream = make_stream(device);
    const Memory memory = allocate(device, 100);
    fill(stream, span(memory, 0, 100), 7);
    CHECK(download(stream, span(memory, 0, 100)) == std::vector<unsigned char>(100, 7));
  }
}

TEST_CASE("profile: what one lacks is a null function or a missing feature") {
  {
    const World world(Options{{"profile", "plain"}});
    CHECK((plugin().stream->host_call != nullptr));
    CHECK((plugin().stream->promise != nullptr));
    CHECK((plugin().device->address != nullptr));
    CHECK((plugin().features & TN_FEATURE_ADDRESSABLE) != 0);
    CHECK((plugin().extension(&plugin(), TN_CAPTURE_ID) != nullptr));
  }
  {
    const World world(Options{{"profile", "ze"}});
    CHECK((plugin().stream->host_call == nullptr));
    CHECK((plugin().extension(&plugin(), TN_CAPTURE_ID) == nullptr));
  }
  {
    const World world(Options{{"profile", "ascend"}});
    CHECK((plugin().stream->promise == nullptr));
    CHECK((plugin().stream->signal == nullptr));
  }
  const World world(Options{{"profile", "ipu"}});
  CHECK((plugin().device->address == nullptr));
  CHECK((plugin().stream->timestamp == nullptr));
  CHECK(plugin().features == (TN_FEATURE_SYNCHRONOUS | TN_FEATURE_WHOLE_GRAPH));
}

TEST_CASE("profile: an unknown one is refused with the names there are") {
  const Outcome said = said_to({{"profile", "asend"}});
  CHECK(said.code == TN_NOT_FOUND);
  CHECK(said.says("'asend'"));
  CHECK(said.says("ascend, ipu, kunlun, mlu, plain, ze"));
}

TEST_CASE("profile: a wrong value is refused with key, value and rule") {
  const Outcome number = said_to({{"max_streams", "-3"}});
  CHECK(number.code == TN_INVALID);
  CHECK(number.says("'max_streams' is '-3'"));
  CHECK(said_to({{"promise", "yes"}}).says("'promise' is 'yes': it must be true or false"));
  CHECK(said_to({{"alignment", "300"}}).says("a power of two"));
  CHECK(said_to({{"refused_dtypes", "f64 f23"}}).says("f23"));
  CHECK(said_to({{"private_layout", "CHWN"}}).says("CHWN"));
  CHECK(said_to({{"profile", "plain"}, {"one_shot_kernels", "true"}}).says("exclude each other"));
}

TEST_CASE("profile: a wrong option is told when a device is opened, too") {
  const World world(Options{{"memory_mib", "much"}});
  Device device;
  const Outcome said = try_open(device);
  CHECK(said.code == TN_INVALID);
  CHECK(said.says("much"));
}

TEST_CASE("profile: an option wins over the file") {
  const World world(Options{{"profile", "ascend"}, {"max_streams", "3"}, {"memory_mib", "5"}});
  const Device device = open_device();
  const tn_device_limits limits = limits_of(device);
  CHECK(limits.max_streams == 3);
  CHECK(limits.max_alloc_bytes == 5u << 20);
  CHECK(limits.alignment == 512);  // ascend's own
}

TEST_CASE("profile: a file of one's own") {
  const tenon::test::TempFolder folder;
  const std::string path = folder / "mine.toml";
  std::ofstream(path)
      << "# one more chip\nchip = \"Mine # 1\"\nmax_streams = 2  # so few\n[[unsupported]]\nmatch = \"x\"\n";
  const World world(Options{{"profile", path}});
  tn_device_info info{};
  info.size = sizeof info;
  must([&](tn_error* e) { return plugin().device->info(&plugin(), 0, &info, e); });
  CHECK(std::string(info.name) == "Mine # 1");
  CHECK(limits_of(open_device()).max_streams == 2);
}

TEST_CASE("profile: an unknown key in a file is refused with its line and the keys there are") {
  const tenon::test::TempFolder folder;
  const std::string path = folder / "mine.toml";
  std::ofstream(path) << "max_streams = 2\nmax_steams = 3\n";
  const Outcome said = said_to({{"profile", path}});
  CHECK(said.code == TN_INVALID);
  CHECK(said.says(":2: unknown key 'max_steams'"));
  CHECK(said.says("max_streams"));
  CHECK(said_to({{"profile", folder / "none.toml"}}).code == TN_NOT_FOUND);
}

TEST_CASE("profile: the keys of docs/sim.md exist, and their defaults are good") {
  const char* const source = std::getenv("TENON_TEST_SOURCE_DIR");
  REQUIRE(source != nullptr);
  std::ifstream page(std::string(source) + "/docs/sim.md");
  std::string text, line;
  int keys = 0;
  bool keys_begun = false;
  while (std::getline(page, line)) {
    const size_t key_end = line.find("` | ");
    if (line.starts_with("## Order")) break;
    keys_begun = keys_begun || line.starts_with("## Keys");
    if (!keys_begun || !line.starts_with("| `") || key_end == std::string::npos) continue;
    const std::string key = line.substr(3, key_end - 3);
    const size_t value = key_end + 4, value_end = line.find('|', value);
    const std::string given = value_end > value ? line.substr(value, value_end - value - 1) : "";
    text += key + " = \"" + given + "\"\n";
    ++keys;
  }
  CHECK(keys > 30);
  const tenon::test::TempFolder folder;
  const std::string path = folder.write("all.toml", text);
  const Outcome said = said_to({{"profile", path}});
  CHECK(said.message() == "");
}
