#!/usr/bin/env python3
"""Runs decant simulate plan as a person would. Usage: simulate_plan_test.py DECANT [unittest's arguments]"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TRACE = REPOSITORY / "tests" / "data" / "traces" / "azure-2023-conv-400.csv"
H200 = REPOSITORY / "data" / "devices" / "h200.json"
TARGETS = ["--p99-first-token", "1", "--p99-token-gap", "50"]
TIMEOUT = 120  # seconds, of one command

program = "decant"


class Plan(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def plan(self, *arguments: str | pathlib.Path) -> subprocess.CompletedProcess:
        return subprocess.run(
            [program, "simulate", "plan", "--device-file", H200, "--decode-kernel", "split",
             *arguments], capture_output=True, text=True, check=False, timeout=TIMEOUT)

    def refused(self, code: int, *arguments: str | pathlib.Path) -> str:
        done = self.plan(*arguments, "--out", self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertFalse((self.folder / "plan.csv").exists())
        return done.stderr

    def rows(self, name: str, *arguments: str | pathlib.Path) -> list[dict[str, str]]:
        """The rows of a run, as plan.csv has them; plan.jsonl must have as many."""
        done = self.plan(*arguments, *TARGETS, "--out", self.folder / name)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.folder / name / "plan.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        lines = (self.folder / name / "plan.jsonl").read_text().splitlines()
        self.assertIn("header", json.loads(lines[0]))
        self.assertEqual(len(lines), 1 + len(rows))
        return [{key: value for key, value in row.items() if key != "utc_time"} for row in rows]

    def test_says_what_it_needs(self):
        self.assertIn("--machines", self.refused(2, *TARGETS))
        self.assertIn("one question", self.refused(2, *TARGETS, "--machines", "1", "--rate", "2"))
        self.assertIn("--p99-first-token", self.refused(2, "--machines", "1"))
        self.assertIn("--trace", self.refused(2, *TARGETS, "--speedup", "2"))
        self.assertIn("excludes", self.refused(2, *TARGETS, "--trace", TRACE, "--rate", "2"))
        self.assertIn("least-loaded",
                      self.refused(2, *TARGETS, "--machines", "1", "--policy", "random"))
        self.assertIn("--rate has -1", self.refused(2, *TARGETS, "--rate", "-1"))
        self.assertIn("--pool-slots",
                      self.refused(2, *TARGETS, "--machines", "1", "--pool-slots", "64"))

    def test_a_bad_trace_is_named_with_its_line(self):
        trace = self.folder / "bad.csv"
        trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,many,5\n")
        said = self.refused(1, *TARGETS, "--trace", trace, "--machines", "1")
        self.assertIn("bad.csv", said)
        self.assertIn("3", said)
        trace.write_text("arrival_s,prompt_tokens\n0,10\n")
        self.assertIn("output_tokens",
                      self.refused(1, *TARGETS, "--trace", trace, "--machines", "1"))

    def test_rows_do_not_depend_on_threads(self):
        sweep = ["--trace", TRACE, "--machines", "1,2", "--max-batch", "4,32", "--policy",
                 "round-robin,cache-aware", "--repeat", "3"]
        one = self.rows("one", *sweep, "--threads", "1")
        self.assertEqual(one, self.rows("three", *sweep, "--threads", "3"))
        self.assertEqual(len(one), 8)
        for row in one:
            self.assertLessEqual(float(row["first_token_p99_s"]), 1)
            self.assertLessEqual(float(row["gap_p99_ms"]), 50)
            self.assertEqual(row["requests"], "1200")
            self.assertGreater(float(row["beyond_rate"]), float(row["rate"]))
            self.assertLess(float(row["beyond_rate"]), float(row["rate"]) * 1.011)
            self.assertIn(row["beyond_misses"], ("first token", "token gap", "both"))
        rates = {(row["policy"], row["machines"], row["max_batch"]): float(row["rate"])
                 for row in one}
        self.assertGreater(rates["round-robin", "1", "32"], rates["round-robin", "1", "4"])
        self.assertGreater(rates["round-robin", "2", "32"], rates["round-robin", "1", "32"])
        # One machine leaves the router no choice.
        self.assertEqual(rates["round-robin", "1", "4"], rates["cache-aware", "1", "4"])

    def test_the_two_questions_agree(self):
        traffic = ["--trace", TRACE, "--repeat", "3"]
        held = self.rows("rate", *traffic, "--machines", "4")[0]
        speedup = float(held["speedup"])
        needed = self.rows("machines", *traffic, "--speedup", f"{speedup * 0.98},{speedup * 1.1}")
        self.assertLessEqual(int(needed[0]["machines"]), 4)
        self.assertGreaterEqual(int(needed[1]["machines"]), 4)
        self.assertAlmostEqual(float(needed[0]["rate"]), float(held["rate"]) * 0.98, 6)

    def test_says_that_no_fleet_holds_it(self):
        done = self.plan("--rate", "1", "--requests", "50", "--p99-token-gap", "0.01")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no fleet holds the target", done.stdout)


if __name__ == "__main__":
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
