// SPDX-License-Identifier: Apache-2.0
// strips.cpp: the code of strips.hpp, for every number of rows.
//
// Invariant: no more of an operand is read than a strip has rows and columns; what is told ahead is never read.
#include "../strips.hpp"

#include "../isa.hpp"

#include <xbyak/xbyak.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

namespace tenon::cpu {
namespace {

class StripCode final : public Xbyak::CodeGenerator {
 public:
  StripCode() : CodeGenerator(size_t{256} << 10, Xbyak::DontSetProtectRWE) {
    for (uint32_t rows = 1; rows <= strip_rows; ++rows) {
      for (const bool adds : {false, true}) {
        for (const bool apart : {false, true}) {
          align(64);
          apart_ = apart;
          kernels_.of[apart][rows][adds] = getCurr<StripKernels::Function>();
          emit(static_cast<int>(rows), adds);
        }
      }
    }
    ready();
    setProtectModeRE();
  }

  const StripKernels& kernels() const noexcept { return kernels_; }

 private:
  static constexpr int unrolled = 4;
  static Xbyak::Zmm sum(int row, int half) { return Xbyak::Zmm(2 * row + half); }
  static int at(size_t offset) { return static_cast<int>(offset); }

  void emit(int rows, bool adds) {
    if (apart_) {
      for (const Xbyak::Reg64& r : kept_) push(r);
    }
    load_job();
    for (int i = 0; i < 2 * rows; ++i) vpxord(Xbyak::Zmm(i), Xbyak::Zmm(i), Xbyak::Zmm(i));
    for (uint32_t i = 0; i < StripJob::stretches; ++i) emit_stretch(rows, i);
    emit_rest(rows);
    emit_results(rows, adds);
    vzeroupper();
    if (apart_) {
      for (size_t i = kept_.size(); i-- > 0;) pop(kept_[i]);
    }
    ret();
  }

  // Strides in bytes.
  void load_job() {
    mov(left_, ptr[job_ + at(offsetof(StripJob, left))]);
    mov(right_, ptr[job_ + at(offsetof(StripJob, right))]);
    mov(left_step_, ptr[job_ + at(offsetof(StripJob, left_step))]);
    mov(right_step_, ptr[job_ + at(offsetof(StripJob, right_step))]);
    mov(depth_, ptr[job_ + at(offsetof(StripJob, depth))]);
    shl(left_step_, 2);
    shl(right_step_, 2);
    if (!apart_) return;
    lea(count_, ptr[left_step_ + left_step_ * 2]);
    for (size_t i = 0; i < kept_.size(); ++i) lea(kept_[i], ptr[third(i) + count_]);
  }

  // Rows that lie apart are reached from every third of them.
  const Xbyak::Reg64& third(size_t i) const { return i == 0 ? left_ : kept_[i - 1]; }
  Xbyak::RegExp left_at(int row) const {
    if (!apart_) return left_ + row * at(sizeof(float));
    const Xbyak::Reg64& base = third(static_cast<size_t>(row / 3));
    return row % 3 == 0 ? Xbyak::RegExp(base) : base + left_step_ * (row % 3);
  }
  // A row that is reached by one register is multiplied from memory, so that neither loads nor instructions are too many.
  bool from_memory(int row) const { return apart_ ? row % 3 == 0 : row % 2 == 1; }
  void emit_left_step(int rows) {
    if (!apart_) return add(left_, left_step_);
    for (int row = 0; row < rows; row += 3) add(third(static_cast<size_t>(row / 3)), at(sizeof(float)));
  }

  // As many steps as lines are told ahead, or as there are.
  void emit_stretch(int rows, uint32_t index) {
    const int base = at(offsetof(StripJob, ahead) + index * sizeof(Lines));
    Xbyak::Label next, end;
    mov(count_, ptr[job_ + base + at(offsetof(Lines, count))]);
    cmp(count_, depth_);
    cmovg(count_, depth_);
    sub(depth_, count_);
    test(count_, count_);
    jz(end, T_NEAR);
    mov(line_, ptr[job_ + base + at(offsetof(Lines, at))]);
    mov(line_step_, ptr[job_ + base + at(offsetof(Lines, step))]);
    L(next);
    prefetcht1(ptr[line_]);
    add(line_, line_step_);
    emit_step(rows);
    sub(count_, 1);
    jnz(next, T_NEAR);
    L(end);
  }

  void emit_rest(int rows) {
    Xbyak::Label many, few, one, end;
    L(many);
    cmp(depth_, unrolled);
    jl(few, T_NEAR);
    for (int i = 0; i < unrolled; ++i) emit_step(rows);
    sub(depth_, unrolled);
    jmp(many, T_NEAR);
    L(few);
    test(depth_, depth_);
    jz(end, T_NEAR);
    L(one);
    emit_step(rows);
    sub(depth_, 1);
    jnz(one, T_NEAR);
    L(end);
  }

  void emit_step(int rows) {
    vmovups(zmm28, ptr[right_]);
    vmovups(zmm29, ptr[right_ + 64]);
    for (int row = 0; row < rows; ++row) {
      if (from_memory(row)) {
        vfmadd231ps(sum(row, 0), zmm28, ptr_b[left_at(row)]);
        vfmadd231ps(sum(row, 1), zmm29, ptr_b[left_at(row)]);
      } else {
        const Xbyak::Zmm each(30 + row / 2 % 2);
        vbroadcastss(each, ptr[left_at(row)]);
        vfmadd231ps(sum(row, 0), each, zmm28);
        vfmadd231ps(sum(row, 1), each, zmm29);
      }
    }
    emit_left_step(rows);
    add(right_, right_step_);
  }

  void emit_results(int rows, bool adds) {
    const Xbyak::Reg64 &to = left_, &row_bytes = left_step_;
    mov(to, ptr[job_ + at(offsetof(StripJob, to))]);
    mov(row_bytes, ptr[job_ + at(offsetof(StripJob, row))]);
    shl(row_bytes, 2);
    for (int row = 0; row < rows; ++row) {
      for (int half = 0; half < 2; ++half) {
        const auto place = ptr[to + 64 * half];
        if (adds) vaddps(sum(row, half), sum(row, half), place);
        vmovups(place, sum(row, half));
      }
      add(to, row_bytes);
    }
  }

  const Xbyak::Reg64 job_ = rdi, left_ = rsi, right_ = rdx, left_step_ = rcx, right_step_ = r8, depth_ = r9,
                     count_ = rax, line_ = r10, line_step_ = r11;
  // The second, third … third, where rows lie apart.
  const std::array<Xbyak::Reg64, 4> kept_ = {rbx, rbp, r12, r13};
  bool apart_ = false;
  StripKernels kernels_;
};

}  // namespace

const StripKernels* strip_kernels() noexcept {
  static const std::unique_ptr<const StripCode> code = []() -> std::unique_ptr<const StripCode> {
    if (processor_isa() < Isa::avx512) return nullptr;
    try {
      return std::make_unique<const StripCode>();
    } catch (const std::exception&) {  // no pages that may be executed, or no memory
      return nullptr;
    }
  }();
  return code != nullptr ? &code->kernels() : nullptr;
}

}  // namespace tenon::cpu
