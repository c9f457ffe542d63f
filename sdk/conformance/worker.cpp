// SPDX-License-Identifier: Apache-2.0
// worker.cpp: runs the cases of one request, one after another, in this process.
#include "conformance/worker.hpp"

#include "conformance/case.hpp"
#include "conformance/describe.hpp"
#include "conformance/perf.hpp"
#include "conformance/process.hpp"
#include "conformance/protocol.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace tenon::conform {

namespace {

// A process that the plugin forked, and that came back into this code, ends with this status.
constexpr int stray_status = 114;
const pid_t self = getpid();

void tell(int descriptor, Message message) {
  if (getpid() != self) _exit(stray_status);
  message.sender = self;
  if (!send_message(descriptor, encode(message))) _exit(lost_connection_status);
}

Status run_guarded(const Case& wanted, Context& t) {
  try {
    return wanted.run(t);
  } catch (const std::exception& escaped) {
    return Status(TN_INTERNAL, words("an exception left the case or the plugin: ", escaped.what()));
  } catch (...) {
    return Status(TN_INTERNAL, "an exception of unknown type left the case or the plugin");
  }
}

// What the plugin's child processes say about the case that just ran, or "". A child that runs on in this code ends soon.
std::string stray_child() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < limit) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WNOHANG);
    if (child < 0) return {};
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == stray_status) {
      return "the plugin forked, and the child ran on in the code of its host";
    }
    if (child == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return {};
}

// A case, and whether it left a process in which others can run.
struct Ended {
  Finding finding{};
  bool spoiled = false;
};

Ended run_case(const Case& wanted, const Request& request) {
  sweep_breadcrumbs();
  stage() = {.seat = request.seat, .round = request.round};
  Context t(request.settings, Random::of(request.settings.seed, wanted.name, request.round), &wanted);
  Status said = run_guarded(wanted, t);
  if (getpid() != self) _exit(stray_status);
  const std::string stray = stray_child();
  if (!stray.empty()) t.fail(stray);
  Ended out{.finding = t.finish(std::move(said))};
  out.spoiled = t.lost_device() && out.finding.outcome == Outcome::failed;
  return out;
}

// A loss that failed a case is told of that one alone: some devices stay lost for as long as their process lives, so the rest
// is left to the next.
void serve_cases(int descriptor, const Request& request) {
  for (const std::string& name : request.cases) {
    const Case* const wanted = find_case(name);
    if (wanted == nullptr) continue;
    tell(descriptor, {.kind = Message::Kind::begin, .name = name});
    const auto start = std::chrono::steady_clock::now();
    Ended ran = run_case(*wanted, request);
    Message message{.kind = Message::Kind::end, .name = name, .finding = std::move(ran.finding)};
    message.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    tell(descriptor, std::move(message));
    if (ran.spoiled) return;
  }
}

void serve_description(int descriptor, const Request& request) {
  Context t(request.settings, Random(request.settings.seed));
  auto found = describe(t, request.cases.empty());
  if (found.ok()) {
    tell(descriptor, {.kind = Message::Kind::description, .description = *std::move(found)});
    return;
  }
  Finding trouble;
  trouble.outcome = Outcome::failed;
  trouble.failures.emplace_back(found.message());
  tell(descriptor, {.kind = Message::Kind::end, .finding = std::move(trouble)});
}

void serve_figures(int descriptor, const Request& request) {
  Context t(request.settings, Random(request.settings.seed));
  measure(t, [&](Figure figure) {
    tell(descriptor, {.kind = Message::Kind::figure, .figure = std::move(figure)});
  });
  static_cast<void>(t.finish({}));  // closes the device; figures give no verdict
}

}  // namespace

int serve(int descriptor) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a runner that is killed leaves nobody behind, not even in a hang
  share_breadcrumbs(breadcrumb_descriptor);
  const auto text = receive_message(descriptor);
  if (!text) return lost_connection_status;
  const auto request = decode_request(*text);
  if (!request.ok()) return 2;
  if (request->perf) serve_figures(descriptor, *request);
  if (request->describe) serve_description(descriptor, *request);
  serve_cases(descriptor, *request);
  return 0;
}

}  // namespace tenon::conform
