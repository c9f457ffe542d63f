// SPDX-License-Identifier: Apache-2.0
// products.cpp: from a fragment to a problem of cuBLASLt, the picks it is run with, and how they are kept.
//
// There are two: one for addresses that are multiples of 16, and one for any that the element's type allows, which is left out
// when the fragment promises better ones.
#include "products.hpp"

#include "leave.hpp"
#include "problem.hpp"
#include "tuning.hpp"

#include <tenon/author/support.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tenon::cuda {

using author::FragmentView;
using author::text;

namespace {

constexpr uint32_t wide_bytes = 16;
constexpr int most_proposals = 16;
constexpr int oldest_bf16_sm = 80;
constexpr uint64_t most_workspace = 32 << 20;  // what NVIDIA advises for the chips that like most

// As they are saved, byte for byte.
struct Picks {
  Pick wide{}, any{};
  uint64_t has_any = 0;
};

uint64_t workspace_of(const Picks& picks) noexcept {
  return std::max(picks.wide.workspace_bytes, picks.any.workspace_bytes);
}

// What all addresses of the product are multiples of when all bindings are multiples of 16.
uint32_t wide_alignment(const Product& product) noexcept {
  uint64_t odd = wide_bytes;
  for (const Matrix* m : {&product.left, &product.right, &product.result, &product.residual, &product.aux})
    for (const int64_t step : m->call_strides)
      odd = std::gcd(odd, author::dtype_bytes(product.dtype, static_cast<uint64_t>(step)));
  return static_cast<uint32_t>(odd);
}

uint32_t element_bytes(const Product& product) noexcept {
  return static_cast<uint32_t>(author::dtype_bytes(product.dtype, 1));
}

bool promises_wide(const FragmentView& fragment) noexcept {
  for (uint32_t i = 0; i < fragment.binding_count(); ++i)
    if (fragment.binding(i).raw().alignment < wide_bytes) return false;
  return true;
}

class ProductKernel : public Kernel {
 public:
  ProductKernel(const Product& product, std::shared_ptr<Problem> problem, const Picks& picks, Bundle bundle,
                double cost_ns)
      : product_(product),
        problem_(std::move(problem)),
        picks_(picks),
        bundle_(std::move(bundle)),
        cost_ns_(picks.wide.cost_ns > 0 ? picks.wide.cost_ns : cost_ns) {}

  void info(tn_kernel_info& out) const override {
    out.workspace_bytes = workspace_of(picks_);
    out.cost_ns = cost_ns_;
    author::set_text(out.engine,
                     text("cublaslt ", cublaslt_version_text(bundle_.version), ":sm_", bundle_.sm));
  }

  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) override {
    if (product_.is_empty()) return stream.enqueue(problem_, [](CUstream) { return Status(); });
    if (product_.depth == 0) return stream.fill(bindings[product_.result.binding], 0, 1);
    std::array<CUdeviceptr, most_product_bindings> places;
    CUdeviceptr all = 0;
    for (size_t i = 0; i < bindings.size(); ++i) all |= places[i] = place(bindings[i]);
    const Pick& pick = all % wide_bytes == 0 || picks_.has_any == 0 ? picks_.wide : picks_.any;
    return stream.enqueue(problem_, [&](CUstream native) {
      return problem_->run(native, pick, places.data(), place(workspace));
    });
  }

  Result<uint64_t> save(std::span<std::byte> out) const override { return bundle_.write(out); }

 private:
  const Product product_;
  const std::shared_ptr<Problem> problem_;  // none: there is nothing to call
  const Picks picks_;
  const Bundle bundle_;
  const double cost_ns_;
};

class Products : public Engine {
 public:
  Products(std::shared_ptr<Gpu> gpu, const Tools& tools, const Effort& effort, const Leave& leave)
      : gpu_(std::move(gpu)), tools_(tools), effort_(effort), leave_(leave) {}

  bool takes(const FragmentView& fragment) const noexcept override { return has_product(fragment); }

  Status supports(const FragmentView& fragment, tn_support& out) const override {
    const Product product = TN_TRY(product_of(fragment));
    TN_TRY(library());
    author::honour(out, product.honoured_aliases);
    const double cost = transfer_ns(*gpu_->context(), fragment);
    const char* const otherwise = leave_.told(product.dtype, product.activation == Activation::relu);
    return otherwise != nullptr ? author::accept_converted(out, otherwise, cost) : author::accept(out, cost);
  }

  Result<std::unique_ptr<Kernel>> compile(const FragmentView& fragment,
                                          const tn_compile_options& options) override {
    const Product product = TN_TRY(product_of(fragment));
    Bundle bundle = TN_TRY(expect(fragment, product));
    if (product.is_empty() || product.depth == 0)
      return finish(fragment, product, nullptr, {}, std::move(bundle));
    const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
    const std::shared_ptr<Problem> problem = TN_TRY(Problem::make(TN_TRY(handle()), product, leave_.tf32));
    const uint64_t limit = std::min(effort_.workspace_limit(options.workspace_limit), most_workspace);
    Bundle kept = bundle;
    kept.source += text(" workspace ", limit);
    kept.identity = {};
    Picks picks{};
    if (!recall(kept, *problem, picks)) {
      picks = TN_TRY(choose(fragment, *problem, limit, effort_.budget_ms(options.budget_ms)));
      kept.image.assign(reinterpret_cast<const char*>(&picks), sizeof picks);
      if (picks.wide.cost_ns > 0) kept.remember(tools_.folder);
    }
    bundle.image = std::move(kept.image);
    return finish(fragment, product, problem, picks, std::move(bundle));
  }

  Result<std::unique_ptr<Kernel>> load(const FragmentView& fragment,
                                       std::span<const std::byte> saved) override {
    const Product product = TN_TRY(product_of(fragment));
    Bundle bundle = TN_TRY(expect(fragment, product));
    TN_TRY(bundle.read(saved));
    if (product.is_empty() || product.depth == 0)
      return finish(fragment, product, nullptr, {}, std::move(bundle));
    const Bound bound(gpu_->context()->driver(), gpu_->context()->handle());
    const std::shared_ptr<Problem> problem = TN_TRY(Problem::make(TN_TRY(handle()), product, leave_.tf32));
    Picks picks{};
    if (!read(bundle, *problem, picks))
      return Status(TN_MISMATCH,
                    "cuBLASLt does not take the algorithms that were saved: compile the fragment anew");
    return finish(fragment, product, problem, picks, std::move(bundle));
  }

 private:
  Result<Product> product_of(const FragmentView& fragment) const {
    Product product = TN_TRY(read_product(fragment));
    TN_TRY(leave_.check_relu(fragment, product.activation == Activation::relu, "cuBLASLt"));
    TN_TRY(leave_.check_gelu(
        fragment, product.dtype,
        product.activation == Activation::gelu || product.activation == Activation::gelu_grad));
    const int sm = gpu_->context()->sm();
    if (product.dtype != TN_DTYPE_bf16 || sm >= oldest_bf16_sm) return product;
    return Status(TN_UNSUPPORTED, text("products of bf16 take compute capability ", oldest_bf16_sm / 10, ".",
                                       oldest_bf16_sm % 10, ", and this device has ", sm / 10, ".", sm % 10));
  }

  // A library that is not there is a fragment that is not computed, for the reason why it is not there.
  Result<const CublasLt*> library() const {
    auto found = CublasLt::open(gpu_->context()->driver().version, tools_.host.option("cublaslt"));
    if (!found.ok()) return Status(TN_UNSUPPORTED, std::string(found.message()));
    return found;
  }

  Result<std::shared_ptr<const CublasLtHandle>> handle() {
    const std::lock_guard lock(mutex_);
    if (handle_ == nullptr) handle_ = TN_TRY(CublasLtHandle::make(gpu_, *TN_TRY(library())));
    return handle_;
  }

  // What was saved or kept has to be for: the product, and the device as far as the library looks at it.
  Result<Bundle> expect(const FragmentView& fragment, const Product& product) const {
    const Context& context = *gpu_->context();
    const CublasLt* const found = TN_TRY(library());
    return Bundle{.sm = static_cast<uint32_t>(context.sm()),
                  .maker = "cuBLASLt",
                  .version = found->version(),
                  .driver = static_cast<uint32_t>(context.driver().version),
                  .identity = std::to_array(fragment.raw().identity),
                  .source = text("product ", told(product), leave_.tf32 ? " tf32" : "", " on ",
                                 context.multiprocessors(), " multiprocessors",
                                 promises_wide(fragment) ? " aligned" : "")};
  }

  static bool read(const Bundle& bundle, Problem& problem, Picks& picks) {
    if (bundle.image.size() != sizeof picks) return false;
    std::memcpy(&picks, bundle.image.data(), sizeof picks);
    const Product& product = problem.product();
    return problem.check(picks.wide, wide_alignment(product)).ok() &&
           (picks.has_any == 0 || problem.check(picks.any, element_bytes(product)).ok());
  }

  bool recall(Bundle& kept, Problem& problem, Picks& picks) const {
    return kept.recall(tools_.folder) && read(kept, problem, picks);
  }

  Result<Picks> choose(const FragmentView& fragment, Problem& problem, uint64_t limit,
                       double budget_ms) const {
    const Product& product = problem.product();
    const uint32_t wide = wide_alignment(product), element = element_bytes(product);
    const auto proposed = TN_TRY(problem.proposals(wide, limit, budget_ms > 0 ? most_proposals : 1));
    if (proposed.empty()) return refuse(problem, wide, limit);
    Picks out{.wide = proposed.front()};
    if (budget_ms > 0) out.wide = TN_TRY(time(fragment, problem, proposed, budget_ms));
    if (promises_wide(fragment)) return out;
    const auto narrow = TN_TRY(problem.proposals(element, limit, 1));
    if (narrow.empty()) return refuse(problem, element, limit);
    out.any = narrow.front();
    out.has_any = 1;
    return out;
  }

  Result<Pick> time(const FragmentView& fragment, Problem& problem, const std::vector<Pick>& proposed,
                    double budget_ms) const {
    std::vector<Trial> trials;
    for (const Pick& pick : proposed) {
      trials.push_back(
          {.workspace_bytes = pick.workspace_bytes,
           .run = [&](CUstream stream, std::span<const CUdeviceptr> places, CUdeviceptr workspace) {
             return problem.run(stream, pick, places.data(), workspace);
           }});
    }
    const Fastest fastest = TN_TRY(fastest_of(*gpu_, fragment, trials, budget_ms));
    Pick out = proposed[fastest.index];
    out.cost_ns = fastest.cost_ns;
    return out;
  }

  static Status refuse(const Problem& problem, uint32_t alignment, uint64_t limit) {
    return Status(TN_UNSUPPORTED, text("cuBLASLt proposes nothing for ", told(problem.product()),
                                       " at addresses that are multiples of ", alignment, ", within ", limit,
                                       " bytes of workspace"));
  }

  Result<std::unique_ptr<Kernel>> finish(const FragmentView& fragment, const Product& product,
                                         std::shared_ptr<Problem> problem, const Picks& picks,
                                         Bundle bundle) const {
    return std::unique_ptr<Kernel>(std::make_unique<ProductKernel>(
        product, std::move(problem), picks, std::move(bundle), transfer_ns(*gpu_->context(), fragment)));
  }

  const std::shared_ptr<Gpu> gpu_;
  const Tools& tools_;
  const Effort effort_;
  const Leave leave_;
  std::mutex mutex_;  // of handle_
  std::shared_ptr<const CublasLtHandle> handle_{};
};

}  // namespace

Result<std::unique_ptr<Engine>> make_products(const std::shared_ptr<Gpu>& gpu, const Tools& tools) {
  const Leave leave = TN_TRY(Leave::of(tools.host));
  const Effort effort = TN_TRY(Effort::of(tools.host));
  return std::unique_ptr<Engine>(std::make_unique<Products>(gpu, tools, effort, leave));
}

Result<std::string> products_library(const Gpu& gpu, const Tools& tools) {
  const CublasLt& library =
      *TN_TRY(CublasLt::open(gpu.context()->driver().version, tools.host.option("cublaslt")));
  return text("cuBLASLt ", cublaslt_version_text(library.version()));
}

bool has_products(const Gpu& gpu, const Tools& tools) {
  const char* const path = tools.host.option("cublaslt");
  const auto found = products_library(gpu, tools);
  const bool left_out = path != nullptr && std::string_view(path) == "off";
  if (!found.ok() && !left_out) tools.host.log(TN_LOG_WARN, std::string(found.message()));
  return found.ok();
}

}  // namespace tenon::cuda
