// SPDX-License-Identifier: Apache-2.0
// The digits of samples/data: as README.md there says, and on the device as they are in the file.
#include "samples/data/digits/digits.hpp"
#include "integration/loader/world.hpp"
#include "support/temp_folder.hpp"

#include <array>
#include <cstdlib>

using namespace tenon;
using namespace tenon::test;

namespace {

std::string file() {
  const char* path = std::getenv("TENON_TEST_DIGITS");
  return path != nullptr ? path : "samples/data/digits/digits.txt";
}

}  // namespace

TEST_CASE("digits: there are 1,797, of each about as many, with numbers from 0 to 16") {
  const Dataset data = must(digits::read(file()));
  CHECK(data.samples == digits::all);
  std::array<int, 10> labels{};
  std::array<int, 17> numbers{};
  for (uint64_t i = 0; i < data.samples; ++i) {
    std::array<std::byte, 64> image{};
    int32_t label = -1;
    const std::span<std::byte> to[] = {image, std::as_writable_bytes(std::span(&label, 1))};
    must(data.read(i, to));
    ++labels.at(static_cast<size_t>(label));
    for (const std::byte one : image) ++numbers.at(static_cast<size_t>(one));
  }
  CHECK(labels == std::array<int, 10>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  CHECK(*std::min_element(numbers.begin(), numbers.end()) > 0);
}

TEST_CASE("digits: an epoch on four ranks has each image once, as bright as the file says") {
  World w;
  double sum = 0, expected = 0;
  std::array<int, 10> labels{};
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const LoaderOptions options{.batch = 16,
                                .rank = rank,
                                .ranks = 4,
                                .uneven = Uneven::join,
                                .seed = 1,
                                .image = ImageOptions{.scale = 1.0 / digits::greatest}};
    Loader loader = must(Loader::open(w.device, must(digits::read(file())), options));
    for (uint64_t step = 0; step < loader.steps(); ++step) {
      const Batch batch = must(loader.next(w.stream));
      for (const float x : download<float>(w.stream, batch.tensors()[0].span)) sum += static_cast<double>(x);
      for (const int32_t label : download<int32_t>(w.stream, batch.tensors()[1].span))
        ++labels.at(static_cast<size_t>(label));
    }
  }
  std::ifstream text(file());
  for (std::string line; std::getline(text, line);) {
    for (size_t i = 0; i < 64; ++i) expected += digits::detail::number(line[i]) / 16.0;
  }
  CHECK(sum == expected);  // sixteenths are exact
  CHECK(labels == std::array<int, 10>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
}

TEST_CASE("digits: a part can be read, and a file that is none is refused with its line") {
  CHECK(must(digits::read(file(), digits::Part::learned)).samples == digits::count(digits::Part::learned));
  CHECK(must(digits::read(file(), digits::Part::tested)).samples == 359);
  const TempFolder folder;
  const auto says = [&](const std::string& text, const char* words) {
    const auto read = digits::read(folder.write("digits.txt", text));
    CHECK(read.code() == TN_INVALID);
    CHECK_HAS(std::string(read.message()), words);
  };
  const std::string zeros(64, '0');
  says(zeros + " 1\n", "line 2: the file ends before it");
  says(zeros + " 1\n012 3\n", "line 2: it has 5 characters instead of 66");
  says("h" + zeros.substr(1) + " 1\n", "line 1: character 1 is none of 0-9 and a-g");
  says(zeros + " x\n", "line 1: it does not end in a space and a label");
  CHECK(digits::read(folder / "none.txt").code() == TN_NOT_FOUND);
}
