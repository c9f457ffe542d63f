// SPDX-License-Identifier: Apache-2.0
// gemm_onednn.cpp: matrix products by oneDNN.
//
// A primitive is immutable and shared; the memory objects that carry a run's addresses are not, so a few sets of them are
// kept for runs to borrow.
// Invariant: no exception of oneDNN leaves this file, and a run allocates only when more streams run one kernel at once
// than ever before.
#include "gemm.hpp"

#if TENON_CPU_ONEDNN
#include "onednn.hpp"
#endif

#include <tenon/author/text.hpp>

namespace tenon::cpu {

#if TENON_CPU_ONEDNN

using dnnl::memory;

namespace {

// Addresses of one run, in oneDNN's words.
struct Carrier {
  memory a, b, c, scratch;
  dnnl::stream stream;
  dnnl_exec_arg_t arguments[4];

  explicit Carrier(const dnnl::matmul::primitive_desc& description)
      : a(description.src_desc(), onednn::engine(), nullptr),
        b(description.weights_desc(), onednn::engine(), nullptr),
        c(description.dst_desc(), onednn::engine(), nullptr),
        scratch(description.scratchpad_desc(), onednn::engine(), nullptr),
        stream(onednn::engine()),
        arguments{{DNNL_ARG_SRC, a.get()},
                  {DNNL_ARG_WEIGHTS, b.get()},
                  {DNNL_ARG_DST, c.get()},
                  {DNNL_ARG_SCRATCHPAD, scratch.get()}} {}
};

// Carriers not in use. Takes and gives without a lock.
class Carriers {
 public:
  explicit Carriers(const dnnl::matmul::primitive_desc& description) : description_(description) {
    give(std::make_unique<Carrier>(description_));
  }
  Carriers(const Carriers&) = delete;
  Carriers& operator=(const Carriers&) = delete;
  ~Carriers() {
    for (auto& place : places_) delete place.load();
  }

  std::unique_ptr<Carrier> take() {
    for (auto& place : places_) {
      if (Carrier* found = place.exchange(nullptr, std::memory_order_acq_rel))
        return std::unique_ptr<Carrier>(found);
    }
    return std::make_unique<Carrier>(description_);
  }
  void give(std::unique_ptr<Carrier> carrier) noexcept {
    for (auto& place : places_) {
      Carrier* empty = nullptr;
      if (!place.compare_exchange_strong(empty, carrier.get(), std::memory_order_acq_rel)) continue;
      static_cast<void>(carrier.release());
      return;
    }
  }

 private:
  dnnl::matmul::primitive_desc description_;
  std::atomic<Carrier*> places_[8] = {};
};

class OneDnnStep final : public Step {
 public:
  OneDnnStep(const Gemm& gemm, const Place& scratch, const dnnl::matmul::primitive_desc& description)
      : a_(gemm.a.place),
        b_(gemm.b.place),
        c_(gemm.c.place),
        scratch_(scratch),
        primitive_(description),
        engine_(author::text("onednn:", description.impl_info_str())),
        carriers_(description) {}

  std::string engine() const override { return engine_; }

  Status run(const Run& run) const override {
    try {
      auto carrier = carriers_.take();
      carrier->a.set_data_handle(run.at(a_));
      carrier->b.set_data_handle(run.at(b_));
      carrier->c.set_data_handle(run.at(c_));
      carrier->scratch.set_data_handle(run.at(scratch_));
      const dnnl_status_t status =
          dnnl_primitive_execute(primitive_.get(), carrier->stream.get(), 4, carrier->arguments);
      carrier->stream.wait();
      carriers_.give(std::move(carrier));
      if (status == dnnl_success) return {};
      return failed("dnnl_primitive_execute", status);
    } catch (const dnnl::error& error) {
      return failed(error.what(), error.status);
    }
  }

 private:
  Status failed(const char* what, dnnl_status_t status) const {
    return Status(Error{.code = status == dnnl_out_of_memory ? TN_NO_MEMORY : TN_INTERNAL,
                        .message = author::text("matmul by ", engine_, ": ", what),
                        .domain = "onednn",
                        .native_code = status});
  }

  Place a_, b_, c_, scratch_;
  dnnl::matmul primitive_;
  std::string engine_;
  mutable Carriers carriers_;
};

// Dims [batch …, rows, columns]; a broadcast batch dim has extent 1.
memory::desc describe(const Gemm& gemm, const GemmOperand& operand, int64_t rows, int64_t columns) {
  memory::dims dims, strides;
  const int64_t unused = rows * columns;  // the stride of a dim of 1 is free, but must not be 0
  for (uint32_t i = 0; i < gemm.batch_rank; ++i) {
    dims.push_back(operand.batch[i] == 0 ? 1 : gemm.batch[i]);
    strides.push_back(operand.batch[i] == 0 ? unused : operand.batch[i]);
  }
  // A single row or column leaves its other stride free; it is set so that one of the two is 1.
  int64_t row = operand.row, column = operand.column;
  if (rows == 1) row = column == 1 || columns == 1 ? columns : 1;
  if (columns == 1) column = row == 1 && rows != 1 ? rows : 1;
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {row, column});
  const auto type = operand.dtype == TN_DTYPE_bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  return memory::desc(dims, type, strides);
}

}  // namespace

bool has_onednn() noexcept { return true; }

Result<OneDnnGemm> onednn_gemm(const Gemm& gemm, const Place& scratch, unsigned threads) {
  // oneDNN plans for as many threads as OpenMP offers to the thread that asks.
  const TeamSize size(threads);
  try {
    const auto description = onednn::matmul_description(describe(gemm, gemm.a, gemm.rows, gemm.depth),
                                                        describe(gemm, gemm.b, gemm.depth, gemm.columns),
                                                        describe(gemm, gemm.c, gemm.rows, gemm.columns));
    return OneDnnGemm{.step = std::make_unique<OneDnnStep>(gemm, scratch, description),
                      .scratch_bytes = description.scratchpad_desc().get_size()};
  } catch (const dnnl::error& error) {
    return Status(Error{.code = error.status == dnnl_out_of_memory ? TN_NO_MEMORY : TN_UNSUPPORTED,
                        .message = author::text("oneDNN refuses this matmul: ", error.what()),
                        .domain = "onednn",
                        .native_code = error.status});
  }
}

#else

bool has_onednn() noexcept { return false; }

Result<OneDnnGemm> onednn_gemm(const Gemm& /*gemm*/, const Place& /*scratch*/, unsigned /*threads*/) {
  return Status(TN_UNSUPPORTED, "this build of the CPU plugin has no oneDNN (TENON_CPU_ONEDNN=OFF)");
}

#endif

}  // namespace tenon::cpu
