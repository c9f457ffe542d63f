// SPDX-License-Identifier: Apache-2.0
// reader_test.cpp: the reader that docs/checkpoint.md shows reads what is written, and refuses what was damaged.
#include "tensors.hpp"

#include "base/child.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace tenon;
using namespace tenon::test;

namespace {

base::ChildEnd read_in_python(const std::string& path) {
  const std::string reader =
      std::string(std::getenv("TENON_TEST_SOURCE_DIR")) + "/tests/unit/checkpoint/read_checkpoint.py";
  auto end = base::run_program(std::getenv("TENON_TEST_PYTHON"), {reader, path}, std::chrono::seconds(60));
  REQUIRE_MESSAGE(end.ok(), end.message());
  return std::move(*end);
}

}  // namespace

TEST_CASE("checkpoint reader: Python's own library reads it, notes and all") {
  const TempFolder folder;
  Tensors tensors;
  tensors.add("w \"µ\"", {f16, {2, 2}}).add("rows", {i32, {0, 4}}).add("scale", {f64, {}});
  REQUIRE(Checkpoint::write(folder / "x", tensors.all(), {{"step", "7"}, {"quote \\", "\"\n"}}).ok());
  const base::ChildEnd end = read_in_python(folder / "x");
  CHECK_MESSAGE(end.code == 0, end.errors);
  CHECK(end.output ==
        "{'tenon.format': 'tenon.checkpoint/1', 'quote \\\\': '\"\\n', 'step': '7'}\n"
        "scale: F64 [] 5d646b727980878e\n"
        "rows: I32 [0, 4] \n"
        "w \"µ\": F16 [2, 2] 1f262d343b424950\n");
}

TEST_CASE("checkpoint reader: it refuses a damaged tensor and a damaged header") {
  const TempFolder folder;
  const std::string file = *written_bytes(small().all(), {{"step", "7"}});
  for (const auto& [part, told] :
       {std::pair("\"7\"", "the header is not what"), std::pair("[2,3]", "the header is not")}) {
    std::string damaged = file;
    damaged[damaged.find(part) + 1] ^= 1;
    const base::ChildEnd end = read_in_python(folder.write("x", damaged));
    CHECK(end.code == 1);
    CHECK(has(end.errors, told));
  }
  std::string damaged = file;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  CHECK(has(read_in_python(folder.write("x", damaged)).errors, "fc.w is not what its checksum says"));
}
