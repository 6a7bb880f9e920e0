#!/usr/bin/env python3
"""Draws every plot from small tables made here. Skipped where no Python has matplotlib."""

import csv
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import plotting  # found once the folder is on the path

RUN = {"utc_time": "2026-11-30T06:00:00Z", "commit": "abc1234", "device": "NVIDIA H200",
       "model": "Qwen2.5 1.5B", "seed": 0}
ENGINES = [("fused", "rows", 64), ("flash", "rows", 256), ("flash", "flash", 256),
           ("decant", "split", 64)]

PYTHON = plotting.python_with_matplotlib()


def arrivals_rows() -> list[dict]:
    rows = []
    for place, (engine, kernel, page) in enumerate(ENGINES):
        capacity = 4.5 + 0.4 * place
        for rate in range(1, 10):
            over = max(rate - capacity, 0)
            rows.append({**RUN, "engine": engine, "decode_kernel": kernel, "page_size": page,
                         "rate": rate, "served_per_s": min(rate, capacity) - 0.02 * over,
                         "queue_p50_s": 10 * over if over else 0.0004 * rate})
    return rows


def runs_rows() -> list[dict]:
    return [{"utc_time": RUN["utc_time"], "commit": RUN["commit"], "workload": "mixed seed 0",
             "batch_size": batch, "max_batch": 32, "page_size": page, "decode_kernel": kernel,
             "run": run, "wall_s": batch ** 0.6 * (1 - 0.08 * place) + 0.1 * run}
            for place, (_, kernel, page) in enumerate(ENGINES)
            for batch in (8, 32, 64) for run in (1, 2, 3)]


def kernel_rows() -> list[dict]:
    rows = []
    for kernel, page, factor in (("rows", 64, 5), ("split", 64, 1.2), ("flash", 256, 1.5)):
        for batch in (1, 32):
            for length in (16, 64, 256, 517, 1024, 4096, "mixed seed 0"):
                floor = 0.004 * batch * (length if isinstance(length, int) else 1500)
                rows.append({**RUN, "kernel": kernel, "page_size": page, "batch": batch,
                             "lengths": length, "us_per_layer": 4 + factor * floor,
                             "floor_us": floor})
    return rows


def steps_rows() -> list[dict]:
    parts = {"upload": 0.1, "embed": 0.1, "qkv": 2, "prompt_attention": 0, "decode_attention": 7,
             "o": 1.5, "gate_up": 6, "down": 3, "head": 2, "sample": 0.3, "download": 0.1}
    rows = []
    for place, (engine, kernel, page) in enumerate(ENGINES[::3]):
        for step in range(40):
            kind = "loaded" if step % 5 == 0 else "pure_decode"
            scale = (1.8 if kind == "loaded" else 1) * (1 + 0.01 * step)
            row = {**RUN, "engine": engine, "decode_kernel": kernel, "page_size": page, "run": 1,
                   "step": step, "kind": kind, "decode_tokens": 20 + step % 12, "floor_ms": 11}
            for part, ms in parts.items():
                ms = ms / 4 if part == "decode_attention" and place else ms
                row[f"{part}_ms"] = ms * scale
            row["prompt_attention_ms"] = 4 if kind == "loaded" else ""
            row["duration_ms"] = sum(row[f"{part}_ms"] or 0 for part in parts) + 0.5
            rows.append(row)
    return rows


def plan_rows() -> list[dict]:
    """Two kernels by rows and chunk; the smallest rows hold nothing."""
    return [{**RUN, "workload": "mixed seed 0", "trace": "", "policy": "least-loaded",
             "decode_kernel": kernel, "page_size": page, "pool_slots": 65536, "max_batch": rows,
             "chunk_tokens": chunk, "question": "highest rate", "machines": 2,
             "rate": 0.5 * rows * factor if rows > 8 else 0,
             "rate_per_machine": 0.25 * rows * factor if rows > 8 else 0,
             "target_first_token_p99_s": 1, "target_gap_p99_ms": "",
             "beyond_misses": "first token" if rows > 8 else ""}
            for kernel, page, factor in (("split", 64, 1), ("flash", 256, 0.8))
            for rows in (8, 16, 32) for chunk in (128, 512)]


def check_rows() -> list[dict]:
    return [{**RUN, "source": "runs.csv", "decode_kernel": kernel, "page_size": page, "what": what,
             "measured": scale * size, "predicted": scale * size * 1.02}
            for _, kernel, page in ENGINES
            for what, scale in (("closed_s", 0.1), ("served_per_s", 3)) for size in (4, 9)]


def seed_rows() -> list[dict]:
    return [{**RUN, "figure": figure, "published": 5, "draw": draw, "predicted": 4.8 + 0.02 * draw}
            for figure in ("rate 7: served/s", "closed mixed-32: s") for draw in range(20)]


def write_tables(folder: pathlib.Path) -> None:
    for name, rows in (("arrivals", arrivals_rows()), ("check", check_rows()),
                       ("closed/runs", runs_rows()), ("kernel", kernel_rows()),
                       ("plan", plan_rows()), ("seed_tables", seed_rows()),
                       ("steps", steps_rows())):
        path = folder / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    header = {"machine": {"cpu": "a processor", "gpus": ["NVIDIA H200"]},
              "command": ["decant", "bench", "closed", "--model", "models/m.gguf"]}
    (folder / "closed" / "runs.jsonl").write_text(json.dumps({"header": header}) + "\n")


def drop_column(path: pathlib.Path, column: str) -> None:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if name != column],
                                extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@unittest.skipUnless(PYTHON, "no Python here has matplotlib")
class Plots(unittest.TestCase):

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        write_tables(self.folder)

    def plot(self, name: str, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [PYTHON, "-B", SCRIPTS / f"{name}.py", "--in", self.folder, "--out",
             self.folder / "out" / f"{name}.png", *arguments],
            check=False, capture_output=True, text=True)

    def refused(self, name: str, *arguments: str) -> str:
        done = self.plot(name, *arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse((self.folder / "out" / f"{name}.png").exists())
        return done.stderr

    def test_every_plot_is_a_picture(self):
        for name in ("plot_arrivals", "plot_flash", "plot_plan", "plot_simulation", "plot_steps"):
            with self.subTest(name=name):
                done = self.plot(name)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr, "")
                data = (self.folder / "out" / f"{name}.png").read_bytes()
                self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
                width, height = struct.unpack(">II", data[16:24])
                self.assertGreater(width, 1000)
                self.assertGreater(height, 600)
                self.assertGreater(len(data), 40000)

    def test_a_missing_column_is_named(self):
        for name, table, column in (("plot_arrivals", "arrivals.csv", "queue_p50_s"),
                                    ("plot_flash", "closed/runs.csv", "wall_s"),
                                    ("plot_flash", "kernel.csv", "floor_us"),
                                    ("plot_plan", "plan.csv", "beyond_misses"),
                                    ("plot_simulation", "check.csv", "predicted"),
                                    ("plot_simulation", "seed_tables.csv", "published"),
                                    ("plot_steps", "steps.csv", "gate_up_ms")):
            with self.subTest(table=table):
                write_tables(self.folder)
                drop_column(self.folder / table, column)
                said = self.refused(name)
                self.assertIn(column, said)
                self.assertIn(pathlib.Path(table).name, said)

    def test_a_missing_file_or_a_bad_cell_is_named(self):
        (self.folder / "kernel.csv").unlink()
        self.assertIn("no kernel.csv", self.refused("plot_flash"))
        self.assertIn("no-such-folder",
                      self.refused("plot_arrivals", "--in", str(self.folder / "no-such-folder")))
        path = self.folder / "arrivals.csv"
        path.write_text(path.read_text().replace("0.0004", "soon", 1))
        self.assertIn("queue_p50_s is 'soon'", self.refused("plot_arrivals"))
        path.write_text(path.read_text().splitlines()[0] + "\n")
        self.assertIn("no row", self.refused("plot_arrivals"))

    def test_plans_for_different_targets_do_not_share_a_picture(self):
        path = self.folder / "plan.csv"
        path.write_text(path.read_text().replace(",1,,first token", ",2,,first token", 1))
        self.assertIn("2 different targets", self.refused("plot_plan"))

    def test_a_batch_that_is_not_there_is_refused(self):
        self.assertIn("1, 32", self.refused("plot_flash", "--batch", "7"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
