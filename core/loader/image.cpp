// SPDX-License-Identifier: Apache-2.0
// image.cpp: see image.hpp.
#include "loader/image.hpp"

#include "base/text.hpp"
#include "loader/philox.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tenon::loader {
namespace {

Status bad_image(const std::string& text) { return Status(TN_INVALID, "loader: image: " + text); }

std::string by(int64_t height, int64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}

Result<size_t> find(const Dataset& dataset, const std::string& name) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < dataset.tensors.size(); ++i) {
    names.push_back(dataset.tensors[i].name);
    if (names.back() == name) return i;
  }
  return bad_image("samples have no tensor called " + base::quoted(name) + base::did_you_mean(name, names));
}

Status check_list(const char* option, const std::vector<double>& numbers, int64_t channels) {
  if (!numbers.empty() && static_cast<int64_t>(numbers.size()) != channels)
    return bad_image(std::string(option) + " has " + base::counted(numbers.size(), "number") +
                     ", and an image has " + base::counted(static_cast<uint64_t>(channels), "channel"));
  if (std::ranges::all_of(numbers, [](double x) { return std::isfinite(x); })) return {};
  return bad_image(std::string(option) + " has a number that is not finite");
}

}  // namespace

Result<Image> Image::make(const Dataset& dataset, const LoaderOptions& options) {
  const size_t index = TN_TRY(find(dataset, options.image->tensor));
  const Dataset::Tensor& tensor = dataset.tensors[index];
  if (tensor.spec.dtype != u8 || tensor.spec.dims.size() != 3)
    return bad_image("tensor " + base::quoted(tensor.name) + " is " + std::string(name(tensor.spec.dtype)) +
                     " with " + base::counted(tensor.spec.dims.size(), "dim") + "; an image is u8 with 3");
  Image out(tensor, index, options);
  TN_TRY(out.check(tensor));
  TN_TRY(out.build());
  return out;
}

Image::Image(const Dataset::Tensor& tensor, size_t index, const LoaderOptions& options)
    : graph_("prepare"),
      options_(*options.image),
      tensor_(index),
      batch_(options.batch),
      seed_(options.seed) {
  const std::vector<int64_t>& dims = tensor.spec.dims;
  const bool hwc = options_.from == ImageLayout::hwc;
  channels_ = dims[hwc ? 2 : 0];
  from_height_ = dims[hwc ? 0 : 1];
  from_width_ = dims[hwc ? 1 : 2];
  height_ = options_.height != 0 ? options_.height : from_height_;
  width_ = options_.width != 0 ? options_.width : from_width_;
  gathers_ = options_.border != 0 || options_.flip > 0 || height_ != from_height_ || width_ != from_width_;
  pixels_ = batch_ * tensor.spec.elements();
  entry_ = hwc ? static_cast<uint64_t>(channels_) : 1;
  outside_ = pixels_ == 0 ? 0 : static_cast<int64_t>(pixels_ / entry_);
}

Status Image::check(const Dataset::Tensor& tensor) const {
  if (pixels_ == 0) return bad_image("tensor " + base::quoted(tensor.name) + " has no pixels");
  if (options_.border < 0 || options_.border > (1 << 20))
    return bad_image("border is " + std::to_string(options_.border) + "; 0 to 2^20 pixels will do");
  const int64_t tall = from_height_ + 2 * options_.border, wide = from_width_ + 2 * options_.border;
  if (height_ < 1 || width_ < 1 || height_ > tall || width_ > wide)
    return bad_image("what is cut out is " + by(height_, width_) + ", and the image with its border " +
                     by(tall, wide));
  if (!(options_.flip >= 0 && options_.flip <= 1))
    return bad_image("flip is " + std::to_string(options_.flip) + "; a share is from 0 to 1");
  if (!std::isfinite(options_.scale)) return bad_image("scale is not finite");
  TN_TRY(check_list("mean", options_.mean, channels_));
  TN_TRY(check_list("deviation", options_.deviation, channels_));
  if (std::ranges::find(options_.deviation, 0.0) != options_.deviation.end())
    return bad_image("a deviation is 0, by which numbers are divided");
  if (options_.dtype != f32 && options_.dtype != f16 && options_.dtype != bf16)
    return bad_image("dtype is " + std::string(name(options_.dtype)) + "; f32, f16 or bf16 will do");
  if (options_.channels < 0 || options_.channels > (1 << 20))
    return bad_image("channels is " + std::to_string(options_.channels) + "; 0 to 2^20 will do");
  // Three such numbers are added in 32 bits.
  if (gathers_ && pixels_ > (uint64_t{1} << 31) / 4)
    return bad_image("a batch has " + base::bytes_in_words(pixels_) +
                     " of pixels, and 512 MiB is the most that can be cut from: take a smaller batch");
  return {};
}

Status Image::build() {
  const auto x = laid_out(normalised(gathers_ ? gathered() : whole()));
  graph_.output("image", x);
  TN_TRY(graph_.check());
  const int64_t channels = std::max(channels_, options_.channels), n = static_cast<int64_t>(batch_);
  output_ = {options_.dtype, {n, channels, height_, width_}};
  if (options_.to == ImageLayout::hwc)
    output_.strides = {height_ * width_ * channels, 1, width_ * channels, channels};
  return {};
}

GraphValue Image::whole() {
  const int64_t n = static_cast<int64_t>(batch_);
  const bool hwc = options_.from == ImageLayout::hwc;
  const std::vector<int64_t> dims =
      hwc ? std::vector{n, height_, width_, channels_} : std::vector{n, channels_, height_, width_};
  return graph_.cast(graph_.input("pixels", {u8, dims}), f32);
}

GraphValue Image::gathered() {
  const int64_t n = static_cast<int64_t>(batch_), entry = static_cast<int64_t>(entry_);
  const bool hwc = options_.from == ImageLayout::hwc;
  const auto pixels = graph_.input("pixels", {u8, {outside_ + 1, entry}});
  const auto numbers = graph_.named(table).cast(pixels, f32);
  const auto outside = graph_.constant({i32, {}}, static_cast<double>(outside_));
  if (hwc) {
    const auto rows = graph_.input("rows", {i32, {n, height_, 1}});
    const auto columns = graph_.input("columns", {i32, {n, 1, width_}});
    return graph_.embedding(graph_.min(graph_.add(rows, columns), outside), numbers);
  }
  std::vector<int32_t> planes(static_cast<size_t>(channels_));
  for (size_t c = 0; c < planes.size(); ++c)
    planes[c] = static_cast<int32_t>(c) * static_cast<int32_t>(from_height_ * from_width_);
  const auto rows = graph_.input("rows", {i32, {n, 1, height_, 1}});
  const auto columns = graph_.input("columns", {i32, {n, 1, 1, width_}});
  const auto plane = graph_.constant("planes", {i32, {channels_, 1, 1}}, bytes_of(planes));
  const auto at = graph_.min(graph_.add(graph_.add(rows, plane), columns), outside);
  return graph_.reshape(graph_.embedding(at, numbers), {n, channels_, height_, width_});
}

// x · (scale / deviation) − mean / deviation, in f32, then the type of the result.
GraphValue Image::normalised(GraphValue x) {
  std::vector<float> factors, offsets;
  for (size_t c = 0; c < static_cast<size_t>(channels_); ++c) {
    const double deviation = options_.deviation.empty() ? 1 : options_.deviation[c];
    factors.push_back(static_cast<float>(options_.scale / deviation));
    offsets.push_back(static_cast<float>(options_.mean.empty() ? 0 : -options_.mean[c] / deviation));
  }
  const bool hwc = options_.from == ImageLayout::hwc;
  const TensorSpec spec{f32, hwc ? std::vector{channels_} : std::vector<int64_t>{channels_, 1, 1}};
  const auto factor = graph_.constant("factors", spec, bytes_of(factors));
  const auto offset = graph_.constant("offsets", spec, bytes_of(offsets));
  const auto y = graph_.fma(x, factor, offset);
  return options_.dtype == f32 ? y : graph_.cast(y, options_.dtype);
}

GraphValue Image::laid_out(GraphValue x) {
  const bool hwc = options_.to == ImageLayout::hwc;
  if (options_.from != options_.to)
    x = graph_.transpose(x, hwc ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 3, 1, 2});
  const int64_t more = options_.channels - channels_;
  if (more <= 0) return x;
  return hwc ? graph_.pad(x, {0, 0, 0, 0}, {0, 0, 0, more}) : graph_.pad(x, {0, 0, 0, 0}, {0, more, 0, 0});
}

// out[i] stands for position first + i of an extent, or for i from the end.
void Image::index(std::span<int32_t> out, int64_t base, int64_t step, int64_t first, int64_t extent,
                  bool backwards) const noexcept {
  const int64_t count = static_cast<int64_t>(out.size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + (backwards ? count - 1 - i : i);
    out[static_cast<size_t>(i)] = static_cast<int32_t>(at < 0 || at >= extent ? outside_ : base + at * step);
  }
}

void Image::prepare(const Inputs& inputs) const noexcept {
  std::memset(inputs.pixels, 0, pixel_bytes());
  if (!gathers_) return;
  std::memset(inputs.pixels + pixels_, options_.fill, entry_);
  std::fill_n(inputs.rows, batch_ * static_cast<uint64_t>(height_), static_cast<int32_t>(outside_));
  std::fill_n(inputs.columns, batch_ * static_cast<uint64_t>(width_), static_cast<int32_t>(outside_));
}

void Image::draw(const Inputs& inputs, uint64_t place, uint64_t sample, uint64_t epoch) const noexcept {
  if (!gathers_) return;
  const Draws draws = philox(key_of(seed_, Purpose::image), sample, epoch);
  const int64_t slack_y = from_height_ + 2 * options_.border - height_,
                slack_x = from_width_ + 2 * options_.border - width_;
  const auto offset = [&](int64_t slack, uint32_t draw) -> int64_t {
    return (options_.random_crop ? int64_t{below(static_cast<uint32_t>(slack + 1), draw)} : slack / 2) -
           options_.border;
  };
  const bool mirrored = static_cast<double>(draws[2]) < std::ldexp(options_.flip, 32);
  const auto height = static_cast<uint64_t>(height_), width = static_cast<uint64_t>(width_);
  const int64_t first = static_cast<int64_t>(place * (pixels_ / batch_ / entry_));
  index({inputs.rows + place * height, height}, first, from_width_, offset(slack_y, draws[0]), from_height_,
        false);
  index({inputs.columns + place * width, width}, 0, 1, offset(slack_x, draws[1]), from_width_, mirrored);
}

std::string Image::words() const {
  const auto word = [](ImageLayout layout) { return layout == ImageLayout::hwc ? "NHWC" : "NCHW"; };
  std::string out;
  if (gathers_)
    out = by(height_, width_) + (options_.random_crop ? " from anywhere in " : " from the middle of ") +
          by(from_height_ + 2 * options_.border, from_width_ + 2 * options_.border) + ", ";
  if (options_.flip > 0) {
    char share[48];
    std::snprintf(share, sizeof share, "%.3g of them mirrored, ", options_.flip);
    out += share;
  }
  out += "normalised, " + std::string(word(options_.from));
  if (options_.to != options_.from) out += std::string(" to ") + word(options_.to);
  if (options_.channels > channels_)
    out += ", " + std::to_string(channels_) + " to " +
           base::counted(static_cast<uint64_t>(options_.channels), "channel");
  return out + ", " + std::string(name(options_.dtype));
}

}  // namespace tenon::loader
