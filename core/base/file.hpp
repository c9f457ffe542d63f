// SPDX-License-Identifier: Apache-2.0
// file.hpp: files and folders as the loader needs them: read, list, resolve, judge permissions, write atomically.
//
// Invariant: every failure names the path and the system's own words; nothing here changes the working directory.
#pragma once

#include "base/sha256.hpp"

#include <tenon/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::base {

enum class FileKind { absent, file, folder, other };

// What stands at `path`, links followed. [any-thread; may block; cannot fail]
FileKind file_kind(const std::string& path) noexcept;
// The path with all links resolved. TN_NOT_FOUND. [any-thread; may block; may fail]
Result<std::string> real_path(const std::string& path);
// Names in a folder, sorted, without "." and "..". TN_NOT_FOUND, TN_INVALID. [any-thread; may block; may fail]
Result<std::vector<std::string>> list_folder(const std::string& path);
// The whole file. TN_NOT_FOUND; TN_INVALID past `limit` bytes. [any-thread; may block; may fail]
Result<std::string> read_file(const std::string& path, uint64_t limit);
// SHA-256 of the file's bytes. [any-thread; may block; may fail]
Result<Digest> file_digest(const std::string& path);
// Replaces the file in one step: readers see the old or the new text. Missing folders are made for this user only.
// [any-thread; may block; may fail]
Status write_file(const std::string& path, std::string_view text);
// Makes the file in one step, whole, unless there is one: TN_BUSY. The folder must exist. [any-thread; may block; may fail]
Status create_file(const std::string& path, std::string_view text);
// Makes the folder, and those above it, for this user only; one that is there already is well.
// [any-thread; may block; may fail]
Status make_folder(const std::string& path);
// Removes the file; one that is not there is well. [any-thread; may block; may fail]
Status remove_file(const std::string& path);
// A word that changes when the file is written, replaced, made or removed: its size and time. (Its number would differ between
// hosts that share it.)
// [any-thread; may block; cannot fail]
std::string file_stamp(const std::string& path);
// Whether `path` is this user's own file, which others cannot write. [any-thread; may block; cannot fail]
bool is_own_file(const std::string& path) noexcept;

// Who may write a file or folder that code is taken from.
enum class Writers { trusted, everybody, group };
// `everybody` when it is world-writable; `group` when it is group-writable and `elevated`.
// [any-thread; may block; may fail]
Result<Writers> writers_of(const std::string& path, bool elevated);

// Text only, no system call: "/a/b.so" → "/a", "b.so", "b". [any-thread; does not block; cannot fail]
std::string folder_of(std::string_view path);
std::string name_of(std::string_view path);
std::string stem_of(std::string_view path);
bool is_absolute(std::string_view path) noexcept;

}  // namespace tenon::base
