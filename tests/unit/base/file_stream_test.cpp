// SPDX-License-Identifier: Apache-2.0
// Files that are written at any place and shown when whole, and read from front to back.
#include "base/file_stream.hpp"
#include "base/file.hpp"

#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <filesystem>
#include <optional>
#include <string>

namespace base = tenon::base;
namespace fs = std::filesystem;
using tenon::test::TempFolder;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

auto names(const TempFolder& folder) { return *base::list_folder(folder.path()); }

void remove_all_partials(const std::string& folder) {
  base::remove_partials(folder, [](std::string_view) { return true; });
}

}  // namespace

TEST_CASE("file stream: a file is not there before it is whole, and is written at any place") {
  const TempFolder folder;
  auto file = *base::FileWriter::create(folder / "x");
  REQUIRE(file.write(4, bytes_of("efg")).ok());
  REQUIRE(file.write(0, bytes_of("ab")).ok());
  CHECK(base::file_kind(folder / "x") == base::FileKind::absent);
  REQUIRE(file.commit().ok());
  CHECK(*base::read_file(folder / "x", 100) == std::string("ab\0\0efg", 7));
  CHECK(names(folder) == std::vector<std::string>{"x"});
}

TEST_CASE("file stream: one that is given up leaves the old file and nothing else") {
  const TempFolder folder;
  folder.write("x", "old");
  {
    auto file = *base::FileWriter::create(folder / "x");
    REQUIRE(file.write(0, bytes_of("new")).ok());
    CHECK(names(folder).size() == 2);
    const base::FileWriter moved = std::move(file);
    CHECK(names(folder).size() == 2);
  }
  CHECK(names(folder) == std::vector<std::string>{"x"});
  CHECK(*base::read_file(folder / "x", 100) == "old");
}

TEST_CASE("file stream: a living writer's part stays, one that was left behind goes") {
  const TempFolder folder;
  folder.write("x.4711-0.partial", "left");
  folder.write("a.b.4711-0.partial", "left");
  for (const char* other :
       {"x.partial", "x.4711.partial", "x.4711-0", "x.a711-0.partial", ".partial", "partial"})
    folder.write(other, "somebody's");
  auto file = *base::FileWriter::create(folder / "x");
  base::remove_partials(folder.path(), [](std::string_view name) { return name == "x"; });
  CHECK(base::file_kind(folder / "x.4711-0.partial") == base::FileKind::absent);
  CHECK(base::file_kind(folder / "a.b.4711-0.partial") == base::FileKind::file);
  remove_all_partials(folder.path());
  CHECK(base::file_kind(folder / "a.b.4711-0.partial") == base::FileKind::absent);
  CHECK(names(folder).size() == 6 + 1);
  REQUIRE(file.write(0, bytes_of("new")).ok());
  CHECK(file.commit().ok());
  CHECK(*base::read_file(folder / "x", 100) == "new");
}

TEST_CASE("file stream: a link or a fifo that looks like a part is left alone") {
  const TempFolder folder;
  folder.write("kept", "kept");
  fs::create_symlink(folder / "kept", folder / "x.1-0.partial");
  REQUIRE(mkfifo((folder / "y.1-0.partial").c_str(), 0600) == 0);
  remove_all_partials(folder.path());
  CHECK(fs::is_symlink(folder / "x.1-0.partial"));
  CHECK(base::file_kind(folder / "y.1-0.partial") == base::FileKind::other);
  CHECK(*base::read_file(folder / "kept", 100) == "kept");
  remove_all_partials(folder / "none");
}

TEST_CASE("file stream: two writers of one path do not meet, and the last to commit is there") {
  const TempFolder folder;
  auto first = *base::FileWriter::create(folder / "x"), second = *base::FileWriter::create(folder / "x");
  REQUIRE(first.write(0, bytes_of("first")).ok());
  REQUIRE(second.write(0, bytes_of("second")).ok());
  CHECK(second.commit().ok());
  CHECK(*base::read_file(folder / "x", 100) == "second");
  CHECK(first.commit().ok());
  CHECK(*base::read_file(folder / "x", 100) == "first");
  CHECK(names(folder).size() == 1);
}

TEST_CASE("file stream: where nothing can be written the folder and the remedy are named") {
  const TempFolder folder;
  const auto missing = base::FileWriter::create(folder / "none/x");
  CHECK(missing.code() == TN_NOT_FOUND);
  CHECK(std::string(missing.message()).find(": make the folder " + (folder / "none") + " first") !=
        std::string::npos);
  folder.write("plain", "");
  CHECK(base::FileWriter::create(folder / "plain/x").error().native_code == ENOTDIR);
}

TEST_CASE("file stream: a file is read in pieces, and one that became shorter says where it ends") {
  const TempFolder folder;
  const std::string path = folder.write("x", "0123456789");
  auto file = *base::FileReader::open(path);
  CHECK(file.bytes() == 10);
  std::string piece(4, ' ');
  REQUIRE(file.read(std::as_writable_bytes(std::span(piece))).ok());
  CHECK(piece == "0123");
  fs::resize_file(path, 6);
  const tenon::Status shorter = file.read(std::as_writable_bytes(std::span(piece)));
  CHECK(shorter.code() == TN_INVALID);
  CHECK(shorter.message() == path + " ends at byte 6, while it is read");
  CHECK(base::FileReader::open(folder / "none").code() == TN_NOT_FOUND);
  CHECK(base::FileReader::open(folder.path()).code() == TN_INVALID);
}

TEST_CASE("file stream: removing a file that is not there is well") {
  const TempFolder folder;
  folder.write("x", "");
  CHECK(base::remove_file(folder / "x").ok());
  CHECK(base::remove_file(folder / "x").ok());
  CHECK(names(folder).empty());
  CHECK_FALSE(base::remove_file(folder.path()).ok());
}
