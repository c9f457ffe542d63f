// SPDX-License-Identifier: Apache-2.0
// loader.hpp: the batches of a data set, on the device before they are wanted.
//
//   tenon::Dataset photos{.samples = files.size(),
//                         .tensors = {{"image", {tenon::u8, {256, 256, 3}}}, {"label", {tenon::i32, {}}}},
//                         .read = [&](uint64_t sample, tenon::Dataset::Bytes tensors) -> tenon::Status {…}};
//   auto loader = TN_TRY(tenon::Loader::open(device, std::move(photos), {.batch = 64, .seed = 1}));
//   for (uint64_t step = 0; step < epochs * loader.steps(); ++step) {
//     tenon::Batch batch = TN_TRY(loader.next(stream));  // `stream` waits for it, the host does not
//     TN_TRY(plan.run(stream, batch.bindings()));
//   }                                                    // its memory goes back in the order of `stream`
//
// Workers read samples into pinned memory, a stream of the loader's own copies them, and prepares images there.
// Invariant: what a batch holds follows from data set, options, epoch and step alone. How many workers read, how far they are
// ahead and how many ranks share an epoch change nothing about which samples a step has, or what was drawn for each.
#pragma once

#include <tenon/device.hpp>
#include <tenon/export.hpp>
#include <tenon/plan.hpp>
#include <tenon/timeline.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Samples that are called by number, and how one is read.
struct Dataset {
  // Of one sample: dense, whole bytes to an element.
  struct Tensor {
    std::string name{};
    TensorSpec spec{};
  };
  // Where the tensors of one sample are written to, in the order of `tensors`. Old bytes lie there.
  using Bytes = std::span<const std::span<std::byte>>;
  // Writes all of sample `sample`. A failure, or an exception, is told by Loader::next with the sample's number.
  // [any-thread, several at once; may block; may fail]
  using Read = std::function<Status(uint64_t sample, Bytes tensors)>;

  uint64_t samples = 0;
  std::vector<Tensor> tensors{};
  Read read{};
};

// One tensor of all samples, one after the other.
struct MemoryTensor {
  std::string name{};
  TensorSpec spec{};  // of one sample
  std::vector<std::byte> bytes{};
};

// The data set that these tensors are; it keeps them. TN_INVALID naming the tensor whose bytes are no whole number of
// samples, or another number than the first's. [any-thread; does not block; may fail]
TN_API Result<Dataset> memory_dataset(std::vector<MemoryTensor> tensors);

// How an image's elements lie, from the outermost on.
enum class ImageLayout : uint8_t { chw, hwc };

// What the device makes of a u8 tensor of every sample, in one launch a batch where it can. In this order: a border is put
// around, a part is cut out, it may be mirrored; each number becomes (x · scale − mean) / deviation of its channel; channels
// of zeros are added.
struct ImageOptions {
  std::string tensor = "image";
  ImageLayout from = ImageLayout::chw;  // as a sample has it, and its dims
  // As a batch has it. Its dims are [N, C, H, W] either way; hwc is said by strides.
  ImageLayout to = ImageLayout::chw;
  int64_t border = 0;             // pixels on each side
  uint8_t fill = 0;               // what they hold
  int64_t height = 0, width = 0;  // of what is cut out; 0: the sample's own
  bool random_crop = false;       // from anywhere; else from the middle
  double flip = 0;                // the share of samples that are mirrored
  double scale = 1.0 / 255;
  std::vector<double> mean{}, deviation{};  // by channel, after `scale`; empty: zeros and ones
  int64_t channels = 0;                     // at least; 4 suits devices whose products read four at a time
  DType dtype = f32;                        // or f16, bf16
};

// What becomes of the last samples of an epoch, where ranks · batch does not divide it.
enum class Uneven : uint8_t {
  pad,    // the last step goes on with samples from the epoch's start; every rank has full batches
  fixed,  // they are left out of this epoch
  join    // the last batch is shorter, or empty, on the ranks that there are no samples for
};
// "pad", "fixed" or "join". [any-thread; does not block; cannot fail]
TN_API std::string_view name(Uneven uneven) noexcept;

// Equal on all ranks but for `rank`; what is about threads and memory may differ.
struct LoaderOptions {
  uint64_t batch = 1;  // samples of a step on this rank
  uint32_t rank = 0, ranks = 1;
  Uneven uneven = Uneven::pad;
  bool shuffle = true;                        // anew in each epoch; else in the data set's order
  uint64_t seed = 0;                          // of the order, and of what is drawn for images
  uint32_t depth = 2;                         // batches that are read ahead
  uint32_t workers = 2;                       // threads that call Dataset::read
  Timeout timeout = std::chrono::minutes(5);  // of one `next`
  std::optional<ImageOptions> image{};
  Timeline timeline{};  // measures copies and what prepares images; off by default
};

// What a loader did since it was opened. Times are the host's.
struct LoaderFigures {
  uint64_t batches = 0;  // given out
  // Of them, asked for before they were there; the first after `open` or `seek` is not counted.
  uint64_t late = 0;
  Timeout waited{};    // for those that were late
  Timeout lasted{};    // from the first batch to the latest
  Timeout read{};      // in Dataset::read, all workers together
  uint64_t bytes = 0;  // copied to the device
  // A batch's: 1 where the device prepares images in one fragment, 0 where there is nothing to prepare.
  uint32_t launches = 0;

  // The share of its time that the consumer spent waiting. [any-thread; does not block; cannot fail]
  double waiting() const noexcept {
    return lasted.count() > 0 ? static_cast<double>(waited.count()) / static_cast<double>(lasted.count()) : 0;
  }
  // Whether more workers or a quicker Dataset::read would make training quicker. [any-thread; does not block; cannot fail]
  bool loader_bound() const noexcept { return waiting() > 0.05; }
};

namespace detail {
struct LoaderState;  // core/loader
}

// Samples on the device, for the stream that `next` was called with. Move-only. Dropping it gives its memory back in the order
// of that stream, as a Buffer's. May outlive its loader. [the stream's thread]
class TN_API Batch {
 public:
  // All samples of a tensor: the dims of one behind the number of samples.
  struct Tensor {
    std::string name{};
    TensorSpec spec{};
    tn_span span{};
  };

  Batch() noexcept = default;
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;
  ~Batch();
  explicit operator bool() const noexcept { return loader_ != nullptr; }

  uint64_t epoch() const noexcept { return epoch_; }
  uint64_t step() const noexcept { return step_; }
  // How many samples are of this epoch and not repeated: with Uneven::pad those behind are, with Uneven::join there are none
  // behind, and the tensors are as short. 0 is possible. [the stream's thread; does not block; cannot fail]
  uint64_t samples() const noexcept { return samples_; }
  // In the data set's order. [the stream's thread; does not block; cannot fail]
  std::span<const Tensor> tensors() const noexcept;
  // The same for Plan::run. [the stream's thread; does not block; cannot fail]
  std::span<const Binding> bindings() const noexcept;

  // Declares a use on another stream, up to all that is enqueued there now, once for the stream used last.
  // [the other stream's thread; may block, as record does; may fail]
  Status used_on(Stream& stream);
  // Gives the memory back now. What was enqueued on the stream before may still read it, what is enqueued later may not.
  // [the stream's thread; may block, as record does; may fail]
  Status done();

 private:
  friend class Loader;
  std::shared_ptr<detail::LoaderState> loader_;
  Stream stream_;
  uint32_t slot_ = 0;
  uint64_t epoch_ = 0, step_ = 0, samples_ = 0;
};

// Move-only; one thread at a time.
class TN_API Loader {
 public:
  Loader() noexcept = default;
  Loader(Loader&&) noexcept = default;
  Loader& operator=(Loader&& other) noexcept;
  // Waits for calls of Dataset::read that are under way. [one thread; may block]
  ~Loader();
  explicit operator bool() const noexcept { return state_ != nullptr; }

  // Makes memory for depth + 1 batches and begins to read. TN_INVALID naming the option or tensor that cannot be;
  // TN_UNSUPPORTED with the device's reason when it does not prepare images at all; TN_NO_MEMORY.
  // [any-thread; may block; may fail]
  static Result<Loader> open(Device& device, Dataset dataset, LoaderOptions options = {});

  // The next batch; what is enqueued on `stream` from now on finds it. Steps follow each other, and after an epoch's last
  // comes the next epoch's first. Blocks only while none is ready. TN_TIMEOUT after options.timeout (the batch is still to
  // come); TN_INVALID while all depth + 1 batches are held; the failure of Dataset::read with the sample's number, of the
  // device, or of a stream that a batch was used on: each then stays until `seek`. [one thread, the stream's; may block; may fail]
  Result<Batch> next(Stream& stream);
  // The next batch is that of `step` in `epoch`, as if all before it had been taken. TN_INVALID for a step that an epoch has
  // not; TN_NO_MEMORY. [one thread; blocks for calls of Dataset::read that are under way; may fail]
  Status seek(uint64_t epoch, uint64_t step);

  // Of an epoch, on every rank. [one thread; does not block; cannot fail]
  uint64_t steps() const noexcept;
  // How many samples this rank's batch of `step` of an epoch has, repeated ones too; with Uneven::join the last may be shorter, or have
  // none. [one thread; does not block; cannot fail]
  uint64_t batch(uint64_t step) const noexcept;
  // What next() gives, samples left at their fullest. [one thread; does not block; cannot fail]
  std::span<const Dataset::Tensor> tensors() const noexcept;
  // [one thread; does not block; cannot fail]
  LoaderFigures figures() const;
  // The order, what becomes of the last samples, memory and threads, how images are prepared and in how many launches and
  // why; and the figures. [one thread; does not block; cannot fail]
  std::string explain() const;

 private:
  explicit Loader(std::shared_ptr<detail::LoaderState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<detail::LoaderState> state_;
};

}  // namespace tenon
