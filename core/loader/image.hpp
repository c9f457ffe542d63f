// SPDX-License-Identifier: Apache-2.0
// image.hpp: what the device makes of images, as a graph, and what the host draws for each of them.
//
// Where something is cut out or mirrored, the pixels of a batch are a table, and what stands at row y and column x of a
// sample's result is entry rows[y] + columns[x] of it: the host writes only these few numbers, and a mirrored image is one whose
// columns are counted backwards. Behind the last pixel stands one more, the fill, where all sums of a row or column outside the
// image end.
// Invariant: what is drawn for a sample follows from seed, epoch and sample.
#pragma once

#include <tenon/graph.hpp>
#include <tenon/loader.hpp>

#include <span>

namespace tenon::loader {

class Image {
 public:
  // Of a batch. TN_INVALID naming the option or tensor that cannot be, and its values.
  // [any-thread; does not block; may fail]
  static Result<Image> make(const Dataset& dataset, const LoaderOptions& options);

  // The value that pixels are looked up in, where they are.
  static constexpr const char* table = "table";
  // Its inputs are "pixels" (u8) and, where it gathers, "rows" and "columns" (i32), in this order; its output is "image".
  const Graph& graph() const noexcept { return graph_; }
  // Where the tensor stands in the data set. [any-thread; does not block; cannot fail]
  size_t tensor() const noexcept { return tensor_; }
  bool gathers() const noexcept { return gathers_; }
  // What a batch has instead of the tensor. [any-thread; does not block; cannot fail]
  const TensorSpec& output() const noexcept { return output_; }
  // Bytes of the pixels, the fill included, of the rows and of the columns of a batch. [any-thread; does not block]
  uint64_t pixel_bytes() const noexcept { return pixels_ + (gathers_ ? entry_ : 0); }
  uint64_t row_bytes() const noexcept { return gathers_ ? batch_ * uint64_t(height_) * sizeof(int32_t) : 0; }
  uint64_t column_bytes() const noexcept {
    return gathers_ ? batch_ * uint64_t(width_) * sizeof(int32_t) : 0;
  }

  // The inputs of one batch, on the host.
  struct Inputs {
    std::byte* pixels = nullptr;
    int32_t* rows = nullptr;
    int32_t* columns = nullptr;
  };
  // Writes the fill, and rows and columns for samples that are never read. Once. [one thread; does not block; cannot fail]
  void prepare(const Inputs& inputs) const noexcept;
  // Writes rows and columns of the sample at `place`. [any-thread; does not block; cannot fail]
  void draw(const Inputs& inputs, uint64_t place, uint64_t sample, uint64_t epoch) const noexcept;

  // "crop 32 x 32 anywhere in 40 x 40, flip 0.5, …", for people. [any-thread; does not block; cannot fail]
  std::string words() const;

 private:
  Image(const Dataset::Tensor& tensor, size_t index, const LoaderOptions& options);
  Status check(const Dataset::Tensor& tensor) const;
  Status build();
  GraphValue gathered();
  GraphValue whole();
  GraphValue normalised(GraphValue x);
  GraphValue laid_out(GraphValue x);
  void index(std::span<int32_t> out, int64_t base, int64_t step, int64_t first, int64_t extent,
             bool backwards) const noexcept;

  Graph graph_;
  ImageOptions options_;
  size_t tensor_ = 0;
  uint64_t batch_ = 0, seed_ = 0;
  int64_t channels_ = 0, from_height_ = 0, from_width_ = 0, height_ = 0, width_ = 0;
  bool gathers_ = false;
  uint64_t pixels_ = 0;  // of a batch, in bytes
  uint64_t entry_ = 0;   // of the table, in bytes: a pixel of hwc, one number of chw
  int64_t outside_ = 0;  // the table's last entry
  TensorSpec output_{};
};

}  // namespace tenon::loader
