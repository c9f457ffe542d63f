// SPDX-License-Identifier: Apache-2.0
// The rules of errors that every call of a case is held to.
#include "conformance/context.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

using namespace tenon::conform;

namespace {

// The first thing a case with this one call complains about; "" when it has nothing to say.
template <class F>
std::string complaint(F&& f) {
  Context t({.plugin = "none"}, Random(1));
  static_cast<void>(t.call("f", f));
  t.check(true, "");
  const Finding finding = t.finish({});
  return finding.failures.empty() ? "" : finding.failures.front();
}

void tell(tn_error* e, int32_t code, const char* domain, const char* message) {
  *e = tenon::no_error();
  e->code = code;
  std::snprintf(e->domain, sizeof e->domain, "%s", domain);
  std::snprintf(e->message, sizeof e->message, "%s", message);
}

}  // namespace

TEST_CASE("context: a well-told failure and a silent success are fine") {
  CHECK(complaint([](tn_error* e) { return tell(e, TN_BUSY, "me", "in use"), TN_BUSY; }).empty());
  CHECK(complaint([](tn_error*) { return TN_OK; }).empty());
}

TEST_CASE("context: each broken rule of errors is told") {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(complaint([](tn_error* e) { return tell(e, TN_OK, "", ""), TN_OK; }), "wrote into the tn_error"));
  CHECK(has(complaint([](tn_error*) { return TN_BUSY; }), "tn_error.code is"));
  CHECK(has(complaint([](tn_error* e) { return tell(e, TN_BUSY, "me", ""), TN_BUSY; }), "message is empty"));
  CHECK(
      has(complaint([](tn_error* e) { return tell(e, TN_BUSY, "", "in use"), TN_BUSY; }), "domain is empty"));
  CHECK(has(complaint([](tn_error* e) { return tell(e, TN_BUSY, "me", "in use"), TN_INVALID; }),
            "tn_error.code is 6"));
  CHECK(has(complaint([](tn_error* e) { return tell(e, 99, "me", "odd"), 99; }), "not one of the ABI's"));
  CHECK(has(complaint([](tn_error* e) {
              tell(e, TN_BUSY, "me", "in use");
              std::memset(e->message, 'x', sizeof e->message);
              return TN_BUSY;
            }),
            "no NUL"));
}

TEST_CASE("context: an expectation that does not hold fails the case, and so does checking nothing") {
  Context wrong({.plugin = "none"}, Random(1));
  CHECK_FALSE(wrong.check(1 > 2, "one is ", 1));
  const Finding finding = wrong.finish({});
  CHECK(finding.outcome == Outcome::failed);
  REQUIRE(finding.failures.size() == 1);
  CHECK(finding.failures[0] == "one is 1");
  Context idle({.plugin = "none"}, Random(1));
  CHECK(idle.finish({}).outcome == Outcome::failed);
}

TEST_CASE("context: leaving a case early is no pass and no failure, unless something failed before") {
  Context lacking({.plugin = "none"}, Random(1));
  const Finding gap = lacking.finish(lacking.unsupported("stream.promise", "none"));
  CHECK(gap.outcome == Outcome::unsupported);
  CHECK(gap.tag == "stream.promise");
  Context both({.plugin = "none"}, Random(1));
  both.check(false, "broken");
  CHECK(both.finish(both.skip("no memory")).outcome == Outcome::failed);
}

TEST_CASE("context: a library that is not there is a failure with the linker's words") {
  Context t({.plugin = "/nonexistent/tenon-x.so"}, Random(1));
  const auto device = t.device();
  REQUIRE_FALSE(device.ok());
  CHECK(device.message().find("/nonexistent/tenon-x.so") != std::string_view::npos);
}
