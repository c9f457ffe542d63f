// SPDX-License-Identifier: Apache-2.0
// transformer: a small decoder learns a short text letter by letter, and then goes on with it by itself.
//
//   transformer                                        on one rank
//   transformer --steps 600 --set amp=true             longer, in bf16
//   tenon run -n 2 --quiet -- transformer --plot curves.svg
//
// Invariant: the steps of all ranks together have --batch pieces of the text, however many ranks there are.
#include "common/begin.hpp"
#include "common/meter.hpp"
#include "common/options.hpp"
#include "network.hpp"

#include <tenon/tenon.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace {

using namespace tenon;
using transformer::Network;
using transformer::Shape;

constexpr size_t continued = 80;  // letters that it goes on by itself

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  std::string out{std::istreambuf_iterator<char>(file), {}};
  for (char& c : out) c = static_cast<unsigned char>(c) < 128 ? c : '?';
  if (out.size() > 256) return out;
  return Status(TN_INVALID, "'" + path + "' cannot be read, or has too little text");
}

// Sample i: letters i … i + length - 1, and for each the one behind it.
Dataset pieces(std::string text, int64_t length) {
  const uint64_t samples = text.size() - static_cast<size_t>(length);
  const auto read = [text = std::move(text), length](uint64_t sample, Dataset::Bytes tensors) -> Status {
    for (int64_t i = 0; i < length; ++i) {
      for (size_t k = 0; k < 2; ++k) {
        const int32_t letter =
            static_cast<unsigned char>(text[static_cast<size_t>(sample) + static_cast<size_t>(i) + k]);
        std::memcpy(tensors[k].data() + static_cast<size_t>(i) * sizeof letter, &letter, sizeof letter);
      }
    }
    return {};
  };
  return {
      .samples = samples, .tensors = {{"tokens", {i32, {length}}}, {"next", {i32, {length}}}}, .read = read};
}

class Training {
 public:
  Training(sample::Options options, Rendezvous here)
      : o_(std::move(options)),
        here_(std::move(here)),
        shape_({.batch = static_cast<int64_t>(o_.batch / here_.size)}),
        meter_("letters", shape_.batch * shape_.length, o_.steps, here_.rank == 0) {}

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
    const std::string text = TN_TRY(read_text(TEXT_FILE));
    Loader loader = TN_TRY(Loader::open(
        device, pieces(text, shape_.length),
        {.batch = static_cast<uint64_t>(shape_.batch), .rank = here_.rank, .ranks = here_.size, .seed = 1}));
    Executor executor = TN_TRY(sample::begin(step, device, o_.strategy, comm));
    sample::introduce(o_.strategy, here_, device, executor);
    for (uint64_t i = 1; i <= o_.steps; ++i) TN_TRY(train(loader, executor));
    const std::string start = text.substr(0, static_cast<size_t>(shape_.length));
    const std::string more =
        TN_TRY(go_on(device, executor, start));  // on all ranks: each may have a part of the weights
    if (here_.rank != 0) return {};
    std::printf("%s|%s\n", start.c_str(), more.c_str());
    return o_.plot.empty() ? Status() : meter_.write(o_.plot);
  }

 private:
  Result<TrainingGraph> training_step() const {
    TrainingOptions options = o_.strategy.training();
    options.optimizer = {.op = Op::adam, .rate = o_.rate};
    options.clip_norm = 1;
    options.ranks = here_.size;
    const Network network(shape_, true);
    return training_graph(network.graph(), "loss", options);
  }

  Status train(Loader& loader, Executor& executor) {
    meter_.begin();
    const Batch batch = TN_TRY(loader.next(executor.stream()));
    float loss = 0;
    std::vector<float> scores;
    std::vector<Binding> fetches{fetched("loss", loss)};
    if (meter_.tells_next()) {
      scores.resize(static_cast<size_t>(shape_.batch * shape_.length * shape_.words));
      fetches.push_back(fetched("scores.now", scores));
    }
    const bool is_told = TN_TRY(executor.run(batch.bindings(), fetches));
    meter_.end(is_told, loss);
    if (!is_told || scores.empty()) return {};
    std::vector<int32_t> next(static_cast<size_t>(shape_.batch * shape_.length));
    TN_TRY(executor.stream().download(next, batch.tensors()[1].span));
    TN_TRY(executor.sync());
    meter_.tell(here_.rank, scores, next);
    return {};
  }

  // The likeliest letter after `text`, again and again.
  Result<std::string> go_on(Device& device, Executor& executor, std::string text) {
    Shape one = shape_;
    one.batch = 1;
    const Network network(one, false);
    const Plan forward = TN_TRY(plan(network.graph(), device));
    Stream stream = TN_TRY(device.stream());
    std::vector<Buffer> weights;
    std::vector<Binding> bindings;
    for (const Graph::ValueInfo& info : network.graph().values()) {
      if (info.role != Graph::Role::param) continue;
      weights.push_back(TN_TRY(device.allocate(stream, info.spec.bytes())));
      TN_TRY(stream.upload(weights.back(), TN_TRY(executor.get(info.name))));
      bindings.push_back({info.name, weights.back()});
    }
    const auto length = static_cast<size_t>(one.length), words = static_cast<size_t>(one.words);
    std::vector<int32_t> tokens(length);
    std::vector<float> scores(length * words);
    const Buffer in = TN_TRY(device.allocate(stream, length * sizeof(int32_t)))
    , out = TN_TRY(device.allocate(stream, scores.size() * sizeof(float)));
    bindings.insert(bindings.end(), {{"tokens", in}, {"scores.now", out}});
    for (size_t i = 0; i < continued; ++i) {
      std::copy(text.end() - static_cast<std::ptrdiff_t>(length), text.end(), tokens.begin());
      TN_TRY(stream.upload(in, tokens));
      TN_TRY(forward.run(stream, bindings));
      TN_TRY(stream.download(scores, out));
      TN_TRY(stream.sync());
      const auto last = scores.end() - static_cast<std::ptrdiff_t>(words);
      const auto letter = static_cast<char>(std::max_element(last, scores.end()) - last);
      text.push_back(letter == '\n' || letter >= ' ' ? letter : '?');
    }
    return text.substr(text.size() - continued);
  }

  sample::Options o_;
  Rendezvous here_;
  Shape shape_;
  sample::Meter meter_;
};

Status run(int argc, char** argv) {
  sample::Options options{.batch = 16, .rate = 3e-3};
  TN_TRY(sample::read_options(options, argc, argv, "transformer"));
  auto here = Rendezvous::from_environment();
  if (!here.ok() && here.code() != TN_NOT_FOUND) return std::move(here).failure();
  return Training(options, here.ok() ? *here : Rendezvous{}).run();  // without a launcher: one rank
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "transformer: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
