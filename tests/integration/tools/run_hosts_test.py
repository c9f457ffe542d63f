#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon run --hosts`: ranks on other machines, which are this one behind a stand-in for ssh, and a network namespace."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from tool import TOOL
from run_case import FAMILY, STUBBORN, TELL, Far, lines_of, main, python, shell

BUILD = pathlib.Path(TOOL).resolve().parents[1]
PLUGINS = pathlib.Path(os.environ["TENON_TEST_PLUGIN_DIR"])


class Hosts(Far):
    def test_ranks_are_dealt_out_and_their_environment_passes_unchanged(self):
        odd = "a'b\"$(touch x)\n;ü"
        done = self.run_it(*self.far("alpha:2,localhost,beta"), "--env", f"ODD={odd}", "--env", "PASSED", *python(TELL),
                           PASSED="yes", HERE_ONLY="1", TENON_LOG="info", cwd=self.folder)
        self.expect(done, 0)
        tables = [json.loads(lines_of(done, rank)[0]) for rank in range(4)]
        self.assertEqual([t.get("STAND_IN_HOST") for t in tables], ["alpha", "alpha", None, "beta"])
        self.assertEqual([t["TENON_LOCAL_RANK"] for t in tables], ["0", "1", "0", "0"])
        self.assertEqual([t["TENON_LOCAL_SIZE"] for t in tables], ["2", "2", "1", "1"])
        self.assertEqual({t["ODD"] for t in tables}, {odd})
        self.assertEqual({(t["PASSED"], t["TENON_LOG"]) for t in tables}, {("yes", "info")})
        self.assertEqual([("HERE_ONLY" in t) for t in tables], [False, False, True, False])
        self.assertEqual(len({t["TENON_STORE_TOKEN"] for t in tables}), 1)
        self.assertIn("alpha", done.stderr)
        calls = self.calls()
        self.assertEqual(sorted(call[:3] for call in calls), [["-p", "22", "alpha"], ["-p", "22", "beta"]])
        self.assertEqual({call[3] for call in calls}, {f"exec '{TOOL}' run --keeper"})

    def test_ranks_start_in_the_same_folder_or_say_that_it_is_not_there(self):
        done = self.run_it(*self.far("alpha"), *shell("pwd"), cwd=self.folder)
        self.assertEqual(lines_of(done, 0), [str(self.folder.resolve())])

    def token_of_a_rank(self):
        """What becomes another program has no environment for a moment, so it is looked at until there is one."""
        name, deadline = b"TENON_STORE_TOKEN=", time.monotonic() + 30
        while time.monotonic() < deadline:
            for pid in self.living():
                for variable in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if variable.startswith(name):
                        return variable[len(name):].decode()
        return self.fail("no living process has the token in its environment")

    def test_no_command_line_holds_the_token(self):
        job = self.begin(*self.far("alpha:1,beta:1"), *shell('echo "token $TENON_STORE_TOKEN"; exec sleep 300'), until="token")
        token = self.token_of_a_rank()
        self.assertEqual(len(token), 32)
        for pid, words in self.living().items():
            self.assertFalse(any(token in word for word in words), words)
        job.send_signal(signal.SIGINT)
        self.expect(self.end(job), 130)

    def test_a_failure_on_one_host_ends_the_others(self):
        done = self.run_it(*self.far("alpha:2,beta:2"), *shell('[ "$TENON_RANK" = 3 ] && exit 9; exec sleep 300'))
        self.expect(done, 9, "rank 3 on beta ended with exit code 9", "ending 3 ranks", where="stderr")

    def test_a_lost_connection_ends_the_ranks_on_both_sides(self):
        job = self.begin(*self.far("alpha:1,beta:1"), "--grace", "0.5", *python(FAMILY, STUBBORN), count=4)
        relay = next(pid for pid, words in self.living().items() if str(self.folder / "ssh") in words and "beta" in words)
        os.kill(relay, signal.SIGKILL)
        self.expect(self.end(job), 1, "host beta: the connection is lost: its command was killed by SIGKILL", where="stderr")
        self.expect_nothing_left()

    def test_a_killed_launcher_leaves_nothing_on_other_hosts(self):
        job = self.begin(*self.far("alpha:1,beta:1"), "--grace", "0.5", *python(FAMILY, STUBBORN), count=4)
        job.kill()
        job.wait()
        self.expect_nothing_left()

    def test_what_a_remote_shell_prints_first_is_passed_by(self):
        noisy = self.folder / "noisy"
        noisy.write_text(f"#!/bin/sh\necho Welcome; echo warning >&2; exec {self.stand_in()} \"$@\"\n")
        noisy.chmod(0o755)
        done = self.run_it(*self.far("alpha", ssh=noisy), *shell("echo hello"))
        self.expect(done, 0, "[alpha] Welcome", "[alpha] warning", where="stderr")
        self.assertEqual(done.stdout, "[0] hello\n")

    def test_what_cannot_be_reached_says_why(self):
        self.expect(self.run_it(*self.far("alpha", ssh="no-such-ssh"), *shell("true")), 1, "no-such-ssh", where="stderr")
        done = self.run_it(*self.far("alpha"), "--remote-tenon", "/no such/tenon", *shell("true"))
        self.expect(done, 1, "[alpha] ", "/no such/tenon", "--remote-tenon", where="stderr")


class Silence(Far):
    def test_silence_ends_both_sides(self):
        if os.environ.get("TENON_TEST_FULL") != "1":
            self.skipTest("takes a minute; runs with the full counts")
        job = self.begin(*self.far("alpha:1"), "--grace", "0.5", *python(FAMILY, STUBBORN), count=2)
        job.send_signal(signal.SIGSTOP)
        self.wait_until(lambda: list(self.living()) == [job.pid], "ranks outlive a silent launcher", 60)
        job.send_signal(signal.SIGCONT)
        self.expect(self.end(job), 1, "host alpha", where="stderr")


class Network(Far):
    def network(self):
        """Another network behind a stand-in for ssh: that, this side's interface, and the address of the other side."""
        space, here, there = (f"tnrun{self.mark[:5]}{c}" for c in "nab")

        def ip(*words):
            return subprocess.run(["ip", *words], text=True, capture_output=True)

        if shutil.which("ip") is None:
            self.skipTest("no network namespaces here: iproute2 is not installed")
        made = ip("netns", "add", space) if os.geteuid() == 0 else None
        if made is None or made.returncode != 0:
            self.skipTest(f"no network namespaces here: {made.stderr if made else 'not root'}")
        self.addCleanup(ip, "netns", "del", space)
        for words in (("link", "add", here, "type", "veth", "peer", "name", there, "netns", space),
                      ("addr", "add", "10.231.77.1/30", "dev", here), ("link", "set", here, "up"),
                      ("-n", space, "addr", "add", "10.231.77.2/30", "dev", there), ("-n", space, "link", "set", there, "up")):
            done = ip(*words)
            if done.returncode != 0:
                self.skipTest(f"ip {' '.join(words)}: {done.stderr}")
        return self.stand_in(["ip", "netns", "exec", space]), here, there

    def test_another_network_reaches_the_store_over_the_named_interface_only(self):
        ssh, here, _ = self.network()
        code = ("import os, socket\nhost, port = os.environ['TENON_STORE'].removeprefix('tcp://').split(':')\n"
                "line = socket.create_connection((host, int(port)), 10)\n"
                "print(host, line.getsockname()[0], len(line.recv(1)))")
        done = self.run_it(*self.far("alpha,localhost", ssh=ssh, interface=here), *python(code))
        self.expect(done, 0)
        self.assertEqual(lines_of(done, 0), ["10.231.77.1 10.231.77.2 1"])
        self.assertEqual(lines_of(done, 1), ["10.231.77.1 10.231.77.1 1"])

    def test_ranks_of_two_hosts_sum(self):
        """Each host has two ranks, whose connections take the interface that is named to them."""
        if not (PLUGINS / "libtenon-gloo.so").exists():
            self.skipTest("libtenon-gloo.so is not built")
        ssh, here, there = self.network()
        host = f'if [ "$STAND_IN_HOST" ]; then at=alpha over={there}; else at=here over={here}; fi'
        done = self.run_it(*self.far("alpha:2,localhost:2", ssh=ssh, interface=here), "--env", f"TENON_PLUGIN_PATH={PLUGINS}",
                           *shell(f'{host}; TENON_CPU_HOST=$at TENON_CPU_INTERFACE=$over exec "{BUILD}/bin/all_reduce"'))
        self.expect(done, 0)
        for rank in range(4):
            self.assertEqual(lines_of(done, rank), [f"rank {rank} of 4: the mean of 1048576 elements is 1.5, right"])


if __name__ == "__main__":
    main()
