// SPDX-License-Identifier: Apache-2.0
// write_sources FOLDER [WORD]: writes the generated source of every example whose name holds WORD, as NAME.cu.
#include "fragments.hpp"

#include "kernels/program.hpp"

#include <cstdio>
#include <fstream>

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [WORD]\n", words[0]);
    return 2;
  }
  int written = 0;
  for (const tenon::cuda::test::Example& example : tenon::cuda::test::examples()) {
    if (count > 2 && example.name.find(words[2]) == std::string::npos) continue;
    tenon::author::FragmentBuilder fragment(example.name);
    example.build(fragment);
    const auto program = tenon::cuda::write_program(tenon::author::FragmentView(fragment.fragment()), {});
    if (!program.ok()) {
      std::fprintf(stderr, "%s: %s\n", example.name.c_str(), program.error().message.c_str());
      return 1;
    }
    std::ofstream(std::string(words[1]) + "/" + example.name + ".cu", std::ios::binary) << program->source;
    ++written;
  }
  std::printf("%d sources in %s\n", written, words[1]);
  return written > 0 ? 0 : 1;
}
