#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon conform` from outside: what a run says, writes, survives and ends with.
Invariant: 0 means it conforms, 1 that it does not or that nothing was executed, 2 that the question is wrong.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

from tool import RIGHT, TOOL, Case, clean, tenon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from terminal import on_terminal  # noqa: E402

PLUGINS = pathlib.Path(RIGHT).parent
CRASHING, HANGING = PLUGINS / "tenon-crashes.so", PLUGINS / "tenon-hangs.so"


class Conform(Case):
    FILTER = ("--filter", "copy: zero bytes are legal everywhere", "--filter", "abi: *")

    def test_list_names_cases_and_runs_none(self):
        self.expect(tenon("conform", "--list", "--filter", "fill: *"), 0, "level 0  fill: zero bytes are legal")
        self.expect(tenon("conform", "--list", "--filter", "nothing like it"), 2, where="stderr")

    def test_reports(self):
        done = tenon("conform", RIGHT, "--quick", *self.FILTER, "--json", self.folder / "r.json", "--junit",
                     self.folder / "r.xml", "--html", self.folder / "r.html")
        self.expect(done, 0, "The plugin conforms.", "seed 1")
        self.assertTrue((self.folder / "r.html").read_text().startswith("<!doctype html>"))
        found = json.loads((self.folder / "r.json").read_text())
        self.assertTrue(found["passed"])
        suite = xml.etree.ElementTree.parse(self.folder / "r.xml").getroot().find("testsuite")
        self.assertEqual(int(suite.get("tests")), len(found["cases"]))
        self.assertEqual(suite.get("failures"), "0")
        told = {p.get("name"): p.get("value") for p in suite.find("properties")}
        self.assertEqual(told["sha256"], found["digest"])
        self.assertEqual(told["cpu"], found["environment"]["cpu"])
        self.assertIn("system", found["environment"])

    def test_a_crash_is_one_failed_case_and_the_run_goes_on(self):
        done = tenon("conform", CRASHING, "--quick", "--filter", "fill: *")
        self.expect(done, 1, "SEGV", "it was in stream.fill", "does not conform",
                    f"again: {TOOL} conform {CRASHING} --filter 'fill: ",
                    "passed           fill: a span that leaves its memory is TN_INVALID")

    def run_json(self, *words):
        tenon("conform", RIGHT, "--quick", "--filter", "order: random*", *words, "--json", self.folder / "r.json")
        return json.loads((self.folder / "r.json").read_text())["cases"]

    def test_a_seed_repeats_and_another_differs(self):
        drawn = [[case["finding"]["drawn"] for case in self.run_json("--seed", seed)] for seed in ("5", "5", "6")]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_rounds_draw_their_own_numbers(self):
        cases = [case for case in self.run_json("--repeat", "3") if case["name"].startswith("order: random graphs behind")]
        self.assertEqual(len(cases), 3)
        self.assertEqual(len({case["finding"]["drawn"] for case in cases}), 3)

    def test_several_jobs_give_the_same_verdicts(self):
        some = ("--filter", "fill: *", "--filter", "copy: *", "--filter", "order: *", "--filter", "op add: *")
        def run(jobs):
            done = tenon("conform", RIGHT, "--quick", "--jobs", jobs, *some, "--json", self.folder / "r.json")
            self.expect(done, 0, "The plugin conforms.")
            report = json.loads((self.folder / "r.json").read_text())
            for case in report["cases"]:  # what is measured, and may differ
                del case["milliseconds"]
            return {case["name"]: case for case in report["cases"]}, report["passed"], len(report["cases"])
        one, four = run("1"), run("4")
        self.assertGreater(one[2], 30)
        self.assertEqual(one, four)

    def test_an_entry_that_hangs_is_told_within_the_deadline(self):
        start = time.monotonic()
        done = tenon("conform", PLUGINS / "tenon-entry_hangs.so", "--deadline", "2", "--filter", "copy: *")
        self.expect(done, 1, "tn_plugin_entry did not return within 2 s: it hangs", "could not be entered")
        self.assertLess(time.monotonic() - start, 15)

    def test_a_library_that_hangs_as_it_is_loaded_is_told_from_an_entry_that_does(self):
        done = tenon("conform", PLUGINS / "tenon-load_hangs.so", "--deadline", "2", "--filter", "copy: *")
        self.expect(done, 1, "dlopen, which runs the constructors of the library, did not return within 2 s: it hangs")

    def test_a_hang_is_laid_on_the_call_that_does_not_return(self):
        done = tenon("conform", HANGING, "--quick", "--deadline", "2", "--filter", "copy: zero bytes*")
        self.expect(done, 1, "did not finish within 2 s; it hangs: stream.copy has not returned for ")

    def test_a_hang_on_another_thread_is_laid_on_that_threads_call(self):
        done = tenon("conform", PLUGINS / "tenon-hangs_on_other_threads.so", "--quick", "--deadline", "3", "--filter",
                     "threads: streams made*")
        self.expect(done, 1, "it hangs: stream.create has not returned for ")

    def test_words_on_standard_error_are_a_warning(self):
        done = tenon("conform", PLUGINS / "tenon-talks_to_stderr.so", "--quick", "--filter", "abi: nothing is written*")
        self.expect(done, 0, "warning: the plugin wrote to standard error: 'acme: made a stream': use host->log")

    def test_options_come_from_the_environment_and_the_command_line_wins(self):
        words = ("conform", RIGHT, "--quick", "--filter", "fill: zero*", "--option", "b=2", "--json", self.folder / "r.json")
        self.expect(tenon(*words, TENON_RIGHT_A="1", TENON_RIGHT_B="1", TENON_OTHER_C="1"), 0)
        found = json.loads((self.folder / "r.json").read_text())
        self.assertEqual(found["options"], {"a": "1", "b": "2"})
        self.assertIn("--option a=1 --option b=2", found["cases"][0]["again"])

    def test_resume_goes_on_where_it_stopped(self):
        cache = {"XDG_CACHE_HOME": str(self.folder)}
        self.expect(tenon("conform", RIGHT, "--quick", "--filter", "fill: *", **cache), 0)
        done = tenon("conform", RIGHT, "--quick", "--filter", "fill: *", "--filter", "strided: *", "--resume", **cache)
        self.expect(done, 0, "7 resumed", "The plugin conforms.")

    def test_resume_goes_on_after_a_kill_and_no_worker_outlives_the_runner(self):
        words, cache = ("--quick", "--filter", "fill: *", "--filter", "copy: *"), {"XDG_CACHE_HOME": str(self.folder)}
        run = subprocess.Popen([TOOL, "conform", HANGING, *words], env=clean(**cache), stdout=subprocess.PIPE, text=True)
        for line in run.stdout:
            if "copy: a span" in line:  # the next case hangs
                break
        worker = self.child_of(run.pid)
        run.send_signal(signal.SIGKILL)
        run.communicate(timeout=60)
        self.wait_until(lambda: not pathlib.Path(f"/proc/{worker}").exists(), f"worker {worker} lives on")
        done = tenon("conform", HANGING, *words, "--deadline", "2", "--resume", "--json", self.folder / "r.json", **cache)
        report = json.loads((self.folder / "r.json").read_text())
        self.assertGreater(report["resumed"], 0)
        self.assertLess(report["resumed"], len(report["cases"]))
        verdicts = {case["name"]: case["verdict"] for case in report["cases"]}
        self.expect(done, 1, "copy: zero bytes are legal everywhere")
        self.assertEqual(verdicts["copy: zero bytes are legal everywhere"], "failed")
        self.assertEqual(len(verdicts), len(report["cases"]), "a case has two verdicts")
        listed = tenon("conform", "--list", "--filter", "fill: *", "--filter", "copy: *").stdout.splitlines()
        self.assertEqual(len(verdicts), len(listed))

    def child_of(self, pid):
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def test_a_name_is_found_over_the_search_path(self):
        words = ("conform", "right", "--quick", "--filter", "fill: zero*")
        folder = str(pathlib.Path(RIGHT).parent)
        self.expect(tenon(*words, TENON_PLUGIN_PATH=f"/no/such:{folder}"), 0, RIGHT, "The plugin conforms.")
        self.expect(tenon(*words, "--plugin-path", folder), 0, RIGHT)
        self.expect(tenon(*words), 2, "no plugin 'right'", where="stderr")

    def test_options_reach_the_plugin_and_the_report(self):
        done = tenon("conform", RIGHT, "--quick", "--filter", "fill: zero*", "--option", "threads=2", "--json",
                     self.folder / "r.json")
        self.expect(done, 0)
        found = json.loads((self.folder / "r.json").read_text())
        self.assertEqual(found["options"], {"threads": "2"})
        self.assertIn("--option threads=2", found["cases"][0]["again"])
        tenon("conform", RIGHT, "--quick", "--filter", "fill: zero*", "--option", "right.threads=2", "--json",
              self.folder / "r.json")
        self.assertEqual(json.loads((self.folder / "r.json").read_text())["options"], {"threads": "2"})
        self.expect(tenon("conform", RIGHT, "--option", "threads"), 2, "KEY=VALUE", where="stderr")

    def level_0(self, seed):
        """What a run came to, and what it drew; in the short count copies and memory only."""
        some = [] if os.environ.get("TENON_TEST_FULL") == "1" else ["--filter", "copy: *", "--filter", "memory: *"]
        tenon("conform", RIGHT, "--quick", "--level", "0", "--seed", seed, "--json", self.folder / "r.json", *some)
        cases = json.loads((self.folder / "r.json").read_text())["cases"]
        return [(case["name"], case["verdict"]) for case in cases], [case["finding"]["drawn"] for case in cases]

    def test_the_same_seed_gives_the_same_cases_and_verdicts_twice(self):
        first, again, other = self.level_0(11), self.level_0(11), self.level_0(12)
        self.assertEqual(first, again)
        self.assertEqual(first[0], other[0])
        self.assertNotEqual(first[1], other[1])

    def test_a_sample_is_drawn_by_the_seed_and_leaves_level_0_whole(self):
        def listed(*words):
            return set(tenon("conform", "--list", *words).stdout.splitlines())
        everything, some, again = listed(), listed("--sample", "4"), listed("--sample", "4")
        other = listed("--sample", "4", "--seed", "2")
        self.assertEqual(some, again)
        self.assertNotEqual(some, other)
        self.assertTrue(some < everything)
        above = [len([line for line in lines if not line.startswith("level 0")]) for lines in (everything, some)]
        self.assertLess(abs(above[1] / above[0] - 0.25), 0.05)
        self.assertEqual(*({line for line in lines if line.startswith("level 0")} for lines in (everything, some)))

    def test_round_is_one_of_repeat(self):
        rounds = [case["finding"]["drawn"] for case in self.run_json("--repeat", "3") if "behind" in case["name"]]
        alone = [case["finding"]["drawn"] for case in self.run_json("--round", "2") if "behind" in case["name"]]
        self.assertEqual(rounds[2:], alone)

    def on_terminal(self, *words, columns=60, **environment):
        """What a run writes to a terminal of so many columns."""
        return on_terminal([TOOL, *words], ("stdin", "stdout"), columns, env=clean(TERM="xterm", **environment))[1]

    def test_a_terminal_has_one_progress_line_that_fits(self):
        out = self.on_terminal("conform", RIGHT, "--quick", "--filter", "copy: *")
        progress = [line.split("\r")[0] for line in out.split("\r\033[K") if line.startswith("[")]
        self.assertGreater(len(progress), 5)
        self.assertTrue(all(len(line) < 60 for line in progress), progress)
        self.assertTrue(any(line.endswith("…") for line in progress), progress)
        self.assertNotIn("passed           copy:", out)
        self.assertIn("\033[32mThe plugin conforms.", out)

    def test_no_color_is_obeyed_on_a_terminal(self):
        out = self.on_terminal("conform", RIGHT, "--quick", "--filter", "copy: zero*", NO_COLOR="1")
        self.assertNotIn("\033[3", out)
        self.assertIn("The plugin conforms.", out)

    def test_a_pipe_gets_plain_lines(self):
        done = tenon("conform", RIGHT, "--quick", "--filter", "copy: *")
        self.expect(done, 0, "passed           copy: zero bytes are legal everywhere")
        self.assertNotIn("\033", done.stdout)
        self.assertNotIn("\r", done.stdout)

    def test_perf_is_in_every_report_and_decides_nothing(self):
        files = {form: self.folder / f"r.{form}" for form in ("json", "junit", "html")}
        done = tenon("conform", RIGHT, "--quick", "--perf", "--filter", "fill: zero*",
                     *(word for form, file in files.items() for word in (f"--{form}", file)))
        self.expect(done, 0, "Performance", "stream.record", "host to device, pageable", "submit to start", "samples")
        figures = json.loads(files["json"].read_text())["performance"]["figures"]
        self.assertEqual({figure["group"] for figure in figures}, {"call", "latency", "copy", "kernel"})
        for figure in figures:
            self.assertEqual(figure["samples"] == 0, bool(figure["trouble"]), figure)
            self.assertTrue(figure["low"] <= figure["median"] <= figure["high"], figure)
        self.assertTrue(any(abs(figure["percent"] - 100) < 1e-9 for figure in figures))
        self.assertIn("perf call: stream.record", files["junit"].read_text())
        self.assertIn("stream.record", files["html"].read_text())

    def test_a_plugin_that_crashes_while_measured_keeps_its_verdict(self):
        done = tenon("conform", CRASHING, "--quick", "--perf", "--filter", "copy: zero*", "--json", self.folder / "r.json")
        self.expect(done, 0, "The plugin conforms.")
        self.assertIn("performance", json.loads((self.folder / "r.json").read_text()))

    def test_exit_codes_are_told(self):
        self.expect(tenon("conform", "--help"), 0, "Exit codes: 0 it conforms; 1", "2 the question is wrong")

    def test_declarations_count(self):
        declared = self.folder / "c.toml"
        words = ("conform", CRASHING, "--quick", "--filter", "fill: zero bytes are legal", "--capabilities", declared)
        entry = '[plugin]\nname = "honest"\n[[expected_failure]]\nmatch = "fill: zero *"\nreason = "known"\nexpires = {}\n'
        declared.write_text(entry.format("2999-01-01"))
        self.expect(tenon(*words), 0, "expected failure", "declared: known")
        declared.write_text(entry.format("2001-01-01"))
        self.expect(tenon(*words), 1, "expected failure until 2001-01-01")
        declared.write_text('[plugin]\nname = "honest"\n[[oops]]\n')
        self.expect(tenon(*words), 2, "unknown key 'oops'", where="stderr")
        declared.write_text('[plugin]\nname = "other"\n')
        self.expect(tenon(*words), 2, "'other'", "'honest'", where="stderr")

    def test_declarations_out_of_date_fail_under_verify(self):
        declared = self.folder / "c.toml"
        declared.write_text('[plugin]\nname = "honest"\n[[unsupported]]\nmatch = "x"\nreason = "no"\nexpires = 2001-01-01\n')
        words = ("conform", RIGHT, "--quick", "--filter", "fill: zero*", "--capabilities", declared)
        self.expect(tenon(*words), 0, "'x' expired on 2001-01-01")
        self.expect(tenon(*words, "--verify"), 1, "'x' expired on 2001-01-01", "does not conform")

    ULP_OFF = PLUGINS / "tenon-add_is_an_ulp_off.so"
    TOLERANCE = '[plugin]\nname = "honest"\n[[tolerance]]\nop = "add"\ndtype = "f32"\n{}\nexpires = {}\n'

    def tolerate(self, plugin, lines, expires, *words):
        declared = self.folder / "c.toml"
        declared.write_text(self.TOLERANCE.format(lines, expires))
        return tenon("conform", plugin, "--quick", "--filter", "op add: f32 agrees with*", "--capabilities", declared, *words)

    def test_a_tolerance_lets_pass_what_it_says_and_shows_in_every_report(self):
        line, why = "3 ULP (until 2999-01-01): truncates", 'ulp = 3\nreason = "truncates"'
        files = {form: self.folder / f"r.{form}" for form in ("json", "junit", "html")}
        done = self.tolerate(self.ULP_OFF, why, "2999-01-01", "--verify",
                             *(word for form, file in files.items() for word in (f"--{form}", file)))
        self.expect(done, 0, "Tolerances, set by the vendor:", f"add.f32: {line}; 1 of 1 cases need it",
                    "elements need the tolerance that the vendor declares")
        report = json.loads(files["json"].read_text())
        self.assertEqual(report["tolerances"][0]["needed"], 1)
        self.assertRegex(report["cases"][0]["finding"]["eased"], r"the farthest is off by [12](\.\d+)? ULP, 0 are usual")
        suite = xml.etree.ElementTree.parse(files["junit"]).getroot().find("testsuite")
        told = {p.get("name"): p.get("value") for p in suite.find("properties")}
        self.assertIn(line, told["tolerance add.f32"])
        self.assertIn("truncates", files["html"].read_text())

    def test_a_tolerance_that_is_too_small_or_past_its_date_excuses_nothing(self):
        self.expect(self.tolerate(self.ULP_OFF, 'ulp = 0.9\nreason = "truncates"', "2999-01-01"), 1, "ULP, 0.9 allowed)")
        self.expect(self.tolerate(self.ULP_OFF, 'ulp = 2\nreason = "truncates"', "2001-01-01"), 1, "past its date")

    def test_a_tolerance_without_a_reason_is_refused(self):
        self.expect(self.tolerate(self.ULP_OFF, "ulp = 2", "2999-01-01"), 2, "'reason'", where="stderr")

    def test_a_tolerance_that_nobody_needed_is_a_warning_under_verify(self):
        line, why = "none needed it", 'ulp = 2\nreason = "truncates"'
        quiet, told = (self.tolerate(RIGHT, why, "2999-01-01", *words) for words in ((), ("--verify",)))
        self.expect(quiet, 0, "0 of 1 cases need it")
        self.assertNotIn(line, quiet.stdout)
        self.expect(told, 0, line, "The plugin conforms.")

    def test_determinism_is_held_against_what_is_declared(self):
        declared = self.folder / "c.toml"
        words = ("conform", PLUGINS / "tenon-bits_waver.so", "--quick", "--filter", "op sum: f32 agrees*",
                 "--capabilities", declared)
        story = "two runs on the same numbers differ in their bits"
        verdicts = {'determinism = "bitwise"': (1, "declares determinism"), "": (0, f"warning: {story}")}
        for line, (code, said) in verdicts.items():
            declared.write_text(f'[plugin]\nname = "honest"\n{line}\n')
            self.expect(tenon(*words), code, story, said)
        declared.write_text('[plugin]\nname = "honest"\ndeterminism = "varies"\n')
        done = tenon(*words)
        self.expect(done, 0, "determinism varies")
        self.assertNotIn(story, done.stdout)

    def test_an_unexpected_pass_fails_under_verify(self):
        declared = self.folder / "c.toml"
        declared.write_text('[plugin]\nname = "honest"\n[[unsupported]]\nmatch = "fill: zero *"\nreason = "no"\npermanent = true\n')
        words = ("conform", RIGHT, "--quick", "--filter", "fill: zero*", "--capabilities", declared)
        self.expect(tenon(*words), 0, "unexpected pass")
        self.expect(tenon(*words, "--verify"), 1, "unexpected pass")

    def test_a_library_that_is_no_plugin_fails_in_one_case_and_the_rest_is_not_run(self):
        (self.folder / "tenon-bad.so").write_text("no library at all")
        done = tenon("conform", self.folder / "tenon-bad.so", "--quick", "--filter", "copy: *")
        self.expect(done, 1, "could not be entered", "dlopen", "not run")

    def test_what_does_not_exist_is_a_wrong_question(self):
        self.expect(tenon("conform", "/no/such.so"), 2, "/no/such.so", where="stderr")
        self.expect(tenon("conform"), 2, "needs a plugin", where="stderr")
        absent = tenon("conform", RIGHT, "--quick", "--device", "7", "--filter", "fill: *")
        self.expect(absent, 2, "there is no device 7", "counts 1", where="stderr")
        self.expect(tenon("conform", RIGHT, "--filter", "nothing like it"), 2, "no case", where="stderr")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
