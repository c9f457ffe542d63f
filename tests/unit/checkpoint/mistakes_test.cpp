// SPDX-License-Identifier: Apache-2.0
// mistakes_test.cpp: what cannot be written, and files that are refused, each with its own reason and place.
#include "tensors.hpp"

#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>

using namespace tenon;
using namespace tenon::test;

namespace {

// What is said to writing one tensor.
std::string told(const CheckpointTensor& tensor) {
  const Status written = Checkpoint::write("/nowhere/x.safetensors", {tensor});
  CHECK(written.code() == TN_INVALID);
  return std::string(written.message());
}

std::string told_of_spec(TensorSpec spec, std::span<const std::byte> bytes = {}) {
  return told({"w", std::move(spec), bytes});
}

// What is said to a file of these bytes, where other programs' files are welcome.
std::string refused(std::string_view bytes) {
  const auto read = read_bytes(bytes, {.foreign_ok = true});
  CHECK(read.code() == TN_INVALID);
  CHECK(read.message().starts_with("x.safetensors: "));
  return std::string(read.message());
}

// The same of a header, with `data_bytes` behind it.
std::string refused(std::string_view json, size_t data_bytes) { return refused(foreign(json, data_bytes)); }

// `file`, one of Tenon's, with `part` of its header replaced by as many letters and its checksum made anew.
std::string signed_anew(std::string file, std::string_view part, std::string_view other) {
  const size_t at = file.find(part);
  REQUIRE(at != std::string::npos);
  REQUIRE(part.size() == other.size());
  file.replace(at, part.size(), other);
  const size_t digest_at = file.find("\"tenon.sha256\":\"") + 16;
  file.replace(digest_at, 64, std::string(64, '0'));
  const size_t data_bytes = 32;
  const std::string digest =
      base::hex(base::sha256(std::string_view(file).substr(0, file.size() - data_bytes)));
  return file.replace(digest_at, 64, digest);
}

// "byte N", where N is the one `offset` behind a header of `json_bytes`.
std::string byte(size_t json_bytes, size_t offset) {
  return "byte " + std::to_string(8 + json_bytes + offset);
}

constexpr std::string_view good = R"({"w":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}})";

}  // namespace

TEST_CASE("checkpoint mistakes: tensors that cannot be written, by name") {
  const std::array<std::byte, 24> bytes{};
  CHECK(has(told_of_spec({DType::i4_, {6}}, std::span(bytes).first(3)),
            "checkpoint tensor 'w' is of type i4, which safetensors has no name for: convert it first"));
  CHECK(has(told_of_spec({DType::u4_, {6}}, std::span(bytes).first(3)), "'w' is of type u4"));
  CHECK(has(told_of_spec({DType{99}, {6}}), "'w' is of type ?"));
  CHECK(has(told_of_spec({f32, {2, 4}}, bytes), "is f32[2,4], which takes 32 bytes, and was given 24"));
  CHECK(has(told_of_spec({f32, {-2}}), "is f32[-2]: dims are 0 or more"));
  CHECK(has(told_of_spec({f32, {1LL << 40, 1LL << 40}}), "fit in 2^63 bytes"));
  CHECK(has(told_of_spec({f32, {1, 1, 1, 1, 1, 1, 1, 1, 1}}), "has 9 dims, more than 8: merge dims"));
  CHECK(has(told_of_spec({.dtype = f32, .dims = {2, 3}, .strides = {1, 2}}, bytes),
            "strides that are not dense"));
  CHECK(
      has(told_of_spec({.dtype = f32, .dims = {2, 3}, .strides = {1}}, bytes), "strides that are not dense"));
  CHECK(has(told({"__metadata__", {f32, {6}}, bytes}), "has the name of the notes"));
  CHECK(has(told({"w\xff", {f32, {6}}, bytes}), "has a name that is not UTF-8"));
}

TEST_CASE("checkpoint mistakes: one name twice, of one width or of two") {
  const std::array<std::byte, 8> bytes{};
  const std::span all(bytes);
  const CheckpointTensor f{"w", {f32, {2}}, all}, d{"w", {f64, {1}}, all};
  CHECK(has(Checkpoint::write("/nowhere/x", {f, f}).message(), "checkpoint tensor 'w' is there twice"));
  CHECK(has(Checkpoint::write("/nowhere/x", {f, d}).message(), "checkpoint tensor 'w' is there twice"));
}

TEST_CASE("checkpoint mistakes: notes that cannot be written, by name") {
  const auto note = [](const std::string& name, const std::string& value) {
    return std::string(Checkpoint::write("/nowhere/x", {}, {{name, value}}).message());
  };
  CHECK(has(note("tenon.sha256.w", "0"), "checkpoint note 'tenon.sha256.w' begins with 'tenon.'"));
  CHECK(has(note("rng", "\xc0\x80"), "checkpoint note 'rng' is not UTF-8"));
  CHECK(has(note("\xed\xa0\x80", ""), "is not UTF-8"));
}

TEST_CASE("checkpoint mistakes: a header that the format has no room for") {
  const Status written = Checkpoint::write("/nowhere/x", {}, {{"log", std::string(100'000'000, 'x')}});
  CHECK(written.code() == TN_INVALID);
  CHECK(has(written.message(), "the checkpoint's header takes 1000"));
  CHECK(has(written.message(), "and the format allows 100000000: use fewer tensors, or several checkpoints"));
}

TEST_CASE("checkpoint mistakes: a folder that is missing, or that this user may not write to") {
  const TempFolder folder;
  const Status missing = Checkpoint::write(folder / "none/x.safetensors", {});
  CHECK(missing.code() == TN_NOT_FOUND);
  CHECK(has(missing.message(), "cannot write " + folder / "none/x.safetensors: No such file or directory"));
  CHECK(has(missing.message(), ": make the folder " + (folder / "none") + " first"));
  const std::string taken = folder / "taken";
  REQUIRE(std::filesystem::create_directories(taken + "/inside"));
  CHECK(has(Checkpoint::write(taken, {}).message(), "that is a folder, choose another name"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("checkpoint mistakes: files that are not there, and things that are no files") {
  const TempFolder folder;
  CHECK(Checkpoint::read(folder / "none").code() == TN_NOT_FOUND);
  CHECK(has(Checkpoint::read(folder / "none").message(), folder / "none"));
  CHECK(has(Checkpoint::read(folder.path()).message(), "is not a regular file"));
}

TEST_CASE("checkpoint mistakes: files that are no safetensors") {
  CHECK(has(refused(""), "it has 0 bytes: it was cut off, or is no safetensors file"));
  CHECK(has(refused("1234567"), "it has 7 bytes"));
  CHECK(has(refused("#!/usr/bin/env python3\n"),
            "its first 8 bytes say that its header takes 7074999379835167011 bytes"));
  CHECK(has(refused(std::string("\x01\xe1\xf5\x05\0\0\0\0{", 9)),
            "takes 100000001 bytes, at most 100000000 can be"));
  CHECK(has(refused(std::string("\x00\xe1\xf5\x05\0\0\0\0{", 9)),
            "its header ends at byte 100000008, and the file at byte 9"));
  CHECK(has(refused("[1,2]", 0), "it is no safetensors file: byte 8 is no '{'"));
  CHECK(has(refused("", 0), "byte 8 is no '{'"));
  CHECK(has(refused("{\"\xff\":1}", 0), "its header is not UTF-8"));
}

TEST_CASE("checkpoint mistakes: headers that are garbled, with the byte") {
  CHECK(has(refused("{", 0), "byte 9: expected a string"));
  CHECK(has(refused("{}}", 0), "byte 10: expected the end of the file"));
  CHECK(has(refused(R"({"w":[]})", 0), "byte 13: expected an object, found '[]}'"));
  CHECK(has(refused(R"({"w":{"dtype":"U8","shape":[2,3]}})", 6), "tensor 'w' lacks 'data_offsets'"));
  CHECK(has(refused(R"({"w":{"dtype":"U8","dtype":"U8"}})", 6), "a tensor has key 'dtype' twice"));
  CHECK(has(refused(R"({"w":{"type":"U8"}})", 6), "has no key 'type' (did you mean 'dtype'?)"));
  CHECK(has(refused(R"({"__metadata__":{"step":3}})", 0), "expected a string, found '3}}'"));
  CHECK(has(refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "note 'a' is there twice"));
  CHECK(has(refused(R"({"__metadata__":{},"__metadata__":{}})", 0), "'__metadata__' is there twice"));
  CHECK(has(refused(R"({"w":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]},)"
                    R"("w":{"dtype":"U8","shape":[0],"data_offsets":[6,6]}})",
                    6),
            "tensor 'w' is there twice"));
}

TEST_CASE("checkpoint mistakes: types, shapes and offsets that cannot be, by tensor") {
  const auto with = [](std::string_view part, std::string_view other) {
    std::string json(good);
    return refused(json.replace(json.find(part), part.size(), other), 6);
  };
  CHECK(has(with("U8", "F8_E8M0"), "tensor 'w' is of type 'F8_E8M0', which Tenon does not have"));
  CHECK(has(with("U8", "u8"), "tensor 'w' is of type 'u8'"));
  CHECK(has(with("[2,3]", "[2,-3]"), "tensor 'w' has -3, which is below 0"));
  CHECK(has(with("[2,3]", "[2,1.5]"), "expected a whole number"));
  CHECK(has(with("[2,3]", "[9223372036854775808]"), "expected a whole number below 2^63"));
  CHECK(has(with("[2,3]", "[1,1,1,1,1,1,1,1,1]"), "tensor 'w' has more than 8 dims"));
  CHECK(has(with("[2,3]", "[2,4]"), "tensor 'w' is u8[2,4], which takes 8 bytes, and has 6"));
  CHECK(has(with("[2,3]", "[4294967296,4294967296]"), "which takes more than 2^63 bytes, and has 6"));
  CHECK(has(with("[0,6]", "[6,0]"),
            "ends at " + byte(good.size(), 0) + ", before it begins at " + byte(good.size(), 6)));
  CHECK(has(with("[0,6]", "[0,6,6]"), "tensor 'w' has 3 offsets: it begins and ends"));
  CHECK(has(with("[0,6]", "[0]"), "tensor 'w' has 1 offset:"));
  CHECK(has(with("[0,6]", "[1,7]"), "begins at " + byte(good.size(), 1) + ", and what is from " +
                                        byte(good.size(), 0) + " on belongs"));
  CHECK(has(with("[0,6]", "[0,5]"), "which takes 6 bytes, and has 5"));
}

TEST_CASE("checkpoint mistakes: tensors that overlap, leave a hole, or end elsewhere than the file") {
  const std::string begin =
      R"({"w":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},"v":{"dtype":"U8","shape":[4],)";
  const auto two = [&](std::string_view offsets, size_t data_bytes) {
    return refused(begin + "\"data_offsets\":" + std::string(offsets) + "}}", data_bytes);
  };
  const size_t bytes = begin.size() + std::string_view(R"("data_offsets":[5,9]}})").size();
  CHECK(has(two("[5,9]", 10),
            "tensor 'v' begins at " + byte(bytes, 5) + ", inside of 'w', which ends at " + byte(bytes, 6)));
  CHECK(has(two("[7,9]", 9),
            "tensor 'v' begins at " + byte(bytes, 7) + ", and what is from " + byte(bytes, 6) + " on"));
  CHECK(has(two("[6,10]", 9), "tensor 'v' ends at " + byte(bytes, 11) + ", and the file at " +
                                  byte(bytes, 10) + ": it was cut off, take another copy"));
  CHECK(has(two("[6,10]", 11), "what is from " + byte(bytes, 11) +
                                   " on belongs to no tensor, and the file ends at " + byte(bytes, 12)));
  CHECK(has(refused("{}", 3), "what is from byte 10 on belongs to no tensor"));
}

TEST_CASE("checkpoint mistakes: another program's file is read when it is asked for, and only then") {
  const std::string file = foreign(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}}  )", 6);
  const auto refused = read_bytes(file);
  CHECK(refused.code() == TN_INVALID);
  CHECK(refused.message() ==
        "x.safetensors: another program wrote it, without checksums: to read it all the same set foreign_ok");
  const auto read = read_bytes(file, {.foreign_ok = true});
  REQUIRE(read.ok());
  CHECK(read->notes() == CheckpointNotes{{"format", "pt"}});
  CHECK(read->bytes("w", {u8, {2, 3}})->size() == 6);
}

TEST_CASE("checkpoint mistakes: a checksum that is missing, unknown, or of another format") {
  const std::string file = *written_bytes(small().all());
  CHECK(read_bytes(signed_anew(file, "fc.w", "fc.w")).ok());
  CHECK(has(read_bytes(signed_anew(file, "tenon.checkpoint/1", "tenon.checkpoint/2")).message(),
            "its format is 'tenon.checkpoint/2', and not 'tenon.checkpoint/1': use the Tenon that wrote it"));
  CHECK(has(read_bytes(signed_anew(file, "tenon.sha256.fc.w", "tenon.sha256.fc.v")).message(),
            "tensor 'fc.w' has no checksum"));
  const std::string noted = *written_bytes(small().all(), {{"Xenon.x", ""}});
  CHECK(
      has(read_bytes(signed_anew(noted, "Xenon.x", "tenon.x")).message(), "note 'tenon.x' is of no tensor"));
}

TEST_CASE(
    "checkpoint mistakes: a damaged tensor is named, and a header that another program wrote anew is "
    "refused") {
  std::string file = *written_bytes(small().all());
  file[file.size() - 1] ^= 1;
  CHECK(has(read_bytes(file).message(), "the bytes of tensor 'fc.w' are not what its checksum says"));
  std::string json = file.substr(8, file.size() - 8 - 32);
  json.replace(json.find("\"tenon.format\""), 0, " ");
  const std::string anew = foreign(json, 32);
  CHECK(has(read_bytes(anew).message(), "its header, bytes 0 to"));
  json.erase(json.find("\"tenon.sha256\":"), 15 + 66 + 1);
  CHECK(has(read_bytes(foreign(json, 32), {.foreign_ok = true}).message(),
            "its header was changed since Tenon wrote it"));
}
