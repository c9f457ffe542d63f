// SPDX-License-Identifier: Apache-2.0
// run.cpp: `tenon run -n N -- PROGRAM`: starts the ranks of a job, on this machine and on others, and ends them together.
#include "command.hpp"
#include "places.hpp"
#include "run_launcher.hpp"

#include <memory>

namespace tenon::tool {

namespace {

using namespace run;

constexpr const char* examples =
    "Behind `--` stand the program and its arguments. Exit code: that of the first rank that failed, 128 + "
    "its signal\n"
    "if one killed it; 124 past --timeout; 126 or 127 if the program cannot be started or found; 130 after "
    "Ctrl-C.\n"
    "Examples:\n"
    "  tenon run -n 4 -- ./train --epochs 3\n"
    "  tenon run --hosts h1:2,h2:2 --interface eth0 --log-dir logs -- ./train";

Result<Launch> prepared(const Asked& asked, const Plan& plan) {
  Launch out{.asked = asked, .plan = plan, .own_program = executable(), .address = "127.0.0.1:0"};
  if (!asked.interface.empty()) {
    const std::string address = TN_TRY(interface_address(asked.interface));
    out.address = address.find(':') == std::string::npos ? address + ":0" : "[" + address + "]:0";
  }
  if (plan.timeout.count() > 0) out.deadline = std::chrono::steady_clock::now() + plan.timeout;
  return out;
}

int run_all(Launch launch) {
  const Plan& plan = launch.plan;
  Signals signals;
  adopt_orphans();
  Output output(launch.asked.log_folder, plan.size);
  Verdict verdict = run_once(launch, output, signals);
  while (verdict.may_restart && launch.restart < plan.restarts) {
    ++launch.restart;
    output.say("restart " + std::to_string(launch.restart) + " of " + std::to_string(plan.restarts) +
               ", with a new store");
    verdict = run_once(launch, output, signals);
  }
  const auto interrupted = [&] { return !signals.take().empty(); };
  output.errors.flush(interrupted);
  output.out.flush(interrupted);
  return verdict.code;
}

int run_run(Asked asked, std::vector<std::string> program) {
  asked.program = std::move(program);
  const auto plan = plan_of(asked, host_name());
  if (!plan.ok()) return usage_error(std::string(plan.message()) + ". See `tenon run --help`.");
  const auto launch = prepared(asked, *plan);
  return launch.ok() ? run_all(*launch) : usage_error(std::string(launch.message()));
}

}  // namespace

Command add_run(CLI::App& tool, const std::vector<std::string>& program) {
  CLI::App* app = tool.add_subcommand("run", "Starts the ranks of a job, and ends them together");
  const auto asked = std::make_shared<Asked>();
  app->add_option("-n,--ranks", asked->ranks, "How many; by default one for each device or place of --hosts")
      ->type_name("N");
  app->add_option("--devices", asked->devices,
                  "A device for each rank of a host, as in 0,1 or cpu:0,cpu:1: its TENON_DEVICE")
      ->type_name("LIST");
  app->add_option("--hosts", asked->hosts, "Machines and their numbers of ranks, as in h1:2,h2:2")
      ->type_name("LIST");
  app->add_option("--interface", asked->interface,
                  "Interface of this machine, by name or address, that ranks on other machines reach")
      ->type_name("NAME");
  app->add_option("--log-dir", asked->log_folder, "Folder for rank-0.log, rank-1.log and so on")
      ->type_name("DIR");
  app->add_option("--timeout", asked->timeout, "End the job after so long, as in 90, 10m or 2h; 0: never")
      ->type_name("TIME");
  app->add_option("--grace", asked->grace, "Time between SIGTERM and SIGKILL (5 s)")->type_name("TIME");
  app->add_option("--restarts", asked->restarts,
                  "Start the whole job again when a rank fails, at most so often")
      ->type_name("N");
  app->add_option("--bind", asked->bind,
                  "none, core (disjoint cores for each rank), numa; auto: core where there are enough")
      ->type_name("HOW");
  app->add_option("--env", asked->variables,
                  "A variable for all ranks; without a value, passed on to other hosts")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  app->add_option("--ssh", asked->ssh,
                  "Command that reaches another host: it gets the host and one line for a shell")
      ->type_name("COMMAND");
  app->add_option("--remote-tenon", asked->remote_tenon,
                  "This command on the other hosts, if its path is not the same")
      ->type_name("PATH");
  app->add_flag("--quiet", asked->quiet, "No table at the start");
  app->footer(examples);
  return {app, [asked, program] { return run_run(*asked, program); }};
}

}  // namespace tenon::tool
