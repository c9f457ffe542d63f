#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `tenon conform` on one wrong plugin and holds the verdicts against README.md.
Invariant: the named case fails, every other selected case still gets a verdict, nothing of the plugin's output reaches
ours, and the failing case's reproduce line, pasted into a shell as it is, fails in the same words.
  check_wrong.py TOOL PLUGIN.so            a wrong plugin; its row is found by the file's name
  check_wrong.py TOOL PLUGIN.so --control  the honest plugin: all of level 0 passes, under --verify; of levels 1
                                           and 2, what it runs at all
  check_wrong.py TOOL PLUGIN.so --control-comm  the right communicators: every case of level 3 that catches a wrong one passes
  check_wrong.py TOOL PLUGIN.so --control-capture  the right captures: the same of level 4's captures
  check_wrong.py TOOL PLUGIN.so --control-profile, --control-fragments  the right clocks, the right collectives in fragments
  check_wrong.py TOOL PLUGIN.so --sanitized     as without, but for what cannot be seen beside a sanitizer, which is skipped
  check_wrong.py --rows FOLDER             every plugin of the folder has a row, every row a plugin
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROW = re.compile(r"^\| (\w+) \| [^|]+ \| `([^`]+)` \|$")
NOT_WRONG = {"honest", "honest_kernel", "right", "comm_right", "capture_right", "profile_right", "comm_fragments_right", "talks_to_stderr"}
# Those over another plugin, or with an extension that the honest one has not.
OVER_OTHERS = ("comm_", "capture_", "gradient_", "update_", "pattern_", "layout_", "profile_")
# What the honest plugin does not offer.
NOT_OFFERED = ("import: ", "ipc: ", "profile: ")
# What moves too much for a quick run.
NOT_QUICK = ("copy: more than 4 GiB in one call", "fill: more than 4 GiB in one call")
# What the honest plugin refuses, and a wrong one boasts of.
NOT_COMPUTED = ("op add: f64", "fused mul: f32")
FRAGMENTS = ("op *", "kernel: *", "launch: *", "fused add: *", "fused: *", "group: *", "refuse: *")
# What a plugin can do to the process it lives in: the run must survive each, so each must have its plugin.
HOSTILE = {"crashes", "hangs", "exits", "forks", "closes_descriptors", "talks_to_stdout"}
MEASURED = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")  # addresses, times and counts differ from run to run


def rows():
    found = {}
    for line in (HERE / "README.md").read_text().splitlines():
        match = ROW.match(line)
        if match:
            found[match[1]] = match[2]
    return found


def conform(tool, plugin, *options):
    """The exit code, the report and the output of one run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        done = subprocess.run([tool, "conform", plugin, "--quick", "--json", report.name, *options],
                              capture_output=True, text=True, timeout=500)
        if done.returncode == 2:
            sys.exit(f"the tool refused: {done.stderr}")
        return done.returncode, json.load(open(report.name)), done.stdout


def filters(names):
    return [word for name in names for word in ("--filter", name)]


def expect(good, story):
    if not good:
        sys.exit(story)


def check_control(tool, plugin):
    code, report, output = conform(tool, plugin, "--verify", "--level", "0")
    bad = [c["name"] for c in report["cases"] if c["verdict"] != "passed" and not c["name"].startswith(NOT_OFFERED + NOT_QUICK)]
    expect(code == 0 and not bad, f"the honest plugin must pass every case, these did not: {bad}\n{output}")
    print(f"{len(report['cases'])} cases passed")
    caught_by = {case for name, case in rows().items() if not name.startswith(OVER_OTHERS)}
    code, report, output = conform(tool, plugin, *filters(caught_by))
    verdicts = {c["name"]: c["verdict"] for c in report["cases"]}
    bad = sorted(case for case in caught_by if verdicts.get(case) != "passed" and not case.startswith(NOT_COMPUTED))
    expect(code == 0 and not bad, f"these catch a wrong plugin, and the honest one does not pass them: {bad}\n{output}")
    sample = [] if os.environ.get("TENON_TEST_FULL") == "1" else ["--sample", "15"]
    code, report, output = conform(tool, plugin, *sample, *filters(FRAGMENTS))
    expect(code == 0, f"the honest plugin must fail no op's case\n{output}")
    passed = sum(c["verdict"] == "passed" for c in report["cases"])
    expect(passed > 0, f"no case of ops, kernels and fragments passed\n{output}")
    print(f"{passed} cases of ops, kernels and fragments passed")
    check_seeds(tool, plugin)


def check_control_part(tool, plugin, prefix, level):
    """The right plugin of those called `prefix`, on the groups of cases that catch the wrong ones."""
    caught_by = {case for name, case in rows().items() if name.startswith(prefix)}
    groups = sorted({case.split(":")[0] for case in caught_by} | ({"split"} if prefix == "comm_" else set()))
    code, report, output = conform(tool, plugin, "--level", level, *filters(f"{g}: *" for g in groups))
    verdicts = {c["name"]: c["verdict"] for c in report["cases"] if c["level"] == int(level)}
    bad = sorted(case for case in caught_by if verdicts.get(case) != "passed")
    expect(code == 0 and not bad, f"these catch a wrong plugin, and the right one does not pass them: {bad}\n{output}")
    print(f"{list(verdicts.values()).count('passed')} cases of level {level} passed")


def check_seeds(tool, plugin):
    """Equal seeds draw and judge the same, two seeds do not."""
    def run(seed):
        report = conform(tool, plugin, "--filter", "op add: f32*", "--seed", seed)[1]
        return [(c["name"], c["verdict"], c["finding"]["drawn"], c["finding"]["checks"]) for c in report["cases"]]
    expect(run("7") == run("7"), "one seed gave two different runs")
    expect(run("7") != run("8"), "two seeds gave the same run")


def told(output, case):
    """How a run's output speaks of a case: its verdict and the first line of its story, without what was measured."""
    lines = output.splitlines()
    at = next((i for i, line in enumerate(lines) if re.match(rf"failed +{re.escape(case)}( |$)", line)), None)
    expect(at is not None, f"'{case}' does not fail:\n{output}")
    return MEASURED.sub("N", lines[at + 1].strip())


def pasted(line):
    """The output of a line that somebody pastes into a shell."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=300)
    expect(done.returncode == 1, f"'{line}' ends with {done.returncode} instead of 1:\n{done.stdout}{done.stderr}")
    return done.stdout


# Their cases draw whole programs and make a failing one smaller: much work, and only the case that catches is asked.
LONG = ("graph_", "gradient_", "update_", "pattern_")
# Its case compiles from many threads at once.
BUSY = ("compile_is_busy",)
# Wrong only in company.
TOGETHER = ("sulks",)
# A sanitizer takes pages of its own, so those of a plugin cannot be told from them.
UNSEEN = ("stream_leaks_pages",)
# What is wrong ends with the process, so every case before and behind the one that catches it passes.
ALONE = ("stays_lost",)


def selected(plugin, case):
    """What is run on a plugin, and each case's deadline: the case's whole group, so that its neighbours get their
    verdicts; in a short run so of the hostile ones and of those that are wrong only together. Ranks that are processes
    take their time to start."""
    name = pathlib.Path(plugin).stem.removeprefix("tenon-")
    if name.startswith(LONG):
        return ["--filter", case, "--deadline", "60"]
    whole = name in HOSTILE or name in TOGETHER + ALONE or os.environ.get("TENON_TEST_FULL") == "1"
    deadline = "30" if name in BUSY else "8" if name.startswith("comm_") else "4"
    return ["--filter", case.split(":")[0] + ": *" if whole else case, "--deadline", deadline]


def check_wrong(tool, plugin, case, *more):
    code, report, output = conform(tool, plugin, *selected(plugin, case), *more)
    verdicts = {c["name"]: c["verdict"] for c in report["cases"]}
    expect(code == 1, f"exit code {code} instead of 1\n{output}")
    expect(verdicts.get(case) == "failed", f"'{case}' is {verdicts.get(case)} instead of failed\n{output}")
    # Without an entry there is nothing to run.
    expect(case.startswith("abi: the entry ") or "not run" not in verdicts.values(), f"some cases were not run\n{output}")
    if pathlib.Path(plugin).stem.removeprefix("tenon-") in ALONE:
        others = {name: verdict for name, verdict in verdicts.items() if name != case}
        expect("failed" not in others.values() and "passed" in others.values(), f"the others must pass: {others}\n{output}")
    failed = next(c for c in report["cases"] if c["name"] == case)
    expect(failed["finding"]["failures"], f"'{case}' failed without a word")
    print(case, "→", failed["finding"]["failures"][0])
    expect("\n" not in failed["again"], f"more than one line: {failed['again']}")
    expect(f"again: {failed['again']}\n" in output, f"the line '{failed['again']}' was not printed:\n{output}")
    again = pasted(failed["again"])
    if case.startswith("op "):
        story = failed["finding"]["failures"][0]
        expect(story in again, f"'{failed['again']}' fails in another way than\n{story}\n{again}")
    first, second = told(output, case), told(again, case)
    expect(first == second, f"pasted, it fails in other words:\n{first}\n{second}")
    expect("stream created" not in output, f"the plugin spoke on our standard output:\n{output}")


def check_rows(folder):
    there = {path.stem for path in pathlib.Path(folder).glob("*.cpp")} - NOT_WRONG
    expect(HOSTILE <= there, f"nothing tests that a run survives {HOSTILE - there}")
    expect(there == set(rows()), f"plugins without a row: {there - set(rows())}; rows without one: {set(rows()) - there}")
    print(len(there), "wrong plugins, each with its row")


def main(arguments):
    if arguments[0] == "--rows":
        check_rows(arguments[1])
    elif arguments[2:] == ["--control"]:
        check_control(arguments[0], arguments[1])
    elif arguments[2:] == ["--control-comm"]:
        check_control_part(arguments[0], arguments[1], "comm_", "3")
    elif arguments[2:] == ["--control-profile"]:
        check_control_part(arguments[0], arguments[1], "profile_", "0")
    elif arguments[2:] == ["--control-fragments"]:
        check_control_part(arguments[0], arguments[1], "comm_fragments_", "3")
    elif arguments[2:] == ["--control-capture"]:
        check_control_part(arguments[0], arguments[1], "capture_", "4")
    else:
        name = pathlib.Path(arguments[1]).stem.removeprefix("tenon-")
        expect(name in rows(), f"README.md has no row for '{name}'")
        if name in UNSEEN and arguments[2:] == ["--sanitized"]:
            print("SKIPPED: sanitizer: its pages hide those of a plugin")
            sys.exit(77)
        check_wrong(arguments[0], arguments[1], rows()[name])
        if name in TOGETHER:  # the company of other groups, too
            check_wrong(arguments[0], arguments[1], rows()[name], "--filter", "copy: *", "--together", "2")


if __name__ == "__main__":
    main(sys.argv[1:])
