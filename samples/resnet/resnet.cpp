// SPDX-License-Identifier: Apache-2.0
// resnet: a residual network is trained, and says what was made of it: options, subgraphs, updates, all-reduces, then steps.
//
//   resnet                                                        20 layers learn the digits, on one rank
//   resnet --depth 50 --data synthetic --batch 16 --steps 5       50 layers, random images of 224 x 224
//   tenon run -n 2 --quiet -- resnet --set amp=true --plot curves.svg
//
// Invariant: the steps of all ranks together have --batch samples, however many ranks there are.
#include "common/begin.hpp"
#include "common/meter.hpp"
#include "common/options.hpp"
#include "digits/digits.hpp"
#include "network.hpp"

#include <tenon/tenon.hpp>

#include <cstdio>
#include <cstring>

namespace {

using namespace tenon;

constexpr const char* usage = "resnet [--depth 20|50] [--data digits|synthetic]";

struct Options : sample::Options {
  int depth = 20;
  bool synthetic = false;  // random images; else the digits
};

Result<Options> read_options(int argc, char** argv) {
  Options out;
  const auto own = [&](const std::string& word, const std::string& value) -> Result<bool> {
    if (word == "--depth" && (value == "20" || value == "50")) {
      out.depth = std::stoi(value);
    } else if (word == "--data" && (value == "digits" || value == "synthetic")) {
      out.synthetic = value == "synthetic";
    } else if (word == "--depth" || word == "--data") {
      return Status(TN_INVALID, "'" + value + "' is no value of " + word);
    } else {
      return false;
    }
    return true;
  };
  TN_TRY(sample::read_options(out, argc, argv, usage, own));
  if (out.depth == 50 && !out.synthetic)
    return Status(TN_INVALID, "--depth 50 is for images of 224 x 224: add --data synthetic");
  return out;
}

// Random images, which are as quick to make as to read.
Dataset synthetic_images(int64_t channels, int64_t size, int64_t classes) {
  const auto read = [classes](uint64_t sample, Dataset::Bytes tensors) -> Status {
    uint64_t bits = sample * 0x9e3779b97f4a7c15 + 1;
    for (std::byte& pixel : tensors[0]) {
      bits ^= bits << 13;
      bits ^= bits >> 7;
      bits ^= bits << 17;
      pixel = static_cast<std::byte>(bits);
    }
    const auto label = static_cast<int32_t>(sample % static_cast<uint64_t>(classes));
    std::memcpy(tensors[1].data(), &label, sizeof label);
    return {};
  };
  return {.samples = 4096,
          .tensors = {{"image", {u8, {channels, size, size}}}, {"label", {i32, {}}}},
          .read = read};
}

class Training {
 public:
  Training(Options options, Rendezvous here)
      : o_(std::move(options)),
        here_(std::move(here)),
        shape_(shape_of(o_, here_.size)),
        meter_("images", shape_.batch, o_.steps, here_.rank == 0) {}

  Status run() {
    if (o_.batch % here_.size != 0)
      return {TN_INVALID,
              std::to_string(here_.size) + " ranks do not share a batch of " + std::to_string(o_.batch)};
    const TrainingGraph step = TN_TRY(training_step());
    TN_TRY(sample::choose(o_.strategy, step, here_));
    Runtime runtime = TN_TRY(Runtime::open({.options = o_.strategy.runtime()}));
    Device device = TN_TRY(runtime.device("cpu"));
    Communicator comm;
    if (here_.size > 1) comm = TN_TRY(Communicator::create(device, here_.store, here_.rank, here_.size));
    Loader loader = TN_TRY(open_loader(device));
    Executor executor = TN_TRY(sample::begin(step, device, o_.strategy, comm));
    sample::introduce(o_.strategy, here_, device, executor);
    for (uint64_t i = 1; i <= o_.steps; ++i) TN_TRY(train(loader, executor));
    if (here_.rank != 0 || o_.plot.empty()) return {};
    return meter_.write(o_.plot);
  }

 private:
  static resnet::Shape shape_of(const Options& options, uint32_t ranks) {
    return {.depth = options.depth,
            .batch = static_cast<int64_t>(options.batch / ranks),
            .channels = options.synthetic ? 3 : 1,
            .size = options.depth == 50 ? 224
                    : options.synthetic ? 32
                                        : 8,
            .classes = options.depth == 50 ? 1000 : 10};
  }

  Result<Loader> open_loader(Device& device) {
    ImageOptions image{.scale = o_.synthetic ? 1.0 / 255 : 1.0 / digits::greatest};
    if (!o_.synthetic) image.border = 1;
    image.random_crop = !o_.synthetic;
    Dataset data = synthetic_images(shape_.channels, shape_.size, shape_.classes);
    if (!o_.synthetic) data = TN_TRY(digits::read(DIGITS_FILE, digits::Part::learned));
    return Loader::open(device, std::move(data),
                        {.batch = static_cast<uint64_t>(shape_.batch),
                         .rank = here_.rank,
                         .ranks = here_.size,
                         .seed = 1,
                         .image = image});
  }

  Result<TrainingGraph> training_step() const {
    const resnet::Network network(shape_);
    TrainingOptions options = o_.strategy.training();
    options.optimizer = {.op = Op::momentum,
                         .rate = o_.rate,
                         .attributes = {{"weight_decay", 1e-4}},
                         .no_decay = {"*.scale", "*.bias", "fc.b"}};
    options.renewed = network.renewed();
    options.ranks = here_.size;
    return training_graph(network.graph(), "loss", options);
  }

  Status train(Loader& loader, Executor& executor) {
    meter_.begin();
    const Batch batch = TN_TRY(loader.next(executor.stream()));
    float loss = 0;
    std::vector<float> scores;
    std::vector<Binding> fetches{fetched("loss", loss)};
    if (meter_.tells_next()) {
      scores.resize(static_cast<size_t>(shape_.batch * shape_.classes));
      fetches.push_back(fetched("scores", scores));
    }
    const bool is_told = TN_TRY(executor.run(batch.bindings(), fetches));
    meter_.end(is_told, loss);
    if (!is_told || scores.empty()) return {};
    std::vector<int32_t> labels(static_cast<size_t>(shape_.batch));
    TN_TRY(executor.stream().download(labels, batch.tensors()[1].span));
    TN_TRY(executor.sync());
    meter_.tell(here_.rank, scores, labels);
    return {};
  }

  Options o_;
  Rendezvous here_;
  resnet::Shape shape_;
  sample::Meter meter_;
};

Status run(int argc, char** argv) {
  const Options options = TN_TRY(read_options(argc, argv));
  auto here = Rendezvous::from_environment();
  if (!here.ok() && here.code() != TN_NOT_FOUND) return std::move(here).failure();
  return Training(options, here.ok() ? *here : Rendezvous{}).run();  // without a launcher: one rank
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "resnet: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
