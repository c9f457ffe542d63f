// SPDX-License-Identifier: Apache-2.0
// Files and folders: every failure names the path.
#include "base/file.hpp"
#include "base/text.hpp"

#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <filesystem>

namespace base = tenon::base;
namespace fs = std::filesystem;
using tenon::test::TempFolder;

TEST_CASE("file: reading gives all bytes, and stops at the limit") {
  const TempFolder folder;
  const std::string text = std::string(300'000, 'x') + '\0' + "end";
  const std::string path = folder.write("big", text);
  CHECK(*base::read_file(path, 1 << 20) == text);
  const auto limited = base::read_file(path, 1000);
  CHECK(limited.code() == TN_INVALID);
  CHECK(std::string(limited.message()).find(path + " is larger than 1000 bytes") != std::string::npos);
  CHECK(*base::file_digest(path) == base::sha256(text));
}

TEST_CASE("file: what cannot be read is named, with the system's code") {
  const TempFolder folder;
  const auto missing = base::read_file(folder / "none", 10);
  CHECK(missing.code() == TN_NOT_FOUND);
  CHECK(missing.error().domain == "errno");
  CHECK(missing.error().native_code == ENOENT);
  CHECK(std::string(missing.message()).find(folder / "none") != std::string::npos);
  CHECK(base::read_file(folder.path(), 10).code() == TN_INVALID);  // a folder
  CHECK(base::list_folder(folder / "none").code() == TN_NOT_FOUND);
  CHECK(base::real_path(folder / "none").code() == TN_NOT_FOUND);
}

TEST_CASE("file: a fifo is refused without waiting for a writer") {
  const TempFolder folder;
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(base::read_file(folder / "fifo", 10).code() == TN_INVALID);
  CHECK(base::file_kind(folder / "fifo") == base::FileKind::other);
}

TEST_CASE("file: a folder lists its names in order") {
  const TempFolder folder;
  folder.write("b", "");
  folder.write("a", "");
  folder.write("sub/c", "");
  CHECK(*base::list_folder(folder.path()) == std::vector<std::string>{"a", "b", "sub"});
}

TEST_CASE("file: writing replaces the whole text, makes folders, and leaves nothing beside it") {
  const TempFolder folder;
  const std::string path = folder / "x/y/entry";
  REQUIRE(base::write_file(path, "old and long").ok());
  REQUIRE(base::write_file(path, "new").ok());
  CHECK(*base::read_file(path, 100) == "new");
  CHECK(base::list_folder(folder / "x/y")->size() == 1);
  CHECK(base::is_own_file(path));
  CHECK((fs::status(folder / "x").permissions() & fs::perms::others_all) == fs::perms::none);
}

TEST_CASE("file: writing where no folder can be is a failure that names the place") {
  const TempFolder folder;
  folder.write("plain", "");
  const tenon::Status status = base::write_file(folder / "plain/sub/entry", "x");
  CHECK_FALSE(status.ok());
  CHECK(std::string(status.message()).find(folder / "plain") != std::string::npos);
}

TEST_CASE("file: writers are judged by the mode bits, the group's only when elevated") {
  const TempFolder folder;
  const std::string path = folder.write("lib", "");
  TempFolder::allow(path, 0755);
  CHECK(*base::writers_of(path, true) == base::Writers::trusted);
  TempFolder::allow(path, 0775);
  CHECK(*base::writers_of(path, false) == base::Writers::trusted);
  CHECK(*base::writers_of(path, true) == base::Writers::group);
  TempFolder::allow(path, 0757);
  CHECK(*base::writers_of(path, false) == base::Writers::everybody);
  CHECK(base::writers_of(folder / "none", false).code() == TN_NOT_FOUND);
}

TEST_CASE("file: a file that others may write, or a link, is not one's own") {
  const TempFolder folder;
  const std::string path = folder.write("entry", "");
  CHECK(base::is_own_file(path));
  TempFolder::allow(path, 0666);
  CHECK_FALSE(base::is_own_file(path));
  TempFolder::allow(path, 0600);
  fs::create_symlink(path, folder / "link");
  CHECK_FALSE(base::is_own_file(folder / "link"));
}

TEST_CASE("file: paths come apart as text") {
  CHECK(base::folder_of("/a/b.so") == "/a");
  CHECK(base::folder_of("/b.so") == "/");
  CHECK(base::folder_of("b.so") == "");
  CHECK(base::name_of("/a/b.so") == "b.so");
  CHECK(base::stem_of("/a/tenon-b.so") == "tenon-b");
  CHECK(base::stem_of(".hidden") == ".hidden");
  CHECK(base::is_absolute("/a"));
  CHECK_FALSE(base::is_absolute("a"));
  CHECK_FALSE(base::is_absolute(""));
}
