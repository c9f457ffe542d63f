#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon run` from outside, with real processes: what ranks are given, what is written, how a job ends."""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import time

from run_case import FAMILY, STUBBORN, TELL, Run, lines_of, main, python, shell

BUILD = pathlib.Path(os.environ["TENON_TEST_BUILD_DIR"])


class Environment(Run):
    def test_each_rank_gets_its_variables_and_the_table_says_so(self):
        done = self.run_it("-n", 3, "--bind", "none", *python(TELL))
        self.expect(done, 0)
        tables = [json.loads(lines_of(done, rank)[0]) for rank in range(3)]
        for rank, table in enumerate(tables):
            self.assertEqual([table[f"TENON_{name}"] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "RESTART")],
                             [str(rank), "3", str(rank), "3", "0"])
            self.assertTrue(table["TENON_STORE"].startswith("tcp://127.0.0.1:"))
            self.assertEqual(table["TENON_STORE_SERVER"], "launcher")
            self.assertNotIn("TENON_DEVICE", table)
            self.assertGreaterEqual(int(table["OMP_NUM_THREADS"]), 1)
        self.assertEqual(len({table["TENON_STORE_TOKEN"] for table in tables}), 1)
        self.assertGreaterEqual(len(tables[0]["TENON_STORE_TOKEN"]), 32)
        for part in ("TENON_SIZE=3", tables[0]["TENON_STORE"], "TENON_RANK", "localhost", "any"):
            self.assertIn(part, done.stderr)
        self.assertNotIn(tables[0]["TENON_STORE_TOKEN"], done.stderr)
        self.assertNotIn("\033", done.stdout + done.stderr)

    def test_what_was_set_before_wins_for_threads_and_loses_for_ranks(self):
        done = self.run_it("-n", 1, "--env", "A=b c", "--env", "A2=", *python(TELL), OMP_NUM_THREADS="5", TENON_RANK="9")
        table = json.loads(lines_of(done, 0)[0])
        self.assertEqual([table[k] for k in ("OMP_NUM_THREADS", "TENON_RANK", "A", "A2")], ["5", "0", "b c", ""])
        self.expect(done, 0, "5 (as it was set)", where="stderr")

    def test_devices_go_round_by_local_rank(self):
        done = self.run_it("--devices", "cpu:1,0", *python(TELL))
        self.assertEqual([json.loads(lines_of(done, rank)[0])["TENON_DEVICE"] for rank in range(2)], ["cpu:1", "0"])
        self.expect(done, 0, "TENON_DEVICE", "cpu:1", where="stderr")

    def test_cores_are_disjoint_and_as_the_table_says(self):
        cores = len(os.sched_getaffinity(0))
        if cores < 2:
            self.skipTest("one core")
        done = self.run_it("-n", 2, "--bind", "auto", *python("import os; print(sorted(os.sched_getaffinity(0)))"))
        sets = [set(json.loads(lines_of(done, rank)[0])) for rank in range(2)]
        if len(sets[0] & sets[1]) == 0:
            self.assertLessEqual(sets[0] | sets[1], os.sched_getaffinity(0))
        else:  # two threads of one core
            self.expect(done, 0, "any", where="stderr")
        many = self.run_it("-n", cores + 1, "--bind", "core", *shell("true"))
        self.expect(many, 2, "--bind is 'core'", "use --bind none", where="stderr")

    def test_arguments_arrive_as_they_are(self):
        odd = ["", "a b", "--", "-n", "[1,2]", "$HOME", "ü\n'\""]
        done = self.run_it("-n", 1, *python("import json, sys; print(json.dumps(sys.argv[1:]))", *odd))
        self.assertEqual(json.loads(lines_of(done, 0)[0]), odd)

    def test_standard_input_is_empty_and_no_descriptor_is_inherited(self):
        done = self.run_it("-n", 1, *python("import os, sys; print(len(sys.stdin.read()), len(os.listdir('/proc/self/fd')))"))
        self.assertEqual(lines_of(done, 0), ["0 4"])  # three, and the folder

    def test_64_ranks(self):
        done = self.run_it("-n", 64, "--quiet", *shell('echo "$TENON_RANK of $TENON_SIZE"'))
        self.expect(done, 0)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"[{r:2}] {r} of 64" for r in range(64)))
        self.assertEqual(done.stderr, "")


class Sample(Run):
    def test_all_reduce_meets_over_the_launchers_store(self):
        program = BUILD / "bin" / "all_reduce"
        if not program.exists():
            self.skipTest(f"{program} is not built")
        for size in (2, 3):
            done = self.run_it("-n", size, "--", program, TENON_PLUGIN_PATH=os.environ["TENON_TEST_PLUGIN_DIR"])
            self.expect(done, 0)
            for rank in range(size):
                self.assertIn(f"[{rank}] rank {rank} of {size}: the mean of 1048576 elements is {(size - 1) / 2:g}, right",
                              done.stdout)


class Ends(Run):
    def test_the_first_failure_is_the_jobs_exit_code(self):
        done = self.run_it("-n", 3, *shell('[ "$TENON_RANK" != 1 ] || exit 3; exec sleep 300'))
        self.expect(done, 3, "rank 1 on localhost ended with exit code 3", "ending 2 ranks", where="stderr")

    def test_a_signal_is_128_and_its_number(self):
        done = self.run_it("-n", 2, *shell('[ "$TENON_RANK" != 1 ] || kill -SEGV $$; exec sleep 300'))
        self.expect(done, 139, "rank 1 on localhost was killed by SIGSEGV", where="stderr")

    def test_ranks_that_hang_and_their_children_are_killed_after_the_grace_time(self):
        begun = time.monotonic()
        gate = self.folder / "gate"
        os.mkfifo(gate)
        code = f"import os\nif os.environ['TENON_RANK'] == '1': open({str(gate)!r}).read(); os._exit(7)\n{FAMILY}"
        job = self.begin("-n", 3, "--grace", "0.5", *python(code, STUBBORN), count=4)
        gate.write_text("the others are stubborn now")
        done = self.end(job)
        self.expect(done, 7, "after 500 ms with SIGKILL", where="stderr")
        self.assertLess(time.monotonic() - begun, 20)

    def test_ranks_that_obey_are_not_waited_for(self):
        begun = time.monotonic()
        done = self.run_it("-n", 2, "--grace", "1h", *shell('[ "$TENON_RANK" = 1 ] && exit 4; exec sleep 300'))
        self.expect(done, 4)
        self.assertLess(time.monotonic() - begun, 20)

    def test_what_a_good_rank_leaves_behind_is_ended(self):
        self.expect(self.run_it("-n", 2, *shell("setsid sleep 300 & exit 0")), 0)

    def test_timeout(self):
        done = self.run_it("-n", 2, "--timeout", "1s", *shell("exec sleep 300"))
        self.expect(done, 124, "longer than --timeout 1s", "2 ranks had not ended", where="stderr")
        self.expect(self.run_it("-n", 1, "--timeout", "1h", *shell("exit 0")), 0)

    def test_signals_to_the_launcher_end_all(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            job = self.begin("-n", 2, *shell("setsid sleep 300 & echo ready; wait"), count=2)
            job.send_signal(number)
            self.expect(self.end(job), code, f"got {number.name}", where="stderr")
            self.expect_nothing_left()

    def test_a_rank_may_end_well_on_its_own_when_it_is_told(self):
        job = self.begin("-n", 2, *shell("trap 'echo saved; exit 0' TERM; echo ready; sleep 300 & wait"), count=2)
        job.send_signal(signal.SIGINT)
        done = self.end(job)
        self.expect(done, 130)
        self.assertEqual(done.stdout.count("saved"), 2)

    def test_a_second_interrupt_does_not_wait(self):
        job = self.begin("-n", 2, "--grace", "1h", *python(FAMILY, STUBBORN), count=4)
        job.send_signal(signal.SIGINT)
        while "ending" not in job.stderr.readline():
            pass
        job.send_signal(signal.SIGINT)
        self.expect(self.end(job, 20), 130, "got SIGINT: killing what is left", where="stderr")

    def test_nothing_outlives_a_launcher_that_is_killed(self):
        job = self.begin("-n", 2, "--grace", "0.5", *python(FAMILY, STUBBORN), count=4)
        job.kill()
        job.wait()
        self.expect_nothing_left()

    def test_nothing_outlives_a_keeper_that_is_killed(self):
        job = self.begin("-n", 2, *python(FAMILY, STUBBORN), count=4)
        for pid in self.keepers():
            os.kill(pid, signal.SIGKILL)
        self.expect(self.end(job), 1, "the keeper of its ranks was killed by SIGKILL", where="stderr")
        self.expect_nothing_left()

    def test_a_program_that_cannot_be_started(self):
        (self.folder / "text").write_text("hello")
        self.expect(self.run_it("-n", 2, "--", "no-such-program"), 127, "cannot start 'no-such-program'", "No such file",
                    where="stderr")
        self.expect(self.run_it("-n", 2, "--", self.folder / "text"), 126, "Permission denied", where="stderr")
        self.expect(self.run_it("-n", 2, "--", self.folder), 126, "Permission denied", where="stderr")

    def test_output_that_nobody_reads_ends_the_job(self):
        job = self.begin("-n", 2, *shell("echo ready; while :; do echo more; done"))
        job.stdout.close()
        self.assertEqual(job.wait(timeout=60), 141)

    def test_restarts_begin_with_a_new_store(self):
        code = ("import os; print(os.environ['TENON_STORE_TOKEN'], os.environ['TENON_RESTART'], flush=True); "
                "exit(0 if os.environ['TENON_RESTART'] == '2' else 5)")
        done = self.run_it("-n", 1, "--restarts", 3, "--log-dir", self.folder / "logs", *python(code))
        self.expect(done, 0)
        told = [line.split() for line in lines_of(done, 0)]
        self.assertEqual([restart for _, restart in told], ["0", "1", "2"])
        self.assertEqual(len({token for token, _ in told}), 3)
        self.assertIn("restart 2 of 3", done.stderr)
        self.assertEqual(sorted(path.name for path in (self.folder / "logs").iterdir()),
                         ["rank-0.log", "rank-0.restart-1.log", "rank-0.restart-2.log"])
        self.expect(self.run_it("-n", 1, "--restarts", 1, *shell("exit 6")), 6, "restart 1 of 1", where="stderr")

    def test_each_restart_has_a_folder_of_its_own_for_flight_records(self):
        code = ("import os, pathlib; at = pathlib.Path(os.environ['TENON_FLIGHT_DIR']); at.mkdir(exist_ok=True); "
                "print(at.name, sorted(p.name for p in at.iterdir()), flush=True); "
                "(at / 'world.0.rank0.json').write_text('{}'); (at / 'notes').write_text(''); exit(5)")
        for begun in ("[]", "['notes']"):  # what an earlier run of the same folder wrote goes, what is no record stays
            done = self.run_it("-n", 1, "--restarts", 1, "--log-dir", self.folder / "logs", *python(code))
            self.assertEqual(lines_of(done, 0), [f"flight {begun}", f"flight.restart-1 {begun}"])

    def test_ranks_that_find_out_whom_they_lost_are_not_ended_before(self):
        code = ("import os, pathlib, signal, sys; at = pathlib.Path(sys.argv[1])\n"
                "if os.environ['TENON_RANK'] == '1':\n"
                "    (at / 'new').write_text(str(os.getpid())); (at / 'new').rename(at / 'pid'); os.kill(os.getpid(), signal.SIGKILL)\n"
                "while not (at / 'pid').exists(): os.sched_yield()\n"
                "try:\n"
                "    while True: os.kill(int((at / 'pid').read_text()), 0); os.sched_yield()\n"
                "except ProcessLookupError: print('rank 1 is lost', flush=True)")
        done = self.run_it("-n", 2, *python(code, self.folder))
        self.expect(done, 128 + signal.SIGKILL)
        self.assertEqual(lines_of(done, 0), ["rank 1 is lost"])
        self.assertNotIn("SIGTERM", done.stderr)

    def test_restarts_are_for_ranks_that_fail_only(self):
        for words, code in ((("--timeout", "0.5", *shell("exec sleep 300")), 124), (("--", "no-such-program"), 127)):
            done = self.run_it("-n", 1, "--restarts", 3, *words)
            self.expect(done, code)
            self.assertNotIn("restart 1", done.stderr)


class Lost(Run):
    def test_ranks_of_a_hierarchy_are_told_whom_they_lost_and_leave_records(self):
        program = BUILD / "tests" / "bin" / "tools_lost_rank"
        logs = self.folder / "logs"
        done = self.run_it("-n", 4, "--log-dir", logs, "--", program, TENON_PLUGIN_PATH=os.environ["TENON_TEST_PLUGIN_DIR"])
        self.expect(done, 128 + signal.SIGKILL, "rank 3 on localhost was killed by SIGKILL", where="stderr")
        for rank in range(3):
            self.assertIn("rank 3 gives no sign of life", "\n".join(lines_of(done, rank)))
        self.assertNotIn("SIGTERM", done.stderr)
        self.assertEqual(sorted(path.name.rpartition(".rank")[2] for path in (logs / "flight").glob("world.0.*.json")),
                         ["0.json", "1.json", "2.json"])


class Writing(Run):
    def test_lines_of_several_ranks_never_mix(self):
        code = ("import os, sys\nfor i in range(300):\n"
                "    for part in ('a' * 50, str(i), 'b' * 50 + '\\n'):\n"
                "        [sys.stdout, sys.stderr][i % 2].write(part); [sys.stdout, sys.stderr][i % 2].flush()")
        done = self.run_it("-n", 3, "--quiet", *python(code))
        self.expect(done, 0)
        for text, parity in ((done.stdout, 0), (done.stderr, 1)):
            expected = [f"[{r}] {'a' * 50}{i}{'b' * 50}" for r in range(3) for i in range(300) if i % 2 == parity]
            self.assertEqual(sorted(text.splitlines()), sorted(expected))

    def test_an_open_last_line_and_a_very_long_one_are_whole(self):
        done = self.run_it("-n", 2, "--quiet", *python("import sys; sys.stdout.write('x' * 900_000 + '\\nend')"))
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"[{r}] {t}" for r in range(2) for t in ("x" * 900_000, "end")))

    def test_a_megabyte_of_output_is_complete_before_the_end_is_told(self):
        done = self.run_it("-n", 2, "--quiet", *python("for i in range(40_000): print(i, 'x' * 20)\nraise SystemExit(3)"))
        self.expect(done, 3)
        rank = done.stderr[done.stderr.index("rank ") + 5]
        self.assertEqual(lines_of(done, rank)[-1], "39999 " + "x" * 20)
        self.assertEqual(len(lines_of(done, rank)), 40_000)

    def test_log_files_hold_what_was_written_byte_for_byte(self):
        code = r"import os, sys; os.write(1, b'out\r\n\xff'); os.write(2, b'err' + os.environ['TENON_RANK'].encode())"
        done = self.run_it("-n", 2, "--log-dir", "a/b", *python(code), cwd=self.folder)
        self.expect(done, 0)
        for rank in range(2):
            found = (self.folder / "a" / "b" / f"rank-{rank}.log").read_bytes()
            self.assertEqual(sorted(found), sorted(b"out\r\n\xfferr" + str(rank).encode()))
        self.expect(self.run_it("-n", 1, "--log-dir", "a/b", *shell("exit 3"), cwd=self.folder), 3, "its log is a/b/rank-0.log",
                    where="stderr")

    def test_a_log_folder_that_cannot_be(self):
        (self.folder / "file").write_text("")
        self.expect(self.run_it("-n", 1, "--log-dir", self.folder / "file", *shell("true")), 1, "--log-dir is '",
                    where="stderr")

    def on_terminal(self, **environment):
        leader, follower = pty.openpty()
        done = self.run_it("-n", 2, *shell("echo hello"), stdout=follower, TERM="xterm", **environment)
        os.close(follower)
        text = os.read(leader, 1 << 16).decode()
        os.close(leader)
        self.expect(done, 0, where="stderr")
        return text

    def test_colours_on_a_terminal_unless_no_color(self):
        self.assertRegex(self.on_terminal(), "\033\\[\\d+m\\[0\\]\033\\[0m hello\r\n")
        self.assertEqual(sorted(self.on_terminal(NO_COLOR="1").split()), ["[0]", "[1]", "hello", "hello"])


class Words(Run):
    def test_bad_options_name_the_option_its_value_and_the_remedy(self):
        for words, parts in (
                (("-n", "many"), ("-n is 'many'", "whole number from 1")),
                (("-n", "0"), ("-n is '0'",)),
                (("-n", "5000"), ("-n is '5000'", "4096")),
                ((), ("-n N",)),
                (("-n", 2, "--timeout", "soon"), ("--timeout is 'soon'", "10m")),
                (("-n", 2, "--grace", "-1"), ("--grace is '-1'",)),
                (("-n", 2, "--restarts", "x"), ("--restarts is 'x'", "whole number from 0")),
                (("-n", 2, "--bind", "socket"), ("--bind is 'socket'", "auto, none, core and numa")),
                (("-n", 2, "--devices", "0,,1"), ("--devices is '0,,1'", "cpu:0,cpu:1")),
                (("-n", 2, "--devices", "0"), ("--devices is '0'", "some twice")),
                (("-n", 2, "--env", "=x"), ("--env is '=x'", "NAME=VALUE")),
                (("--hosts", "h1:2"), ("--hosts is 'h1:2'", "--interface eth0")),
                (("--hosts", "h1:2", "--interface", "nope0"), ("--interface is 'nope0'", "lo (127.0.0.1)")),
                (("--hosts", "-oX:1", "--interface", "lo"), ("'-oX:1' is no host",)),
                (("-n", 2, "--ssh", " "), ("--ssh is ' '", "ssh -p 2222")),
                (("-n", 2, "--timeut", "3"), ("unknown option '--timeut'", "'--timeout'"))):
            done = self.run_it(*words, *shell("true"))
            self.expect(done, 2, *parts, where="stderr")
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_the_program_stands_behind_two_dashes(self):
        self.expect(self.run_it("-n", 2), 2, "needs a program behind `--`", where="stderr")
        self.expect(self.run_it("-n", 2, "--"), 2, "needs a program behind `--`", where="stderr")
        self.expect(self.run_it("-n", 2, "prog"), 2, "unexpected word 'prog'", where="stderr")


if __name__ == "__main__":
    main()
