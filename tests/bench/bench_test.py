#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The harness judged by rows whose verdict is known. Invariant: every way to a false "met" has a case here."""
import json
import pathlib
import tempfile
import unittest

import bench

RUNS = 20


def row(**changes):
    base = {"name": "r", "peer": "p", "unit": "ns", "ours": [2.0] * RUNS, "theirs": [4.0] * RUNS,
            "why_no_peer": None, "limit": None, "judge": "median"}
    return base | changes


def target(**changes):
    return {"row": "r", "kind": "max", "value": 5, "unit": "ns", "source": "test"} | changes


class Figures(unittest.TestCase):
    def test_ratio_above_one_means_ours_is_faster(self):
        self.assertEqual(bench.report_row(row(), [])["ratio"], 2.0)

    def test_ratio_of_rates_is_turned_round(self):
        self.assertEqual(bench.report_row(row(unit="GB/s"), [])["ratio"], 0.5)

    def test_ratio_is_the_median_of_pairs_not_a_ratio_of_medians(self):
        done = bench.report_row(row(ours=[1, 10, 100], theirs=[2, 10, 50]), [])
        self.assertEqual(done["ratio"], 1.0)

    def test_the_interval_holds_the_median_by_the_order_of_the_ratios(self):
        self.assertIsNone(bench.interval([1.0] * 5))
        self.assertEqual(bench.interval([6, 1, 5, 2, 4, 3]), [1, 6])  # 1/32 is outside
        self.assertEqual(bench.interval(list(range(1, 10))), [2, 8])
        self.assertEqual(bench.interval(list(range(1, 21))), [6, 15])  # as tables of the sign test have it

    def test_spread_is_the_quartile_range_of_the_pairs(self):
        done = bench.report_row(row(ours=[1, 1, 1, 1, 1], theirs=[1, 2, 3, 4, 5]), [])
        self.assertEqual(done["spread"], 2.0)

    def test_limit_fraction_of_times_and_rates(self):
        self.assertEqual(bench.report_row(row(limit=1.0), [])["limit_fraction"], 0.5)
        self.assertEqual(bench.report_row(row(unit="GF/s", limit=8.0), [])["limit_fraction"], 0.25)

    def test_keys_are_exactly_those(self):
        self.assertEqual(list(bench.report_row(row(), [])), [
            "name", "peer", "ours", "theirs", "unit", "ratio", "spread", "interval", "bytes", "limit", "limit_fraction",
            "target", "met"])


class Verdicts(unittest.TestCase):
    def met(self, raw, *targets):
        return bench.report_row(raw, list(targets))["met"]

    def test_absolute_time_uses_the_fastest_run(self):
        self.assertTrue(self.met(row(ours=[9.0] * RUNS + [4.0], theirs=None, peer=None), target()))
        self.assertFalse(self.met(row(ours=[9.0] * RUNS, theirs=None, peer=None), target()))

    def test_absolute_time_needs_twenty_runs(self):
        with self.assertRaisesRegex(bench.BenchError, "at least 20"):
            self.met(row(ours=[1.0] * 19, theirs=None, peer=None), target())

    def test_added_cost_is_the_difference_of_the_fastest(self):
        self.assertTrue(self.met(row(ours=[9.0] * RUNS), target(kind="max_added")))
        self.assertFalse(self.met(row(ours=[9.1] * RUNS), target(kind="max_added")))

    def test_missing_peer_is_never_met(self):
        lost = row(theirs=None, why_no_peer="libmimalloc.so.2 is not installed")
        for kind in ("min_ratio", "max_added"):
            self.assertIsNone(self.met(lost, target(kind=kind, value=0)))
        self.assertIsNone(self.met(lost, target(kind="max", value=1e9)))
        self.assertFalse(self.met(lost, target(kind="max", value=0)))
        self.assertIn("libmimalloc.so.2 is not installed", bench.report_row(lost, [])["peer"])

    def test_missing_peer_must_say_why(self):
        with self.assertRaisesRegex(bench.BenchError, "why_no_peer"):
            bench.report_row(row(theirs=None), [])

    def test_missing_limit_is_never_met(self):
        self.assertIsNone(self.met(row(), target(kind="min_limit_fraction", value=0)))

    def test_a_miss_wins_over_a_gap(self):
        self.assertFalse(self.met(row(), target(kind="min_ratio", value=3),
                                  target(kind="min_limit_fraction", value=0)))

    def test_a_row_without_target_has_no_verdict(self):
        self.assertIsNone(self.met(row()))

    def test_a_ratio_that_the_limit_would_not_have_is_judged_by_the_limit(self):
        asked = target(kind="min_ratio", value=3)
        near = row(ours=[2.0] * RUNS, theirs=[5.0] * RUNS, limit=1.9)  # the limit would be 2.6 times as fast
        self.assertTrue(self.met(near, asked))
        self.assertEqual(bench.report_row(near, [asked])["target"], "ratio >= 3, where the limit has 2.63: >= 90% of it")
        self.assertFalse(self.met(near | {"limit": 1.7}, asked))  # 85 %
        self.assertFalse(self.met(near | {"limit": 1.6}, asked))  # 3.1 times as fast: it can be had
        self.assertFalse(self.met(near | {"limit": None}, asked))
        self.assertTrue(self.met(row(unit="GB/s", ours=[9.5], theirs=[5.0], limit=10), asked))
        self.assertFalse(self.met(row(unit="GB/s", ours=[9.5], theirs=[3.3], limit=10), asked))
        self.assertIsNone(self.met(near | {"theirs": None, "why_no_peer": "none here"}, asked))

    def test_the_limit_of_a_row_is_that_of_its_name(self):
        own = row(peer=None, theirs=None, limit=1.9)
        other = row(theirs=[5.0] * RUNS)
        asked = [target(kind="min_ratio", value=3, peer="p")]
        first, second = bench.report("s", [own, other], asked, "m")["rows"]
        self.assertIsNone(first["met"])
        self.assertTrue(second["met"])
        self.assertIsNone(second["limit_fraction"])
        self.assertFalse(bench.report("s", [own | {"name": "q"}, other], asked, "m")["rows"][1]["met"])

    def test_a_target_of_what_the_processor_lacks_is_not_judged(self):
        missed = dict(target(kind="min_ratio", value=99), needs="tiles_of_gold")
        self.assertFalse(bench.binds(missed))
        self.assertTrue(bench.binds(missed, {"tiles_of_gold"}))
        self.assertIsNone(self.met(row(), missed))
        self.assertTrue(self.met(row(), missed, target(kind="min_ratio", value=1)))
        self.assertEqual(bench.report_row(row(), [missed])["target"], "ratio >= 99 with tiles_of_gold")

    def test_targets_choose_rows_by_name_and_peer(self):
        self.assertIsNone(self.met(row(), target(peer="q"), target(row="other")))
        self.assertTrue(self.met(row(), target(row="r*", peer="p*")))

    def test_a_target_nobody_measured_shows_as_a_gap(self):
        rows = bench.report("s", [row()], [target(row="absent")], "m")["rows"]
        self.assertIsNone(rows[1]["met"])
        self.assertIn("missing", rows[1]["peer"])

    def test_a_row_left_out_shows_as_a_gap_with_its_reason(self):
        targets = [{"row": "add3", "kind": "max", "value": 1, "unit": "us", "source": "x"}]
        result = bench.report("cuda", [{"name": "add3", "left_out": "no device"}], targets, "m")
        self.assertEqual(len(result["rows"]), 1)
        row = result["rows"][0]
        self.assertIsNone(row["met"])
        self.assertIn("no device", row["peer"])
        self.assertEqual(row["target"], "<= 1 us")

    def test_units_must_agree(self):
        with self.assertRaisesRegex(bench.BenchError, "its target in us"):
            self.met(row(), target(unit="us"))


class Contract(unittest.TestCase):
    def test_runs_must_be_paired(self):
        with self.assertRaisesRegex(bench.BenchError, "interleaved"):
            bench.report_row(row(theirs=[1.0]), [])

    def test_targets_file_is_well_formed_and_has_every_suite(self):
        path = pathlib.Path(__file__).with_name("targets.toml")
        for suite in ("call", "fusion", "comm", "overlap"):
            self.assertTrue(bench.load_targets(path, suite), suite)

    def test_bad_target_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "t.toml")
            path.write_text('s = [{ row = "r", kind = "fast", value = 1, source = "x" }]', encoding="utf-8")
            with self.assertRaises(bench.BenchError):
                bench.load_targets(path, "s")


class Program(unittest.TestCase):
    def run_suite(self, script, targets="s = []"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program = folder / "bench_s"
            program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
            program.chmod(0o755)
            (folder / "t.toml").write_text(targets, encoding="utf-8")
            out = folder / "deep" / "out.json"
            status = bench.main(["s", "--bin", str(folder), "--json", str(out), "--targets",
                                 str(folder / "t.toml")])
            return status, json.loads(out.read_text(encoding="utf-8")) if out.exists() else None

    def test_a_whole_run(self):
        status, result = self.run_suite(f"echo '{json.dumps(row())}'",
                                        's = [{ row = "r", kind = "min_ratio", value = 1.5, source = "x" }]')
        self.assertEqual(status, 0)
        self.assertEqual(list(result), ["suite", "machine", "commit", "notes", "pictures", "rows"])
        self.assertTrue(result["rows"][0]["met"])

    def test_notes_are_told_and_are_no_rows(self):
        note = json.dumps({"note": "torch 9, 2 threads"})
        _, result = self.run_suite(f"echo '{note}'; echo '{json.dumps(row())}'")
        self.assertEqual((result["notes"], len(result["rows"])), (["torch 9, 2 threads"], 1))
        self.assertEqual(self.run_suite(f"echo '{note}'"), (2, None))

    def test_pictures_are_kept_and_are_no_rows(self):
        panel = {"picture": "p/q", "title": "a", "lanes": [{"name": "compute", "events": [["kernel", 0.0, 1.5]]}]}
        _, result = self.run_suite(f"echo '{json.dumps(panel)}'; echo '{json.dumps(row())}'")
        self.assertEqual((result["pictures"], len(result["rows"])), ([panel], 1))
        self.assertEqual(self.run_suite(f"echo '{json.dumps(panel)}'"), (2, None))

    def test_a_missed_target_is_a_failure(self):
        status, result = self.run_suite(f"echo '{json.dumps(row())}'",
                                        's = [{ row = "r", kind = "min_ratio", value = 3, source = "x" }]')
        self.assertEqual((status, result["rows"][0]["met"]), (1, False))

    def test_a_crash_noise_or_silence_gives_no_report(self):
        for script in ("exit 3", "echo hello", "true"):
            self.assertEqual(self.run_suite(script), (2, None))


if __name__ == "__main__":
    unittest.main()
