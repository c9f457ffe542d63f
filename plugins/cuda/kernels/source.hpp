// SPDX-License-Identifier: Apache-2.0
// source.hpp: lines of C++ with their indentation.
#pragma once

#include <tenon/author/text.hpp>

#include <string>

namespace tenon::cuda {

class Source {
 public:
  template <class... Parts>
  void line(const Parts&... parts) {
    out_.append(depth_ * 2, ' ');
    out_ += author::text(parts...);
    out_ += '\n';
  }
  // "for (…) {", until close().
  template <class... Parts>
  void open(const Parts&... parts) {
    line(parts..., " {");
    ++depth_;
  }
  // A block of its own, for names that are used again.
  void open_block() {
    line("{");
    ++depth_;
  }
  // The same, unrolled: "for (int u = 0; u < 4; ++u) {".
  void open_unrolled(const char* variable, uint32_t count) {
    out_ += "#pragma unroll\n";
    open("for (int ", variable, " = 0; ", variable, " < ", count, "; ++", variable, ")");
  }
  void close() {
    --depth_;
    line("}");
  }
  void plain(const std::string& text) { out_ += text; }
  const std::string& text() const noexcept { return out_; }

 private:
  std::string out_{};
  size_t depth_ = 0;
};

}  // namespace tenon::cuda
