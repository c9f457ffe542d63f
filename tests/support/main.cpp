// SPDX-License-Identifier: Apache-2.0
// The main() of every test program.
// Invariant: a run that executes no test case fails, so a filter that matches nothing (a renamed case, a
// name that was quoted wrongly) cannot pass for a success; and a skip counts as one only when nothing failed.
#define DOCTEST_CONFIG_IMPLEMENT
#include "support/device.hpp"
#include "support/skip.hpp"

#include <cstdio>

namespace {

unsigned cases_run = 0;

struct CaseCounter : doctest::IReporter {
  explicit CaseCounter(const doctest::ContextOptions& /*options*/) {}
  void report_query(const doctest::QueryData& /*data*/) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData& /*data*/) override {}
  void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {}
  void test_case_exception(const doctest::TestCaseException& /*error*/) override {}
  void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& /*data*/) override {}
  void log_message(const doctest::MessageData& /*data*/) override {}
  void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}
};

REGISTER_LISTENER("case_counter", 0, CaseCounter);

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) tenon::test::read_device(argv[i]);
  doctest::Context context(argc, argv);
  const int failed = context.run();
  if (context.shouldExit()) return failed;  // --help, --list-test-cases
  if (cases_run == 0) {
    std::fputs("no test case matched the filter\n", stderr);
    return 1;
  }
  if (failed == 0 && tenon::test::skips() > 0) return tenon::test::skip_status;
  return failed;
}
