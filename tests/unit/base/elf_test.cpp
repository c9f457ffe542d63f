// SPDX-License-Identifier: Apache-2.0
// A library file is judged before anything maps it: this very program serves as the specimen.
#include "base/elf.hpp"
#include "base/file.hpp"

#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <elf.h>
#include <cstring>
#include <string>

namespace base = tenon::base;
using tenon::test::TempFolder;

namespace {

std::string specimen() {
  auto bytes = base::read_file("/proc/self/exe", 512u << 20);
  REQUIRE(bytes.ok());
  return std::move(bytes).take();
}

Elf64_Ehdr header_of(const std::string& bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

// The specimen's first bytes with a changed header; enough for what is looked at first.
template <class Change>
std::string changed(std::string bytes, Change change) {
  Elf64_Ehdr header = header_of(bytes);
  change(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

std::string verdict(const TempFolder& folder, const std::string& bytes) {
  const tenon::Status status = base::check_library_file(folder.write("tenon-x.so", bytes));
  return status.ok() ? "ok" : std::string(status.message());
}

bool says(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("elf: a whole library passes") {
  const TempFolder folder;
  const std::string whole = specimen();
  REQUIRE(header_of(whole).e_type == ET_DYN);  // a position-independent program looks like a library
  CHECK(verdict(folder, whole) == "ok");
}

TEST_CASE("elf: a file cut anywhere is called truncated, with the figures") {
  const TempFolder folder;
  const std::string whole = specimen();
  for (const size_t size :
       {size_t{5}, size_t{63}, size_t{64}, size_t{200}, size_t{4096}, whole.size() / 2, whole.size() - 1}) {
    CAPTURE(size);
    const std::string text = verdict(folder, whole.substr(0, size));
    CHECK(says(text, "is truncated"));
    CHECK(says(text, ("the file has " + std::to_string(size)).c_str()));
  }
}

TEST_CASE("elf: what is no library says what it is") {
  const TempFolder folder;
  CHECK(says(verdict(folder, ""), "the file is empty"));
  CHECK(says(verdict(folder, "#!/bin/sh\necho hello\n"), "it begins with '#!/bin/sh echo hello'"));
  CHECK(says(verdict(folder, "hi"), "it begins with 'hi'"));
  CHECK(says(verdict(folder, std::string(100, '\xff')), "is not a shared library"));
  CHECK(says(std::string(base::check_library_file(folder / "none").message()), "cannot be read"));
  CHECK(says(std::string(base::check_library_file(folder.path()).message()), "is not a regular file"));
}

TEST_CASE("elf: another machine, word size, byte order or kind of file is named") {
  const TempFolder folder;
  const std::string whole = specimen().substr(0, 8192);
  const auto with = [&](auto change) { return verdict(folder, changed(whole, change)); };
  const uint16_t foreign = header_of(whole).e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  CHECK(says(with([&](Elf64_Ehdr& h) { h.e_machine = foreign; }),
             foreign == EM_AARCH64 ? "built for aarch64" : "built for x86_64"));
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_machine = 999; }), "built for machine 999"));
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_ident[EI_CLASS] = ELFCLASS32; }), "32-bit"));
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_ident[EI_DATA] ^= 3; }), "byte order"));
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_type = ET_REL; }), "an object file"));
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_phnum = 0; }), "no usable program headers"));
}

TEST_CASE("elf: offsets that wrap around are outside the file") {
  const TempFolder folder;
  const std::string whole = specimen();
  const auto with = [&](auto change) { return verdict(folder, changed(whole, change)); };
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_phoff = UINT64_MAX - 10; }), "is truncated"));
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_shoff = UINT64_MAX - 10; }), "is truncated"));
  CHECK(says(with([](Elf64_Ehdr& h) { h.e_shentsize = 0xFFFF; }), "is truncated"));
}

TEST_CASE("elf: any damage to the first bytes gives a verdict, never a crash") {
  const TempFolder folder;
  const std::string whole = specimen().substr(0, 4096);
  auto random = tenon::test::generator();
  for (int round = 0; round < 300; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 4; ++i) damaged[random() % 512] = static_cast<char>(random());
    CHECK(verdict(folder, damaged) != "ok");  // 4 KiB of a program are never a whole one
  }
}
