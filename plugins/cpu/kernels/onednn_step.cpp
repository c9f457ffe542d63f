// SPDX-License-Identifier: Apache-2.0
// onednn_step.cpp: carriers of addresses, and the run of a primitive.
//
// Invariant: a carrier belongs to one run at a time.
#if TENON_CPU_ONEDNN
#include "onednn_step.hpp"

#include "../engine/team.hpp"

#include <tenon/author/text.hpp>

namespace tenon::cpu::onednn {

namespace {

// Addresses of one run, in oneDNN's words.
struct Carrier {
  std::vector<memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
  dnnl::stream stream;

  explicit Carrier(const std::vector<Operand>& operands) : stream(onednn::engine()) {
    for (const Operand& operand : operands) {
      memories.emplace_back(operand.desc, onednn::engine(), nullptr);
      arguments.push_back({operand.argument, memories.back().get()});
    }
  }
};

// Carriers not in use. Takes and gives without a lock.
class Carriers {
 public:
  explicit Carriers(const std::vector<Operand>& operands) : operands_(operands) {
    give(std::make_unique<Carrier>(operands_));
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
    return std::make_unique<Carrier>(operands_);
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
  const std::vector<Operand>& operands_;
  std::atomic<Carrier*> places_[8] = {};
};

class PrimitiveStep final : public Step {
 public:
  PrimitiveStep(const dnnl::primitive& primitive, std::string what, std::string engine,
                std::vector<Operand> operands)
      : primitive_(primitive),
        what_(std::move(what)),
        engine_(std::move(engine)),
        operands_(std::move(operands)),
        carriers_(operands_) {}

  std::string engine() const override { return engine_; }

  Status run(const Run& run) const override {
    try {
      auto carrier = carriers_.take();
      for (size_t i = 0; i < operands_.size(); ++i)
        carrier->memories[i].set_data_handle(run.at(operands_[i].place));
      const dnnl_status_t status =
          dnnl_primitive_execute(primitive_.get(), carrier->stream.get(),
                                 static_cast<int>(carrier->arguments.size()), carrier->arguments.data());
      carrier->stream.wait();
      carriers_.give(std::move(carrier));
      if (status == dnnl_success) return {};
      return failed("dnnl_primitive_execute", status);
    } catch (const dnnl::error& error) {
      return failed(error.what(), error.status);
    }
  }

 private:
  Status failed(const char* call, dnnl_status_t status) const {
    return Status(Error{.code = status == dnnl_out_of_memory ? TN_NO_MEMORY : TN_INTERNAL,
                        .message = author::text(what_, " by ", engine_, ": ", call),
                        .domain = "onednn",
                        .native_code = status});
  }

  dnnl::primitive primitive_;
  std::string what_, engine_;
  std::vector<Operand> operands_;
  mutable Carriers carriers_;
};

}  // namespace

std::unique_ptr<Step> primitive_step(const dnnl::primitive& primitive, std::string what, std::string engine,
                                     std::vector<Operand> operands) {
  return std::make_unique<PrimitiveStep>(primitive, std::move(what), std::move(engine), std::move(operands));
}

std::unique_ptr<Step> reorder_step(const Operand& from, const Operand& to, Builder& builder) {
  const dnnl::reorder::primitive_desc description(engine(), from.desc, engine(), to.desc, attributes());
  const memory::desc room = description.scratchpad_desc();
  std::vector<Operand> operands{{DNNL_ARG_FROM, from.desc, from.place},
                                {DNNL_ARG_TO, to.desc, to.place},
                                {DNNL_ARG_SCRATCHPAD, room, builder.scratch(room.get_size())}};
  return primitive_step(dnnl::reorder(description), "reorder", "onednn:reorder", std::move(operands));
}

namespace {

// Alone: a team would stay with the caller's thread, beside those that compute (search.cpp says what it costs them).
void reorder_now(const memory::desc& from_desc, const std::byte* from, const memory::desc& to_desc,
                 std::byte* to) {
  const TeamSize alone(1);
  memory source(from_desc, engine(), const_cast<std::byte*>(from)), target(to_desc, engine(), to);
  dnnl::stream stream(engine());
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
}

}  // namespace

Operand brought(const Operand& own, const memory::desc& asked, Builder& builder, Steps& steps) {
  if (own.desc == asked) return own;
  if (own.place.kind == Place::Kind::constant) {
    auto packed = std::make_unique<std::byte[]>(asked.get_size());
    reorder_now(own.desc, own.place.constant + own.place.offset, asked, packed.get());
    return {own.argument, asked, builder.constant(std::move(packed))};
  }
  const Operand to{own.argument, asked, builder.scratch(asked.get_size())};
  steps.push_back(reorder_step(own, to, builder));
  return to;
}

Status refused(const char* what, const dnnl::error& error) {
  return Status(Error{.code = error.status == dnnl_out_of_memory ? TN_NO_MEMORY : TN_UNSUPPORTED,
                      .message = author::text("oneDNN refuses this ", what, ": ", error.what()),
                      .domain = "onednn",
                      .native_code = error.status});
}

}  // namespace tenon::cpu::onednn
#endif
