// SPDX-License-Identifier: Apache-2.0
// bench_train_rank: one rank of ours, asked as peer.hpp says:
//   bench_train_rank MODEL BATCH THREADS [device=NAME] [timeline=FILE] [check=apart] [NAME=VALUE…]
//
// "prepare" opens the executor and is answered with the number of its trained parameters; "step" takes as many steps as there are from
// one fetch to the next and is answered with the nanoseconds of one and the last one's loss. `check=apart` looks at each gradient by
// itself. With `timeline` every launch of all steps is in FILE at the end, for `tenon trace`.
// Invariant: every step has the same batch, which comes from the host; of other devices than the CPU it is there already.
#include "apart.hpp"

#include "digits/network.hpp"
#include "resnet/network.hpp"
#include "transformer/network.hpp"

#include <tenon/tenon.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace tenon;

struct Settings {
  std::string model, threads, device = "cpu", timeline;
  bool checks_apart = false;
  int64_t batch = 0;
  Strategy strategy{};
};

// Decoders of this shape have 11 million parameters.
transformer::Shape decoder(int64_t batch) {
  return {.batch = batch, .length = 256, .width = 384, .heads = 6, .layers = 6, .words = 256};
}

uint32_t random_bits(uint32_t& state) {
  state = state * 1664525 + 1013904223;
  return state >> 8;
}

std::vector<float> random_numbers(int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& x : out) x = static_cast<float>(random_bits(state)) * 0x1p-23f - 1;
  return out;
}

std::vector<int32_t> random_words(int64_t count, uint32_t words, uint32_t seed) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (int32_t& x : out) x = static_cast<int32_t>(random_bits(seed) % words);
  return out;
}

class Rank {
 public:
  explicit Rank(Settings settings) : s_(std::move(settings)) {}

  Result<uint64_t> prepare() {
    // What another day found is not measured.
    RuntimeOptions options{.use_environment = false,
                           .use_install_path = false,
                           .probe = Probe::off,
                           .options = {{"cpu.threads", s_.threads}, {"cpu.cache", "off"}}};
    const char* folder = std::getenv("TENON_BENCH_PLUGIN_DIR");
    options.search_path.push_back(folder != nullptr ? folder : BENCH_PLUGIN_DIR);
    add_options_of_strategy(options);
    auto here = Rendezvous::from_environment();
    if (!here.ok() && here.code() != TN_NOT_FOUND) return std::move(here).failure();
    TrainingGraph step = TN_TRY(training(here.ok() ? here->size : 1));
    if (s_.checks_apart) step.graph = TN_TRY(bench::checked_apart(step.graph));
    if (s_.strategy.auto_tune) {
      const Rendezvous job = here.ok() ? *here : Rendezvous{};
      const TuneOptions tuning{.runtime = options, .device = s_.device, .here = job, .batch = inputs_};
      s_.strategy = TN_TRY(tune(step, s_.strategy, tuning))
      .strategy;
      add_options_of_strategy(options);
    }
    runtime_.emplace(TN_TRY(Runtime::open(std::move(options))));
    device_.emplace(TN_TRY(runtime_->device(s_.device)));
    Communicator comm;
    if (here.ok()) comm = TN_TRY(Communicator::create(*device_, here->store, here->rank, here->size));
    if (!s_.timeline.empty()) timeline_ = TN_TRY(Timeline::create(*device_));
    executor_.emplace(TN_TRY(Executor::open(step, *device_, s_.strategy, comm, {.timeline = timeline_})));
    TN_TRY(executor_->initialize(1));
    TN_TRY(executor_->share());
    if (s_.device != "cpu") TN_TRY(bring_batch());
    uint64_t parameters = 0;
    for (const Graph::ValueInfo& value : step.graph.values()) {
      for (const std::string& trained : step.trained)
        if (trained == value.name) parameters += value.spec.elements();
    }
    return parameters;
  }

  // They win over those of this program.
  void add_options_of_strategy(RuntimeOptions& options) const {
    for (const auto& [name, value] : s_.strategy.runtime()) options.options[name] = value;
  }

  // Puts what comes from the host onto the device, once.
  Status bring_batch() {
    for (Binding& input : inputs_) {
      const Buffer& here =
          batch_.emplace_back(TN_TRY(device_->allocate(executor_->stream(), input.span.bytes)));
      TN_TRY(executor_->stream().copy(here, input.span));
      input.span = here;
    }
    return executor_->stream().sync();
  }

  // No step comes any more.
  Status end() { return s_.timeline.empty() ? Status() : timeline_.write(s_.timeline); }

  // The loss of the last one.
  Result<float> steps() {
    float loss = 0;
    const Binding fetch = fetched("loss", loss);
    for (uint32_t i = 0; i < s_.strategy.fetch_every; ++i) TN_TRY(executor_->run(inputs_, {&fetch, 1}));
    return loss;
  }
  uint32_t steps_of_an_answer() const { return s_.strategy.fetch_every; }

 private:
  Result<TrainingGraph> training(uint32_t ranks) {
    TrainingOptions options = s_.strategy.training();
    options.ranks = ranks;
    if (s_.model == "resnet50") return residual(50, 224, 1000, std::move(options));
    if (s_.model == "resnet20") return residual(20, 32, 10, std::move(options));
    if (s_.model == "transformer") return decoding(std::move(options));
    if (s_.model == "digits") return digits(std::move(options));
    return Status(TN_NOT_FOUND, "there is no model '" + s_.model + "'");
  }

  Result<TrainingGraph> residual(int depth, int64_t size, int64_t classes, TrainingOptions options) {
    const resnet::Network network(
        {.depth = depth, .batch = s_.batch, .channels = 3, .size = size, .classes = classes});
    options.optimizer = {
        .op = Op::momentum, .rate = 0.01, .attributes = {{"momentum", 0.9}, {"weight_decay", 1e-4}}};
    options.renewed = network.renewed();
    images_ = random_numbers(s_.batch * 3 * size * size);
    first_ = random_words(s_.batch, static_cast<uint32_t>(classes), 7);
    inputs_ = {fed("image", images_), fed("label", first_)};
    return training_graph(network.graph(), "loss", options);
  }

  Result<TrainingGraph> decoding(TrainingOptions options) {
    const transformer::Shape shape = decoder(s_.batch);
    const transformer::Network network(shape, true);
    options.optimizer = {.op = Op::adam, .rate = 3e-4};
    first_ = random_words(shape.batch * shape.length, static_cast<uint32_t>(shape.words), 7);
    second_ = random_words(shape.batch * shape.length, static_cast<uint32_t>(shape.words), 8);
    inputs_ = {fed("tokens", first_), fed("next", second_)};
    return training_graph(network.graph(), "loss", options);
  }

  Result<TrainingGraph> digits(TrainingOptions options) {
    const ::digits::Network network(s_.batch, true);
    options.optimizer = {.op = Op::adam, .rate = 3e-3};
    images_ = random_numbers(s_.batch * 8 * 8);
    first_ = random_words(s_.batch, 10, 7);
    inputs_ = {fed("image", images_), fed("label", first_)};
    return training_graph(network.graph(), "loss", options);
  }

  Settings s_;
  std::vector<float> images_{};
  std::vector<int32_t> first_{}, second_{};
  std::vector<Binding> inputs_{};
  std::optional<Runtime> runtime_{};
  std::optional<Device> device_{};
  Timeline timeline_{};
  std::optional<Executor> executor_{};
  std::vector<Buffer> batch_{};  // of other devices than the CPU
};

void say_error(const Error& error) {
  std::string words = error.message.substr(0, error.message.find('\n'));
  std::printf("! %s\n", words.c_str());
}

void answer(Rank& rank, const std::string& line) {
  if (line == "prepare") {
    const auto parameters = rank.prepare();
    if (!parameters.ok()) return say_error(parameters.error());
    std::printf("%llu\n", static_cast<unsigned long long>(*parameters));
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto loss = rank.steps();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  if (!loss.ok()) return say_error(loss.error());
  std::printf("%.0f %.6g\n", took.count() / rank.steps_of_an_answer(), static_cast<double>(*loss));
}

Result<Settings> read_settings(int argc, char** argv) {
  if (argc < 4)
    return Status(TN_INVALID,
                  "usage: bench_train_rank MODEL BATCH THREADS [device=NAME] [timeline=FILE] [check=apart] "
                  "[NAME=VALUE…]");
  Settings out{.model = argv[1], .threads = argv[3], .batch = std::atol(argv[2])};
  for (int i = 4; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equal = word.find('=');
    if (equal == std::string::npos) return Status(TN_INVALID, "'" + word + "' is not NAME=VALUE");
    const std::string name = word.substr(0, equal), value = word.substr(equal + 1);
    if (name == "device")
      out.device = value;
    else if (name == "timeline")
      out.timeline = value;
    else if (word == "check=apart")
      out.checks_apart = true;
    else
      TN_TRY(out.strategy.set(name, value));
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  auto settings = read_settings(argc, argv);
  if (!settings.ok()) {
    std::printf("%s\n", settings.error().message.c_str());
    return 1;
  }
  std::printf("ready tenon, %s threads\n", settings->threads.c_str());
  std::fflush(stdout);
  Rank rank(std::move(*settings));
  for (std::string line; std::getline(std::cin, line);) {
    answer(rank, line);
    std::fflush(stdout);
  }
  const Status ended = rank.end();
  if (!ended.ok()) say_error(ended.error());
  return ended.ok() ? 0 : 1;
}
