#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_check_test.py SCRIPT BUILD FAKECUDA_FOLDER: plugins/cuda/gpu-check.sh does each of its steps, and tells which failed.

Once the tool and the plugin of BUILD run over the test-only driver, on a sample of the suite; then a tool made of a few
lines of shell fails, hangs or has no device. compute-sanitizer, the benchmark's harness and cmake are stand-ins each time:
what they are asked is looked at, not what they would measure.
Invariant: a step counts as done by what it left behind, never by the script's word alone.
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

import needs_device

# What the tool says of a machine with a device, and without one.
DEVICE = r"cuda:0  Fake H200\n      GPU, 132 compute units, id 0000:01:00.0, driver CUDA 13.0, NVRTC 12.8\n"
NO_DEVICE = r"cpu:0  A processor\n"
TOOL = """#!/bin/sh
case $1 in
  doctor) printf '{devices}' ;;
  conform) {conform} ;;
esac
"""
SAMPLED = """#!/bin/sh
case "$*" in
  *libraries.json*) exec '{tool}' "$@" --filter 'op add: f32*' {declared} ;;
  *send_recv*) exec '{tool}' "$@" --sample 20 {declared} ;;
  *'--level 3'*) exec '{tool}' "$@" {declared} ;;
  conform*) exec '{tool}' "$@" {declared} ;;
esac
exec '{tool}' "$@"
"""
STUBS = {
    "compute-sanitizer": 'echo "$*" >"$SEEN/sanitizer"; exit ${SANITIZER:-0}',
    "python3": 'case $1 in -c) echo 2.9;; *) echo "$TENON_BENCH_PLUGIN_DIR $*" >"$SEEN/bench"; echo "{}" >"$6"; '
               'exit ${BENCH:-0};; esac',
    "cmake": 'echo "$*" >>"$SEEN/cmake"; exit ${CMAKE:-0}',
    "nvidia-smi": 'case $1 in *=name) echo "Fake H200";; *) echo 580.1;; esac',
}


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


class Machine:
    """A folder with stand-ins, a build, and what was seen by them."""

    def __init__(self, script, folder, name):
        self.script, self.folder = script, folder / name
        self.seen = self.folder / "seen"
        self.seen.mkdir(parents=True)
        for stub, text in STUBS.items():
            program(self.folder / "stubs" / stub, f"#!/bin/sh\n{text}\n")
        self.build = self.folder / "a build"

    def tool(self, devices=DEVICE, conform="echo 7 passed"):
        program(self.build / "bin" / "tenon", TOOL.format(devices=devices, conform=conform))
        return self

    def run(self, *arguments, build=True, **variables):
        """The exit status, what was printed, and the report."""
        path = f"{self.folder / 'stubs'}:{os.environ['PATH']}"
        words = [self.script, *(["--build", self.build] if build else []), "--out", self.folder / "out", *arguments]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=500,
                              env=dict(os.environ, PATH=path, SEEN=str(self.seen), **variables))
        report = json.loads((self.folder / "out" / "gpu-check.json").read_text(encoding="utf-8"))
        return done.returncode, done.stdout, report


def verdicts(report):
    return {step["name"]: step["verdict"] for step in report["steps"]}


def expect(findings, what, holds, *said):
    if not holds:
        findings.append(f"{what}: {' '.join(str(word) for word in said)}")


def all_steps(machine, tool, library, driver):
    """The real tool and plugin; every step has left what it should."""
    findings = []
    declared = needs_device.arguments(library / "tenon" / "plugins" / "tenon-cuda.so", machine.folder)
    program(machine.build / "bin" / "tenon", SAMPLED.format(tool=tool, declared=shlex.join(declared)))
    (machine.build / "lib").symlink_to(library)
    # The real NCCL has nothing to do with a driver for tests; where it is installed threads alone join.
    code, printed, report = machine.run("--sample", "400", LD_LIBRARY_PATH=driver, FAKECUDA="seed=1", TENON_CUDA_NCCL="off")
    wanted = {name: "passed" for name in ("doctor", "bench", "conformance", "libraries", "collectives", "sanitizer")}
    expect(findings, "all steps pass but NCCL's", code == 0 and verdicts(report) == wanted | {"nccl": "skipped"}, code, printed)
    kit = machine.folder / "out" / "conformance.json"
    expect(findings, "the kit leaves its report", kit.is_file() and (machine.folder / "out" / "conformance.html").is_file())
    expect(findings, "versions", [report[key] for key in ("cuda", "nvrtc", "driver", "gpu", "torch")] ==
           ["13.0", "13.0", "580.1", "Fake H200", "2.9"], report)
    expect(findings, "the command as it was given", "--build" in report["command"] and "build" in report["command"] and
           "--out" in report["command"], report["command"])
    sanitizer, bench = ((machine.seen / name).read_text(encoding="utf-8") for name in ("sanitizer", "bench"))
    expect(findings, "the sanitizer runs the kit", f"{machine.build}/bin/tenon conform {machine.build}/lib" in sanitizer,
           sanitizer)
    expect(findings, "the benchmark finds the plugin of this build",
           bench.startswith(f"{machine.build}/lib/tenon/plugins ") and f"--bin {machine.build}/bin" in bench, bench)
    return findings


def failures(fresh):
    """Each step that fails is told as failed, and no other."""
    findings = []
    cases = [("conformance", fresh("kit").tool(conform='case "$*" in *"level 4"*) exit 1 ;; esac'), {}),
             ("libraries", fresh("libraries").tool(conform='case "$*" in *libraries.json*) exit 1 ;; esac'), {}),
             ("collectives", fresh("ranks").tool(conform='case "$*" in *send_recv*) exit 1 ;; esac'), {}),
             ("sanitizer", fresh("sanitizer").tool(), {"SANITIZER": "1"}),
             ("bench", fresh("bench").tool(), {"BENCH": "2"})]
    for name, machine, variables in cases:
        code, printed, report = machine.run(**variables)
        failed = [step for step, verdict in verdicts(report).items() if verdict == "failed"]
        expect(findings, f"{name} fails alone", code == 1 and failed == [name] and "1 failed" in printed, code, printed)
    code, printed, _ = fresh("missed").tool().run(BENCH="1")
    expect(findings, "a missed target is no failure", code == 0, code, printed)
    return findings


# A tool whose NCCL says in its log what it joined.
JOINS = """[ -z "$NCCL_DEBUG_FILE" ] || echo 'rank 0 nranks 1 - Init COMPLETE' >"${NCCL_DEBUG_FILE%%%p}7"; echo 7 passed"""


def joined(fresh):
    """NCCL's step passes where NCCL joined something, and is skipped in words where threads did all of it."""
    findings = []
    for name, conform, wanted, said in (("joined", JOINS, "passed", "7 passed"),
                                        ("threads", "echo 7 passed", "skipped", "NCCL joined no communicator"),
                                        ("refused", 'case "$*" in *f32*) exit 1 ;; esac', "failed", "")):
        machine = fresh(f"nccl {name}").tool(conform=conform)
        program(machine.folder / "libraries" / "libnccl.so.2", "no library: only its name is looked for")
        program(machine.folder / "out" / "nccl-joined.1", "Init COMPLETE, of an earlier run")
        _, printed, report = machine.run(LD_LIBRARY_PATH=str(machine.folder / "libraries"))
        step = next(step for step in report["steps"] if step["name"] == "nccl")
        expect(findings, f"NCCL's step, {name}", step["verdict"] == wanted and said in step["words"], step, printed)
    return findings


def building(fresh):
    findings = []
    machine = fresh("building")
    _, printed, report = machine.run("--seconds", "60", build=False)
    asked = (machine.seen / "cmake").read_text(encoding="utf-8").splitlines()
    expect(findings, "the build is configured and made", verdicts(report)["build"] == "passed" and len(asked) == 2 and
           asked[0].startswith("--preset release") and "tenon_plugin_cuda" in asked[1], printed, asked)
    code, printed, report = fresh("broken").run("--seconds", "60", build=False, CMAKE="3")
    expect(findings, "a build that fails", code == 1 and verdicts(report)["build"] == "failed", printed)
    return findings


def deadlines(fresh):
    """A step that hangs is ended, and what comes after the time is over is skipped, in words."""
    findings = []
    begin = time.monotonic()
    code, printed, report = fresh("hanging").tool(conform="exec tail -f /dev/null").run("--seconds", "10")
    steps = {step["name"]: step for step in report["steps"]}
    expect(findings, "a step that hangs has failed", code == 1 and steps["conformance"]["verdict"] == "failed" and
           "not done after" in steps["conformance"]["words"], printed)
    expect(findings, "what is left is skipped", steps["sanitizer"]["verdict"] == "skipped" and
           "none of the 10 s was left" in steps["sanitizer"]["words"], printed)
    expect(findings, "the time is kept", time.monotonic() - begin < 60)
    return findings


def no_device(fresh):
    code, printed, report = fresh("none").tool(devices=NO_DEVICE).run()
    skipped = [name for name, verdict in verdicts(report).items() if verdict == "skipped"]
    findings = []
    expect(findings, "without a device all but one step are skipped",
           code == 0 and skipped == ["bench", "conformance", "libraries", "collectives", "nccl", "sanitizer"] and report["cuda"] == "none", printed)
    return findings


def main(script, build, driver):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()

        def fresh(which):
            return Machine(script, folder, which)

        findings = failures(fresh) + joined(fresh) + building(fresh) + deadlines(fresh) + no_device(fresh)
        findings += all_steps(fresh("all"), pathlib.Path(build) / "bin" / "tenon", pathlib.Path(build) / "lib", driver)
    print("\n".join(findings) or "gpu-check.sh: every step runs, and each failure is told")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
