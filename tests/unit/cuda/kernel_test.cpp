// SPDX-License-Identifier: Apache-2.0
// kernel_test.cpp: compiling, keeping what was compiled, saving and loading it.
#include "world.hpp"

#include "support/temp_folder.hpp"

#include <filesystem>
#include <fstream>

using namespace cuda_test;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_in(const fs::path& folder, const char* suffix) {
  std::vector<fs::path> out;
  if (!fs::exists(folder)) return out;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == suffix) out.push_back(entry.path());
  return out;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::vector<float> ones(64, 1.0F), twos(64, 2.0F), threes(64, 3.0F);

Outcome try_load(tn_device* device, const tn_fragment& fragment, const std::string& bytes, Kernel& out) {
  tn_kernel* made = nullptr;
  Outcome said = outcome_of([&](tn_error* e) {
    return plugin().kernel->load(device, &fragment, bytes.data(), bytes.size(), &made, e);
  });
  if (said.ok()) out = Kernel(made);
  return said;
}

std::string save(tn_kernel* kernel) {
  uint64_t bytes = 0;
  must([&](tn_error* e) { return plugin().kernel->save(kernel, nullptr, 0, &bytes, e); });
  std::string out(bytes, '\0');
  must([&](tn_error* e) { return plugin().kernel->save(kernel, out.data(), out.size(), &bytes, e); });
  CHECK(bytes == out.size());
  return out;
}

// The status of one case of this program, as a process under a driver and with a folder of kernels.
int run_case(const std::string& driver, const std::string& cache, const std::string& name) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string command =
      "FAKECUDA=" + driver + " TENON_TEST_CUDA_CACHE='" + cache + "' '" + self + "' -tc='" + name + "'";
  return std::system(command.c_str());
}

}  // namespace

TEST_CASE("kernel: what is compiled once is found in the folder, and a damaged file is compiled anew") {
  CUDA_DRIVER("");
  const tenon::test::TempFolder folder;
  const fs::path cache = fs::path(folder.path()) / "cache";
  const World world(Options{{"cache", cache.string()}});
  const Device device = open_device();
  Addition f(64);
  CHECK(run<float>(device, f.fragment(), {ones, twos}, 64) == threes);
  auto files = files_in(cache, ".bundle");
  REQUIRE(files.size() == 1);
  CHECK((fs::status(cache).permissions() & fs::perms::others_all) == fs::perms::none);
  const std::string whole = text_of(files[0]);
  for (const size_t keep : {whole.size(), whole.size() - 1, whole.size() / 2, size_t{3}, size_t{0}}) {
    std::ofstream(files[0], std::ios::binary | std::ios::trunc) << whole.substr(0, keep);
    INFO("the first ", keep, " bytes");
    CHECK(run<float>(device, f.fragment(), {ones, twos}, 64) == threes);
    CHECK(text_of(files[0]) == whole);
  }
  std::string spoilt = whole;
  spoilt.back() = static_cast<char>(~spoilt.back());
  std::ofstream(files[0], std::ios::binary | std::ios::trunc) << spoilt;
  CHECK(run<float>(device, f.fragment(), {ones, twos}, 64) == threes);
  CHECK(text_of(files[0]) == whole);
}

TEST_CASE("kernel: a folder that cannot be written to is done without") {
  CUDA_DRIVER("");
  const World world(Options{{"cache", "/proc/nowhere/cache"}});
  const Device device = open_device();
  Addition f(64);
  CHECK(run<float>(device, f.fragment(), {ones, twos}, 64) == threes);
}

TEST_CASE("kernel: saved bytes load for the same fragment, and for nothing else") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Addition f(64), g(65);
  const std::string saved = save(compile(device, f.fragment()));
  Kernel loaded;
  CHECK(try_load(device, f.fragment(), saved, loaded).message() == "");
  const Outcome other = try_load(device, g.fragment(), saved, loaded);
  CHECK(other.code == TN_MISMATCH);
  CHECK(other.says("another fragment"));
  CHECK(try_load(device, f.fragment(), saved.substr(0, saved.size() - 1), loaded).says("cut off"));
  std::string spoilt = saved;
  spoilt.back() = static_cast<char>(~spoilt.back());
  CHECK(try_load(device, f.fragment(), spoilt, loaded).says("damaged"));
  CHECK(try_load(device, f.fragment(), "something else", loaded).code == TN_MISMATCH);
}

TEST_CASE("kernel: what one driver has compiled is neither found nor loaded under another" * fake_only) {
  const tenon::test::TempFolder folder;
  for (const char* driver : {"driver=13000", "driver=13010", "driver=13010"})
    CHECK(run_case(driver, folder.path(), "kernel: (child) the folder and a saved kernel are used") == 0);
  CHECK(files_in(folder.path(), ".bundle").size() == 2);
}

TEST_CASE("kernel: (child) the folder and a saved kernel are used" * fake_only) {
  const char* const given = std::getenv("TENON_TEST_CUDA_CACHE");
  const tenon::test::TempFolder own;
  const fs::path cache = given != nullptr ? given : own.path();
  const World world(Options{{"cache", cache.string()}});
  const Device device = open_device();
  Addition f(64);
  CHECK(run<float>(device, f.fragment(), {ones, twos}, 64) == threes);
  const fs::path saved = cache / "saved";
  if (!fs::exists(saved)) {
    std::ofstream(saved, std::ios::binary) << save(compile(device, f.fragment()));
    return;
  }
  Kernel loaded;
  const Outcome said = try_load(device, f.fragment(), text_of(saved), loaded);
  CHECK(said.code == TN_MISMATCH);
  CHECK_MESSAGE(said.says("a driver for CUDA 13.0, and this one is for 13.1"), said.message());
}

TEST_CASE("kernel: every source that is compiled can be kept for reading") {
  CUDA_DRIVER("");
  const tenon::test::TempFolder folder;
  const World world(Options{{"keep", folder.path()}});
  const Device device = open_device();
  compile(device, Addition(64).fragment());
  const auto files = files_in(folder.path(), ".cu");
  REQUIRE(files.size() == 1);
  CHECK(text_of(files[0]).find("TN_ENTRY") != std::string::npos);
}

TEST_CASE("kernel: at addresses that no wide access takes, the result is the same") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Stream stream = make_stream(device);
  Addition f(61);
  const Kernel kernel = compile(device, f.fragment());
  const Memory memory = allocate(device, 4096);
  std::vector<float> a(61), b(61);
  for (size_t i = 0; i < 61; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(1000 * i);
  }
  for (const uint64_t shift : {0u, 4u, 8u, 12u}) {
    const tn_span bindings[] = {span(memory, shift, 244), span(memory, 1024, 244),
                                span(memory, 2048 + shift, 244)};
    copy(stream, bindings[0], host_span(a.data(), 244));
    copy(stream, bindings[1], host_span(b.data(), 244));
    launch(kernel, stream, bindings, {});
    const auto got = download(stream, bindings[2]);
    INFO("shifted by ", shift);
    CHECK(reinterpret_cast<const float*>(got.data())[60] == 60060.0F);
    CHECK(reinterpret_cast<const float*>(got.data())[1] == 1001.0F);
  }
}
