// SPDX-License-Identifier: Apache-2.0
// round_trip_test.cpp: what is written is read, bit for bit; and where it lies in the file.
#include "tensors.hpp"

#include "base/file_stream.hpp"
#include "support/temp_folder.hpp"

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <array>
#include <limits>

using namespace tenon;
using namespace tenon::test;

namespace {

// Addresses without memory behind them: spans of any size that nobody may look into.
class Addresses {
 public:
  explicit Addresses(size_t bytes)
      : bytes_(bytes),
        at_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { munmap(at_, bytes_); }
  std::span<const std::byte> first(size_t bytes) const { return {static_cast<const std::byte*>(at_), bytes}; }

 private:
  size_t bytes_;
  void* at_;
};

}  // namespace

TEST_CASE("checkpoint: every type that safetensors has a name for comes back bit for bit") {
  const TempFolder folder;
  Tensors tensors;
#define TN_DTYPE(number, name, bits, class) \
  if constexpr (bits >= 8)                  \
    tensors.add("of " #name, {DType::name##_, {3, 5}}).add(#name " alone", {DType::name##_, {}});
#include <tenon/dtypes.def>
  CHECK(tensors.all().size() == 30);
  const std::string path = folder / "types.safetensors";
  REQUIRE(Checkpoint::write(path, tensors.all()).ok());
  const auto read = Checkpoint::read(path);
  REQUIRE_MESSAGE(read.ok(), read.message());
  CHECK(holds(*read, tensors.all()));
}

TEST_CASE("checkpoint: empty tensors, rank 0, rank 8, and none at all") {
  const TempFolder folder;
  Tensors tensors;
  tensors.add("a", {f32, {0}}).add("b", {u8, {1}}).add("c", {f64, {4, 0, 2}}).add("d", {f16, {}});
  tensors.add("e", {i32, {1, 2, 1, 2, 1, 2, 1, 2}}).add("", {boolean, {0, 1'000'000'000'000}});
  const std::string path = folder / "empty.safetensors";
  REQUIRE(Checkpoint::write(path, tensors.all()).ok());
  CHECK(holds(Checkpoint::read(path), tensors.all()));
  REQUIRE(Checkpoint::write(path, {}).ok());
  const auto none = Checkpoint::read(path);
  REQUIRE(none.ok());
  CHECK(none->tensors().empty());
  CHECK(none->notes().empty());
}

TEST_CASE("checkpoint: a tensor that is written and read in several pieces") {
  const TempFolder folder;
  Tensors tensors;
  tensors.add("large", {u8, {(5 << 19) + 3}}).add("a piece", {u8, {1 << 20}}).add("small", {f32, {2}});
  REQUIRE(Checkpoint::write(folder / "x", tensors.all()).ok());
  CHECK(holds(Checkpoint::read(folder / "x"), tensors.all()));
  CHECK(file_bytes(folder / "x") == *written_bytes(tensors.all()));
}

TEST_CASE("checkpoint: names and notes keep every letter that UTF-8 has") {
  const std::string odd = std::string("a\"\\/\n\t\x7f\x01 µ…😀") + '\0' + "end";
  Tensors tensors;
  tensors.add(odd, {f32, {1}}).add("{", {f32, {1}}).add("tenon.sha256", {f32, {1}});
  const CheckpointNotes notes{{"step", "123"}, {odd, odd}, {"", ""}, {"format", "pt"}};
  const auto read = read_bytes(*written_bytes(tensors.all(), notes));
  REQUIRE_MESSAGE(read.ok(), read.message());
  CHECK(holds(*read, tensors.all()));
  CHECK(read->notes() == notes);
}

TEST_CASE("checkpoint: equal contents are equal bytes, in whatever order they came") {
  const TempFolder folder;
  const Tensors tensors = small();
  std::vector<CheckpointTensor> turned(tensors.all().rbegin(), tensors.all().rend());
  REQUIRE(Checkpoint::write(folder / "a", tensors.all(), {{"x", "1"}, {"y", "2"}}).ok());
  REQUIRE(Checkpoint::write(folder / "b", turned, {{"y", "2"}, {"x", "1"}}).ok());
  CHECK(file_bytes(folder / "a") == file_bytes(folder / "b"));
  CHECK(file_bytes(folder / "a") == *written_bytes(turned, {{"x", "1"}, {"y", "2"}}));
  REQUIRE(Checkpoint::write(folder / "b", small(1).all(), {{"x", "1"}, {"y", "2"}}).ok());
  CHECK(file_bytes(folder / "a") != file_bytes(folder / "b"));
}

TEST_CASE("checkpoint: the data begins at a multiple of 256 and has no holes, the widest types first") {
  const auto tensors = small();
  const std::string file = *written_bytes(tensors.all());
  const std::string head = file.substr(0, file.find("  "));
  CHECK(has(head, R"("steps":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                  R"("fc.w":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
                  R"("rows":{"dtype":"BF16","shape":[0,8],"data_offsets":[32,32]}})"));
  CHECK((file.size() - 32) % 256 == 0);
  CHECK(static_cast<unsigned char>(file[0]) + 256 * static_cast<unsigned char>(file[1]) ==
        file.size() - 32 - 8);
}

TEST_CASE("checkpoint: in memory tensors come by name, each at a multiple of 256") {
  const auto read = read_bytes(*written_bytes(small().all()));
  REQUIRE(read.ok());
  std::vector<std::string> names;
  for (const CheckpointTensor& tensor : read->tensors()) {
    names.push_back(tensor.name);
    CHECK(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % 256 == 0);
  }
  CHECK(names == std::vector<std::string>{"fc.w", "rows", "steps"});
  CHECK(read->find("rows") == &read->tensors()[1]);
  CHECK(read->find("row") == nullptr);
}

TEST_CASE("checkpoint: dense strides are no strides") {
  Tensors tensors;
  tensors.add("w", {.dtype = f32, .dims = {2, 3}, .strides = {3, 1}, .alignment = 64});
  const auto read = read_bytes(*written_bytes(tensors.all()));
  REQUIRE(read.ok());
  CHECK(read->find("w")->spec.strides.empty());
  CHECK(read->find("w")->spec.alignment == 0);
}

TEST_CASE("checkpoint: a tensor that is not there, or is another, is told with both sides") {
  const auto read = *read_bytes(*written_bytes(small().all()));
  const auto missing = read.bytes("fc.v", {f32, {2, 3}});
  CHECK(missing.code() == TN_NOT_FOUND);
  CHECK(missing.message() == "the checkpoint has no tensor 'fc.v' (did you mean 'fc.w'?); it has 3 tensors");
  const auto other = read.bytes("fc.w", {bf16, {2, 3}});
  CHECK(other.code() == TN_MISMATCH);
  CHECK(has(other.message(), "tensor 'fc.w' is f32[2,3] in the checkpoint, and bf16[2,3] here"));
  CHECK(read.bytes("fc.w", {f32, {3, 2}}).code() == TN_MISMATCH);
}

TEST_CASE("checkpoint: tensors past 2 and 4 GiB have their place, and a header says it") {
  const size_t large = (size_t{5} << 30) + 4;
  const Addresses addresses(large);
  const std::array tensors{CheckpointTensor{"a", {u8, {int64_t{3} << 30}}, addresses.first(size_t{3} << 30)},
                           CheckpointTensor{"b", {f32, {(int64_t{5} << 28) + 1}}, addresses.first(large)},
                           CheckpointTensor{"c", {u8, {7}}, addresses.first(7)}};
  const auto header = checkpoint::lay_out(tensors, {});
  REQUIRE_MESSAGE(header.ok(), header.message());
  CHECK(header->tensors[0].end == 5368709124);
  CHECK(header->tensors[1].begin == 5368709124);
  CHECK(header->tensors[1].end == 8589934596);
  checkpoint::Header own = *header;
  for (checkpoint::Placed& placed : own.tensors) placed.digest = std::string(64, 'a');
  const std::string head = checkpoint::head_of(own);
  const auto read = checkpoint::read_header(head, head.size() + 8589934603);
  REQUIRE_MESSAGE(read.ok(), read.message());
  CHECK(read->tensors[2].begin == 8589934596);
  CHECK(read->tensors[2].digest == std::string(64, 'a'));
  CHECK(has(checkpoint::read_header(head, head.size() + 8589934602).message(), "it was cut off"));
}

TEST_CASE("checkpoint: bytes are written past 4 GiB of a file") {
  const TempFolder folder;
  const uint64_t far = (uint64_t{5} << 30) + 1;
  auto file = *base::FileWriter::create(folder / "far");
  REQUIRE(file.write(far, std::as_bytes(std::span("end", 3))).ok());
  REQUIRE(file.commit().ok());
  std::ifstream read(folder / "far", std::ios::binary);
  read.seekg(static_cast<std::streamoff>(far));
  CHECK(std::string(std::istreambuf_iterator<char>(read), {}) == "end");
  CHECK(base::FileReader::open(folder / "far")->bytes() == far + 3);
}
