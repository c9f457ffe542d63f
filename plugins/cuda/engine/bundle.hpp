// SPDX-License-Identifier: Apache-2.0
// bundle.hpp: what a library of NVIDIA's made of a text: code of a source, a choice for a product; as it is saved and kept.
//
// Invariant: a bundle is used only for the very text, chip, library and driver it was made for. The whole text is compared,
// so no two fragments are ever taken for each other, and a damaged image is found by its checksum.
#pragma once

#include "folder.hpp"

#include <tenon/result.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace tenon::cuda {

struct Bundle {
  uint32_t sm = 0;
  const char* maker = "";  // the library's name: "NVRTC"
  uint32_t version = 0;    // and its version: 1300
  uint32_t driver = 0;     // the driver's: 13000
  std::array<uint8_t, 32>
      identity{};  // of the fragment it is saved for; zero in the folder, where equal sources meet
  std::string source{};
  std::string image{};

  // A name for it among others, made of everything but the image.
  std::string key() const;
  uint64_t bytes() const noexcept;
  // Writes what fits, and gives the full size. [any-thread; does not block; cannot fail]
  uint64_t write(std::span<std::byte> out) const;
  // Fills `image` from what was written; TN_MISMATCH says what does not agree. [any-thread; does not block; may fail]
  Status read(std::span<const std::byte> saved);

  // The same from and to a folder. [any-thread; may block; cannot fail]
  bool recall(const Folder& folder);
  void remember(const Folder& folder) const;
};

}  // namespace tenon::cuda
