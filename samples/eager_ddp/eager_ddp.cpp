// SPDX-License-Identifier: Apache-2.0
// eager_ddp: a training loop by hand, one kernel after the other, whose gradients GradientSync averages over all ranks.
//
//   eager_ddp [4]                                            so many ranks (two), as processes of this program
//   torchrun --no-python --nproc-per-node 4 eager_ddp        the ranks of a launcher (also mpirun, srun)
//
// Each rank learns from samples of its own what one network of random weights computes.
// Invariant: a rank says "right" only after the loss fell by half or more, and all ranks have the same weights to the bit.
#include <tenon/tenon.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace tenon;

constexpr int64_t batch = 64, widths[] = {16, 128, 128, 1};
constexpr uint32_t layers = 3, steps = 60;
constexpr double rate = 0.02;

TensorSpec matrix(int64_t rows, int64_t columns) { return {f32, {rows, columns}}; }

// One op as a kernel; in place: its output lies over its first input.
enum class Place { own, over };
Result<Kernel> kernel(Device& device, Op op, std::initializer_list<TensorSpec> inputs, TensorSpec output,
                      std::vector<Attribute> attributes = {}, Place place = Place::own) {
  FragmentBuilder f;
  std::vector<FragmentBuilder::Value> values;
  for (const TensorSpec& input : inputs) values.push_back(f.input(input));
  f.output(f.node(op, values, {std::move(output)}, std::move(attributes))[0]);
  if (place == Place::over) f.alias(0, 0);
  return device.compile(TN_TRY(f.build()));
}

// weight + gradient · -rate, in place.
Result<Kernel> update_kernel(Device& device, const TensorSpec& shape) {
  FragmentBuilder f("sgd");
  const auto weight = f.input(shape), gradient = f.input(shape);
  f.output(f.node(Op::add, {weight, f.node(Op::scale, {gradient}, shape, {{"scale", -rate}})}, shape));
  f.alias(0, 0);
  return device.compile(TN_TRY(f.build()));
}

// x · weight, then relu but for the last.
struct Layer {
  Kernel product, relu, relu_grad, weight_grad, input_grad, update;
  Buffer weight, out, out_grad;

  static Result<Layer> make(Device& device, Stream& stream, uint32_t index) {
    const int64_t in = widths[index], width = widths[index + 1];
    const TensorSpec x = matrix(batch, in), w = matrix(in, width), y = matrix(batch, width);
    const std::vector<Attribute> transpose_a{{"transpose_a", int64_t{1}}},
        transpose_b{{"transpose_b", int64_t{1}}};
    Layer l;
    l.product = TN_TRY(kernel(device, Op::matmul, {x, w}, y));
    l.relu = TN_TRY(kernel(device, Op::relu, {y}, y, {}, Place::over));
    l.relu_grad = TN_TRY(kernel(device, Op::relu_grad, {y, y}, y, {}, Place::over));
    l.weight_grad = TN_TRY(kernel(device, Op::matmul, {x, y}, w, transpose_a));
    l.input_grad = TN_TRY(kernel(device, Op::matmul, {y, w}, x, transpose_b));
    l.update = TN_TRY(update_kernel(device, w));
    l.weight = TN_TRY(device.allocate(stream, w.bytes()));
    l.out = TN_TRY(device.allocate(stream, y.bytes()));
    l.out_grad = TN_TRY(device.allocate(stream, y.bytes()));
    return l;
  }
};

std::vector<float> normal(std::mt19937& random, int64_t count, double deviation) {
  std::vector<float> out(static_cast<size_t>(count));
  std::normal_distribution<double> distribution(0, deviation);
  for (float& x : out) x = static_cast<float>(distribution(random));
  return out;
}

class Network {
 public:
  // The same `seed` gives the same weights.
  static Result<Network> make(Device& device, Stream& stream, uint32_t seed) {
    std::mt19937 random(seed);
    Network n;
    for (uint32_t i = 0; i < layers; ++i) {
      n.layers_.push_back(TN_TRY(Layer::make(device, stream, i)));
      const auto weights =
          normal(random, widths[i] * widths[i + 1], 1 / std::sqrt(static_cast<double>(widths[i])));
      TN_TRY(stream.upload(n.layers_.back().weight, weights));
    }
    const TensorSpec y = matrix(batch, 1);
    n.difference_ = TN_TRY(kernel(device, Op::sub, {y, y}, y));
    return n;
  }

  const Buffer& out() const { return layers_.back().out; }
  std::vector<Layer>& parameters() { return layers_; }

  Status forward(Stream& stream, const Buffer& x) {
    const Buffer* in = &x;
    for (Layer& l : layers_) {
      TN_TRY(l.product.run(stream, {*in, l.weight, l.out}));
      if (&l != &layers_.back()) TN_TRY(l.relu.run(stream, {l.out, l.out}));
      in = &l.out;
    }
    return {};
  }

  // Gradients of half the sum of squared errors, the last layer's first; each leaves as soon as its bucket is full.
  Status backward(Stream& stream, GradientSync& sync, const Buffer& x, const Buffer& expected) {
    TN_TRY(difference_.run(stream, {out(), expected, layers_.back().out_grad}));
    for (uint32_t i = layers; i-- > 0;) {
      Layer& l = layers_[i];
      const Buffer& in = i == 0 ? x : layers_[i - 1].out;
      TN_TRY(l.weight_grad.run(stream, {in, l.out_grad, sync.gradient(i)}));
      TN_TRY(sync.ready(i));
      if (i == 0) continue;
      Layer& before = layers_[i - 1];
      TN_TRY(l.input_grad.run(stream, {l.out_grad, l.weight, before.out_grad}));
      TN_TRY(before.relu_grad.run(stream, {before.out_grad, before.out, before.out_grad}));
    }
    return {};
  }

  Status update(Stream& stream, const GradientSync& sync) {
    for (uint32_t i = 0; i < layers; ++i)
      TN_TRY(layers_[i].update.run(stream, {layers_[i].weight, sync.gradient(i), layers_[i].weight}));
    return {};
  }

 private:
  std::vector<Layer> layers_;
  Kernel difference_;
};

Result<double> loss_of(Stream& stream, const Network& student, const Network& teacher) {
  std::vector<float> found(batch), expected(batch);
  TN_TRY(stream.download(found, student.out()));
  TN_TRY(stream.download(expected, teacher.out()));
  TN_TRY(stream.sync());
  double loss = 0;
  for (size_t i = 0; i < found.size(); ++i)
    loss += static_cast<double>((found[i] - expected[i]) * (found[i] - expected[i])) / batch;
  return loss;
}

// Whether rank 0's weights are this rank's, too.
Status compare_weights(Device& device, Stream& stream, Communicator& comm, Network& network) {
  for (Layer& l : network.parameters()) {
    std::vector<float> mine(l.weight.bytes() / sizeof(float)), first(mine.size());
    const Buffer copy = TN_TRY(device.allocate(stream, l.weight.bytes()));
    TN_TRY(stream.copy(copy, l.weight));
    TN_TRY(comm.broadcast(stream, copy, f32, 0));
    TN_TRY(stream.download(mine, l.weight));
    TN_TRY(stream.download(first, copy));
    TN_TRY(stream.sync());
    if (mine != first) return {TN_INTERNAL, "this rank has other weights than rank 0"};
  }
  return {};
}

Status run(const Rendezvous& here) {
  RuntimeOptions options;
  if (here.rank == 0) options.log_level = LogLevel::info;  // tells of the plans
  auto tenon = TN_TRY(Runtime::open(options));
  auto device = TN_TRY(tenon.device("cpu"));
  auto stream = TN_TRY(device.stream());
  auto comm = TN_TRY(Communicator::create(device, here.store, here.rank, here.size));

  auto teacher = TN_TRY(Network::make(device, stream, 1))
  , student = TN_TRY(Network::make(device, stream, 2));
  std::vector<Gradient> parameters;
  for (uint32_t i = 0; i < layers; ++i)
    parameters.push_back({.name = "layer" + std::to_string(i) + ".weight",
                          .elements = static_cast<uint64_t>(widths[i] * widths[i + 1])});
  auto sync = TN_TRY(GradientSync::create(device, comm, parameters));

  std::mt19937 random(100 + here.rank);  // samples of its own
  const auto x = TN_TRY(device.allocate(stream, batch * widths[0] * sizeof(float)));
  double before = 0, loss = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    TN_TRY(stream.upload(x, normal(random, batch * widths[0], 1)));
    TN_TRY(teacher.forward(stream, x));
    TN_TRY(student.forward(stream, x));
    TN_TRY(sync.begin(stream));
    TN_TRY(student.backward(stream, sync, x, teacher.out()));
    TN_TRY(sync.finish(stream, {.samples = batch}));
    TN_TRY(student.update(stream, sync));
    loss = TN_TRY(loss_of(stream, student, teacher));
    if (step == 0) before = loss;
    if (here.rank == 0 && (step % 20 == 0 || step + 1 == steps))
      std::printf("step %3u: loss %.4f\n", step, loss);
  }
  if (here.rank == 0) std::printf("%s", sync.plan().explain().c_str());
  TN_TRY(compare_weights(device, stream, comm, student));
  if (loss > before / 2)
    return {TN_INTERNAL, "the loss fell from " + std::to_string(before) + " only to " + std::to_string(loss)};
  std::printf("rank %u of %u: right\n", here.rank, here.size);
  return {};
}

int told(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "eager_ddp: %s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

// Ranks are forked before anything of Tenon runs, because devices do not survive a fork.
int run_processes(uint32_t size) {
  std::string folder = std::filesystem::temp_directory_path() / "eager_ddp-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return told({TN_INVALID, "cannot make " + folder});
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    auto store = Store::in_folder(folder);
    const int code =
        told(store.ok() ? run({.rank = rank, .size = size, .store = *store}) : std::move(store).failure());
    std::fflush(stdout);
    _exit(code);
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;) worst = status == 0 ? worst : 1;
  std::filesystem::remove_all(folder);
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return run_processes(static_cast<uint32_t>(std::max(1, std::atoi(argv[1]))));
  auto here = Rendezvous::from_environment();
  if (here.code() == TN_NOT_FOUND) return run_processes(2);  // no launcher started this
  return told(here.ok() ? run(*here) : std::move(here).failure());
}
