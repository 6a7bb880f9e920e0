#!/usr/bin/env python3
"""scripts/headline over rows made up here, and scripts/start-time with a real server.

Usage: headline_test.py DECANT [unittest's arguments]
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
KEYS = ["pure_decode_ms", "loaded_step_ms", "token_gap_p99_ms", "served_32x512", "served_free", "closed_mixed32_s",
        "closed_mixed32_free_s", "split_b32_seed0_us", "split_b32_seed1_us", "split_b64_us", "invariance_price", "start_s"]
SEED = {"utc_time": "2026-12-01T10:00:00Z", "workload": "mixed seed 0", "engine": "decant", "decode_kernel": "split",
        "max_batch": 32, "chunk_tokens": 512}

decant = "decant"


class Headline(unittest.TestCase):

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def write(self, name: str, rows: list[dict]) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def run_script(self, *more: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, SCRIPTS / "headline", "--in", self.folder, *more], capture_output=True, text=True,
                              check=False)

    def headline(self) -> dict:
        done = self.run_script()
        self.assertEqual(done.returncode, 0, done.stderr)
        headline = json.loads((self.folder / "headline.json").read_text(encoding="utf-8"))
        self.assertEqual(list(headline), KEYS)
        return headline

    def expect(self, entry: dict, value: float, unit: str, floor: float | None, row: int) -> None:
        self.assertEqual((entry["value"], entry["unit"], entry["floor"], entry["row"]), (value, unit, floor, row))
        with open(entry["source"], encoding="utf-8") as file:
            line = file.read().splitlines()[entry["row"] - 1]
        self.assertIn(f"{value}", line.split(","))

    def test_without_rows_each_figure_names_its_command(self):
        for key, entry in self.headline().items():
            self.assertIsNone(entry["value"], key)
            self.assertRegex(entry["command"], r"^(decant bench|scripts/start-time) .*--out ", key)

    def test_the_best_rates(self):
        def point(served: float, gap: float, **more) -> dict:
            return {**SEED, "trace": "", "served_per_s": served, "gap_p99_ms": gap, **more}
        self.write("arrivals/arrivals.csv", [
            point(90.5, 5.5), point(101.25, 7.5), point(99, 9.5), point(131.5, 8, max_batch=256, chunk_tokens="auto:12ms"),
            point(500, 1, trace="azure.csv x2"), point(400, 1, engine="fused", decode_kernel="rows")])
        headline = self.headline()
        self.expect(headline["served_32x512"], 101.25, "requests/s", None, 3)
        self.expect(headline["token_gap_p99_ms"], 7.5, "ms", None, 3)
        self.expect(headline["served_free"], 131.5, "requests/s", None, 5)

    def test_closed_runs_and_kernels(self):
        def batch(wall: float, **more) -> dict:
            return {**SEED, "batch_size": 32, "wall_s": wall, "loaded_p50_ms": wall * 4, "loaded_floor_ms": 2.5, **more}
        self.write("closed/decant/runs.csv", [
            batch(0.5), batch(0.47), batch(0.48), batch(0.1, batch_size=8), batch(0.4, chunk_tokens=2048),
            batch(0.45, chunk_tokens=1024), batch(0.41, chunk_tokens=2048), batch(0.43, chunk_tokens=2048)])
        kernel = [{"utc_time": "t", "kernel": name, "batch": rows, "lengths": draw, "us_per_layer": us, "floor_us": us / 2}
                  for name, rows, draw, us in (("split", 32, "mixed seed 0", 22.5), ("split", 32, "mixed seed 1", 14.5),
                                               ("split", 64, "mixed seed 0", 40.5), ("flash", 32, "mixed seed 0", 30.5))]
        self.write("kernel/kernel.csv", kernel)
        headline = self.headline()
        self.expect(headline["closed_mixed32_s"], 0.48, "s", None, 4)
        self.expect(headline["loaded_step_ms"], 1.92, "ms", 2.5, 4)
        self.expect(headline["closed_mixed32_free_s"], 0.41, "s", None, 8)
        self.expect(headline["split_b32_seed0_us"], 22.5, "us", 11.25, 2)
        self.expect(headline["split_b32_seed1_us"], 14.5, "us", 7.25, 3)
        self.expect(headline["split_b64_us"], 40.5, "us", 20.25, 4)

    def test_the_dearest_measure_is_the_price(self):
        rows = [{**SEED, "measure": measure, "path": path, "value": ratio + (1 if path == "invariant" else 2), "ratio": ratio}
                for measure, ratios in (("closed", (1.01, 1.03, 1.02)), ("pure_decode", (1.04, 1.09, 1.05)))
                for ratio in ratios for path in ("invariant", "fastest")]
        self.write("invariance/invariance.csv", rows)
        headline = self.headline()
        self.expect(headline["invariance_price"], 1.05, "ratio", None, 13)
        self.expect(headline["pure_decode_ms"], 2.05, "ms", None, 12)

    def test_says_what_is_wrong_with_a_file(self):
        (self.folder / "kernel").mkdir()
        broken = self.folder / "kernel" / "kernel.csv"
        broken.write_text("utc_time,kernel\nt,split\n", encoding="utf-8")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("kernel.csv has no column batch", done.stderr)
        broken.write_text("utc_time,kernel,batch,lengths,us_per_layer,floor_us\nt,split,32,mixed seed 0,fast,1\n",
                          encoding="utf-8")
        self.assertIn("us_per_layer is 'fast'", self.run_script().stderr)
        self.assertFalse((self.folder / "headline.json").exists())

    def test_check_compares_with_the_rows(self):
        self.assertEqual(self.run_script("--check").returncode, 1)
        self.headline()
        self.assertEqual(self.run_script("--check").returncode, 0)
        self.write("kernel/kernel.csv", [{"utc_time": "t", "kernel": "split", "batch": 64, "lengths": "mixed seed 0",
                                          "us_per_layer": 3, "floor_us": 2}])
        self.assertEqual(self.run_script("--check").returncode, 1)

    def test_start_time_writes_the_row_of_start(self):
        done = subprocess.run([sys.executable, SCRIPTS / "start-time", "--decant", decant, "--shape", "tiny", "--device", "cpu",
                               "--runs", "1", "--out", self.folder / "start"], capture_output=True, text=True, check=False,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        entry = self.headline()["start_s"]
        self.assertEqual((entry["row"], entry["unit"]), (2, "s"))
        self.assertGreater(entry["value"], 0)
        done = subprocess.run([sys.executable, SCRIPTS / "start-time", "--decant", decant, "--model", "no-such.gguf"],
                              capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such.gguf", done.stderr)


if __name__ == "__main__":
    decant = sys.argv.pop(1)
    unittest.main()
