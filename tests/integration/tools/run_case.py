# SPDX-License-Identifier: Apache-2.0
"""What the tests of `tenon run` share: jobs, their processes, and a stand-in for ssh.
Invariant: after every job, however it ended, no process of it is left; each process that a test starts carries a mark of
the test's own in its environment, and is looked for in /proc by that.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest
import uuid

from tool import TOOL, Case, clean

TELL = "import json, os; print(json.dumps({k: v for k, v in os.environ.items()}), flush=True)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(300)"
# A rank that hangs, with a child that hangs in a session of its own; neither obeys SIGTERM.
FAMILY = ("import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)\n"
          "exec(sys.argv[1])")


def python(code, *arguments):
    return ("--", sys.executable, "-c", code, *arguments)


def shell(text):
    return ("--", "sh", "-c", text)


def lines_of(done, rank):
    return [line.partition("] ")[2] for line in done.stdout.splitlines() if line.partition("]")[0].strip("[ ") == str(rank)]


def heed_signals():
    """What runs these tests may ignore some (nohup), and the launcher would respect that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Run(Case):
    def setUp(self):
        super().setUp()
        self.mark = uuid.uuid4().hex
        self.addCleanup(self.expect_nothing_left)

    def environment(self, **more):
        out = clean(RUN_TEST_MARK=self.mark, **more)
        return {k: v for k, v in out.items() if k != "OMP_NUM_THREADS" or k in more}

    def run_it(self, *words, cwd=None, stdout=subprocess.PIPE, **environment):
        return subprocess.run([TOOL, "run", *map(str, words)], env=self.environment(**environment), cwd=cwd, text=True,
                              stdout=stdout, stderr=subprocess.PIPE, timeout=100, errors="surrogateescape")

    def begin(self, *words, until="ready", count=1, **environment):
        """A job in the background that has written `until` so often."""
        job = subprocess.Popen([TOOL, "run", *map(str, words)], env=self.environment(**environment), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               preexec_fn=heed_signals)
        self.addCleanup(job.kill)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        while count > 0:
            line = job.stdout.readline()
            self.assertTrue(line, "the job ended before it was ready")
            count -= until in line
        return job

    def end(self, job, limit=60):
        out, errors = job.communicate(timeout=limit)
        return subprocess.CompletedProcess(job.args, job.returncode, out, errors)

    def living(self):
        """Every process with this test's mark: {pid: words of its command}."""
        found, mark = {}, f"RUN_TEST_MARK={self.mark}".encode()
        for folder in pathlib.Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has ended, or is not ours
        return found

    def keepers(self):
        return [pid for pid, words in self.living().items() if "--keeper" in words]

    def expect_nothing_left(self):
        self.wait_until(lambda: not self.living(), lambda: f"left: {self.living()}")


# Runs the line that is meant for another machine here, as sshd would: in a shell, with pipes of its own that close when the
# connection does.
STAND_IN = """#!{python}
import json, os, subprocess, sys, threading
host, line = sys.argv[-2:]
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
there = dict(os.environ, STAND_IN_HOST=host)
for name in [name for name in there if name.startswith("TENON_") or name in ("HERE_ONLY", "PASSED")]:
    del there[name]
command = {before!r} + ["sh", "-c", line]
worker = subprocess.Popen(command, env=there, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", start_new_session=True)
def carry(source, target):
    while data := os.read(source, 65536):
        while data:
            data = data[os.write(target, data):]
    os.close(target)
threading.Thread(target=carry, args=(0, worker.stdin.fileno()), daemon=True).start()
carry(worker.stdout.fileno(), 1)
sys.exit(worker.wait())
"""


class Far(Run):
    def stand_in(self, before=(), name="ssh"):
        path = self.folder / name
        path.write_text(STAND_IN.format(python=sys.executable, log=str(self.folder / "calls"), before=list(before)))
        path.chmod(0o755)
        return path

    def far(self, hosts, *words, ssh=None, interface="127.0.0.1"):
        return "--hosts", hosts, "--interface", interface, "--ssh", ssh or f"{self.stand_in()} -p 22", *words

    def calls(self):
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


def main():
    """Runs the classes that the command line names; 77 when all that ran was skipped."""
    done = unittest.main(module="__main__", argv=sys.argv, exit=False).result
    only_skips = done.skipped and len(done.skipped) == done.testsRun
    sys.exit(77 if only_skips else not done.wasSuccessful())
