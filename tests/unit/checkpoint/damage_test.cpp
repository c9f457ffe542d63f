// SPDX-License-Identifier: Apache-2.0
// damage_test.cpp: a file that is not, to the last bit, the one that was written is refused; and any bytes keep the promise.
#include "tensors.hpp"

#include "fuzz/promises.hpp"
#include "fuzz/seeds.hpp"
#include "support/full.hpp"
#include "support/seed.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <random>

using namespace tenon;
using namespace tenon::test;

namespace {

const CheckpointNotes notes{{"step", "123"}};

}  // namespace

TEST_CASE("checkpoint damage: each bit of a file counts") {
  const std::string file = *written_bytes(small().all(), notes);
  REQUIRE(read_bytes(file).ok());
  for (size_t at = 0; at < file.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string flipped = file;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      const auto read = read_bytes(flipped);
      if (read.ok()) FAIL_CHECK("bit " << bit << " of byte " << at << " was flipped, and the file read");
      if (read.code() != TN_INVALID) FAIL_CHECK("byte " << at << ": " << read.message());
    }
  }
}

TEST_CASE("checkpoint damage: each byte but the last may be the last one, and one may follow") {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  REQUIRE(Checkpoint::write(path, small().all(), notes).ok());
  const std::string file = file_bytes(path);
  for (size_t bytes = file.size(); bytes-- > 0;) {
    std::filesystem::resize_file(path, bytes);
    const auto read = Checkpoint::read(path);
    if (read.code() != TN_INVALID) FAIL_CHECK("cut off at byte " << bytes << ": " << read.message());
    if (bytes > 8 && !has(read.message(), "cut off")) FAIL_CHECK(bytes << ": " << read.message());
  }
  folder.write("x.safetensors", file + " ");
  CHECK(has(Checkpoint::read(path).message(), "on belongs to no tensor"));
  folder.write("x.safetensors", file);
  CHECK(Checkpoint::read(path).ok());
}

TEST_CASE("checkpoint damage: two tensors of one shape that were exchanged are refused") {
  Tensors tensors;
  tensors.add("a", {u8, {16}}).add("b", {u8, {16}});
  std::string file = *written_bytes(tensors.all());
  std::rotate(file.end() - 32, file.end() - 16, file.end());
  CHECK(has(read_bytes(file).message(), "the bytes of tensor 'a' are not what its checksum says"));
}

TEST_CASE("checkpoint damage: the fuzzer's seeds, whole and damaged, keep its promise") {
  auto random = generator();
  const int rounds = full_or("damaged seeds", 2'000, 200'000);
  const std::vector<std::string> all = seeds();
  for (const std::string& seed : all) CHECK(broken_checkpoint_promise(seed) == "");
  for (int round = 0; round < rounds; ++round) {
    std::string text = all[random() % all.size()];
    for (uint64_t changes = 1 + random() % 4; changes-- > 0 && !text.empty();)
      text[random() % text.size()] = static_cast<char>(random());
    if (random() % 4 == 0) text.resize(random() % (text.size() + 1));
    const std::string broken = broken_checkpoint_promise(text);
    if (!broken.empty()) FAIL_CHECK("round " << round << ": " << broken);
  }
}
