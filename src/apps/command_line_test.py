#!/usr/bin/env python3
"""Runs the program as a person would. Usage: command_line_test.py DECANT [unittest's arguments]

What needs a model uses SmolLM2 from $DECANT_MODELS, else models/, and is skipped without it.
"""

import csv
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path(os.environ.get("DECANT_MODELS") or REPOSITORY / "models")
MODEL = MODELS / "smollm2-135m-instruct-q4_1.gguf"
COMMANDS = [["bench", "arrivals"], ["bench", "closed"], ["bench", "compare"],
            ["bench", "invariance"], ["bench", "kernel"], ["bench", "linear"],
            ["bench", "page-probe"], ["bench", "steps"], ["bench", "workload"], ["generate"],
            ["inspect"], ["parity"], ["score"], ["serve"], ["tokenize"],
            *(["simulate", part] for part in ("check", "faults", "fit", "fit-seed", "mutations",
                                              "plan", "seed-tables")),
            *(["gate", gate] for gate in ("kernel", "engine", "invariance", "wide-pages", "poison",
                                          "same-pages", "reference", "all"))]
TIMEOUT = 120  # seconds, of one command

program = "decant"
needs_model = unittest.skipUnless(MODEL.is_file(), f"{MODEL.name} is not in the cache folder")


def run(*arguments: str | pathlib.Path, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True,
                          check=False, timeout=TIMEOUT)


def wait_for(condition) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it never came")
        time.sleep(0.05)


class WithoutAModel(unittest.TestCase):

    def refused(self, code: int, *arguments: str | pathlib.Path) -> str:
        """Runs what must fail with `code`, and returns what it says."""
        done = run(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_every_command_teaches(self):
        for command in [[], *COMMANDS]:
            done = run(*command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertIn("decant generate --model" if not command else "Example", done.stdout)
        self.assertRegex(run("--version").stdout, r"^decant \d+\.\d+\.\d+ \(\S+\)\n$")

    def test_says_what_is_missing(self):
        self.assertIn("subcommand", self.refused(2))
        self.assertIn("--model", self.refused(2, "generate"))
        self.assertIn("--case", self.refused(2, "bench", "compare", "--model", "m.gguf"))
        self.assertIn("no-such-file.gguf",
                      self.refused(1, "inspect", "no-such-file.gguf"))
        self.assertIn("no-such-file.txt",
                      self.refused(1, "generate", "--model", "m", "--prompt-file",
                                   "no-such-file.txt"))

    def test_names_the_flag_and_what_it_may_be(self):
        cases = [
            (["--engine", "warp"], ["--engine", "warp", "decant, fused"]),
            (["--decode-kernel", "fast"], ["--decode-kernel", "fast", "rows, split"]),
            (["--linear", "fast"], ["--linear", "fast", "cublas, invariant"]),
            (["--threads", "-1"], ["--threads", "-1"]),
            (["--max-batch", "0"], ["--max-batch", "0"]),
            (["--chunk-tokens", "0"], ["--chunk-tokens is 0", "1 or more"]),
            (["--chunk-tokens", "some"], ["--chunk-tokens is 'some'", "auto"]),
            (["--max-step-ms", "5"], ["--max-step-ms needs --chunk-tokens auto"]),
            (["--chunk-tokens", "auto", "--max-step-ms", "nan"], ["--max-step-ms is nan", "above 0"]),
            (["--chunk-tokens", "auto", "--max-chunk-tokens", "100"],
             ["--max-chunk-tokens is 100", "multiples of 16"]),
            (["--max-chunk-tokens", "64"], ["--max-chunk-tokens needs --chunk-tokens auto"]),
            (["--page-size", "0"], ["--page-size", "0"]),
            (["--pool-gib", "nan"], ["--pool-gib", "nan"]),
            (["--threads", "two"], ["--threads", "two"]),
            (["--log-level", "loud"], ["debug, info, warning, error, off"]),
        ]
        for flags, words in cases:
            with self.subTest(flags=flags):
                front = flags if flags[0] == "--log-level" else []
                back = [] if front else flags
                said = self.refused(2, *front, "generate", "--model", "m", "--prompt", "x", *back)
                for word in words:
                    self.assertIn(word, said)
        said = self.refused(1, "generate", "--model", "m", "--prompt", "x", "--engine", "flash")
        self.assertIn("CUDA", said)

    def test_names_the_flag_of_a_benchmark(self):
        closed = ["bench", "closed", "--model", "m"]
        cases = [
            (["--prompts", "256"], ["--prompts", "p256"]),
            (["--prompts", "p256", "--mixed-seed", "0"], ["--prompts", "--mixed-seed"]),
            (["--budget", "some"], ["--budget", "64-256"]),
            (["--budget", "9-8"], ["9", "8"]),
            (["--scale", "-1"], ["scale", "-1"]),
            (["--batch-size", "0"], ["--batch-size", "0"]),
            (["--runs", "0"], ["--runs", "0"]),
            (["--decode-kernel", "rows,fast"], ["--decode-kernel", "fast"]),
            (["--tokens"], ["--tokens", "--out"]),
        ]
        for flags, words in cases:
            with self.subTest(flags=flags):
                said = self.refused(2, *closed, *flags)
                for word in words:
                    self.assertIn(word, said)
        cases = [
            ([], ["--rates", "auto", "--trace"]),
            (["--rates", "fast"], ["--rates", "fast", "auto"]),
            (["--rates", "1,auto"], ["--rates", "auto"]),
            (["--rates", "nan"], ["--rates", "nan"]),
            (["--rates", "auto", "--start-rate", "0"], ["--start-rate", "0"]),
            (["--rates", "1", "--requests", "1"], ["--requests", "1"]),
            (["--rates", "1", "--speedup", "2"], ["--speedup", "--trace"]),
            (["--trace", "t.csv", "--speedup", "-1"], ["--speedup", "-1"]),
            (["--trace", "t.csv", "--rates", "1"], ["--trace", "--rates"]),
            (["--trace", "t.csv", "--scale", "0.1"], ["--trace", "--scale"]),
        ]
        for flags, words in cases:
            with self.subTest(flags=flags):
                said = self.refused(2, "bench", "arrivals", "--model", "m", *flags)
                for word in words:
                    self.assertIn(word, said)
        self.assertIn("no-such-file.csv", self.refused(1, "bench", "arrivals", "--model", "m",
                                                       "--trace", "no-such-file.csv"))
        self.assertIn("decode1_at0",
                      self.refused(2, "bench", "compare", "--model", "m", "--case", "decode9"))
        for flag in ("--requests", "--runs", "--scale"):
            self.assertIn(flag.strip("-"),
                          self.refused(2, "bench", "steps", "--model", "m", flag, "0"))

    def test_simulates_without_a_model(self):
        self.assertIn("no-such-file.json", self.refused(
            1, "simulate", "check", "--device-file", "no-such-file.json", "--results", "results"))
        self.assertIn("--draws", self.refused(2, "simulate", "seed-tables", "--draws", "0"))
        with tempfile.TemporaryDirectory() as folder:
            device = f"{folder}/device.json"
            self.assertIn("24.000", run("simulate", "fit-seed", "--out", device).stdout)
            done = run("simulate", "seed-tables", "--device-file", device, "--draws", "2",
                       "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the median of 2 draws", done.stdout)
            with open(f"{folder}/seed_tables.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual({row["draw"] for row in rows}, {"0", "1"})

    TINY = ("--random-weights", "0", "--shape", "tiny", "--device", "cpu", "--pool-gib", "0.1")

    def test_results_say_how_chunks_are_chosen(self):
        closed = ("runs", "batch", ["closed", "--batch-size", "3", "--warm-ups", "0", "--runs", "1"])
        arrivals = ("arrivals", "rate", ["arrivals", "--rates", "500", "--requests", "4"])
        steps = ("steps", "steps", ["steps", "--requests", "4", "--warm-ups", "0", "--runs", "1"])
        limit = ["--chunk-tokens", "auto", "--max-step-ms", "2.5", "--max-chunk-tokens", "64"]
        for chunk, flags, benches in (("512", [], [closed]), ("auto", ["--chunk-tokens", "auto"], [closed]),
                                      ("auto:2.5ms", limit, [closed, arrivals, steps])):
            for name, key, bench in benches:
                with self.subTest(chunk=chunk, bench=name), tempfile.TemporaryDirectory() as folder:
                    out = pathlib.Path(folder)
                    done = run("bench", *bench, *self.TINY, "--scale", "0.02", "--out", out, *flags)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    with open(out / f"{name}.csv", encoding="utf-8") as file:
                        self.assertEqual({row["chunk_tokens"] for row in csv.DictReader(file)}, {chunk})
                    lines = [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]
                    self.assertEqual({line[key]["chunk_tokens"] for line in lines if key in line},
                                     {int(chunk) if chunk.isdigit() else chunk})

    def test_invariance_is_priced_in_pairs(self):
        bench = ["bench", "invariance", *self.TINY]
        self.assertIn("--linear", self.refused(2, *bench, "--linear", "cublas"))
        self.assertIn("split", self.refused(2, *bench, "--decode-kernel", "rows"))
        self.assertIn("--rate", self.refused(2, *bench, "--rate", "nan"))
        with tempfile.TemporaryDirectory() as folder:
            done = run(*bench, "--scale", "0.02", "--batch-size", "3", "--requests", "4", "--rate",
                       "500", "--runs", "1", "--pairs", "2", "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("not a price", done.stdout)
            with open(pathlib.Path(folder) / "invariance.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            measures = ["closed", "served", "token_gap", "pure_decode"]
            self.assertEqual([(row["pair"], row["measure"], row["path"]) for row in rows],
                             [(pair, measure, path) for pair in ("1", "2") for measure in measures
                              for path in ("invariant", "invariant again")])
            for one, two in zip(rows[::2], rows[1::2]):
                ratio = float(one["value"]) / float(two["value"])
                self.assertAlmostEqual(float(one["ratio"]), 1 / ratio if one["measure"] == "served" else ratio, 6)
                self.assertEqual(one["ratio"], two["ratio"])

    def test_a_workload_is_written_for_other_engines(self):
        self.assertIn("--shape", self.refused(2, "bench", "workload", "--out", "x"))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "workload.jsonl"
            command = ["bench", "workload", "--shape", "tiny", "--scale", "0.1", "--requests", "6",
                       "--out", path]
            for rate in ([], ["--rate", "2"]):
                done = run(*command, *rate)
                self.assertEqual(done.returncode, 0, done.stderr)
                lines = [json.loads(line) for line in path.read_text().splitlines()]
                self.assertEqual(lines[1]["shape"]["num_hidden_layers"], 4)
                requests = [line["request"] for line in lines[2:]]
                self.assertEqual(len(requests), 6)
                arrivals = [request["arrival_s"] for request in requests]
                self.assertEqual(arrivals, sorted(arrivals))
                self.assertEqual(arrivals[0], 0)
                self.assertEqual(arrivals[-1] > 0, bool(rate))
                for request in requests:
                    self.assertIn(len(request["prompt"]), (2, 6, 26, 102, 410))
                    self.assertIn(request["budget"], range(6, 27))

    def test_names_the_flag_of_a_kernel_benchmark(self):
        cases = [
            (["kernel", "--lengths", "0"], ["--lengths", "0"]),
            (["kernel", "--chunk", "1"], ["--chunk", "1"]),
            (["kernel", "--batches", "two"], ["--batches", "two"]),
            (["kernel", "--page-size", "0"], ["0", "1 to 65536"]),
            (["kernel", "--heads", "7"], ["--heads 7", "--kv-heads 2"]),
            (["kernel", "--head-dim", "48"], ["--head-dim", "48", "32"]),
            (["kernel", "--decode-kernel", "fast"], ["--decode-kernel", "fast", "rows, split"]),
            (["kernel", "--threads", "-1"], ["--threads", "-1"]),
            (["kernel", "--overlap", "maybe"], ["--overlap", "maybe", "on", "off"]),
            (["linear", "--overlap", "maybe"], ["--overlap", "maybe", "on", "off"]),
            (["page-probe", "--threads", "-1"], ["--threads", "-1"]),
            (["page-probe", "--page-sizes", "big"], ["--page-sizes", "big"]),
        ]
        for flags, words in cases:
            with self.subTest(flags=flags):
                said = self.refused(2, "bench", *flags)
                for word in words:
                    self.assertIn(word, said)
        self.assertIn("CUDA", self.refused(1, "bench", "kernel", "--device", "cpu",
                                           "--decode-kernel", "flash"))
        self.assertIn("--dtype", self.refused(1, "bench", "kernel", "--device", "cpu", "--dtype",
                                              "fp16"))
        for bench in (["kernel", "--lengths", "16", "--batches", "1"],
                      ["linear", "--products", "o", "--tokens", "1"]):
            self.assertIn("--overlap", self.refused(2, "bench", *bench, "--device", "cpu",
                                                    "--layers", "1", "--overlap", "on"))

    def bench_rows(self, folder: str, name: str, *arguments: str) -> list[dict[str, str]]:
        """Runs a benchmark of kernels and returns name.csv, once it agrees with name.jsonl."""
        done = run("bench", *arguments, "--device", "cpu", "--out", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = pathlib.Path(folder) / name
        with open(path.with_suffix(".csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
        objects = [json.loads(line) for line in lines]
        self.assertIn(arguments[0], objects[0]["header"]["command"])
        self.assertEqual([entry["row"]["kernel"] for entry in objects if "row" in entry],
                         [row["kernel"] for row in rows])
        return rows

    def test_kernel_bench_writes_a_row_a_case(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["kernel", "--layers", "2", "--lengths", "16,65", "--batches", "1,2",
                         "--mixed-seeds", "1", "--chunk", "8", "--history", "0,30", "--repeats",
                         "2"]
            cases = [("16", "1"), ("65", "1"), ("mixed seed 1", "1"), ("16", "2"), ("65", "2"),
                     ("mixed seed 1", "2")]
            expected = [(kernel, *case) for case in cases for kernel in ("rows", "split")]
            expected += [("prompt", "8 after 0", "1"), ("prompt", "8 after 30", "1")]
            for repeat in (1, 2):
                rows = self.bench_rows(folder, "kernel", *arguments)
                self.assertEqual([(row["kernel"], row["lengths"], row["batch"]) for row in rows],
                                 expected * repeat)
            for row in rows:
                self.assertEqual(row["overlap"], "n/a")
                self.assertEqual(int(row["bytes_per_layer"]), int(row["tokens"]) * 2 * 2 * 128 * 2)
                self.assertLessEqual(float(row["us_min"]), float(row["us_per_layer"]))
                self.assertAlmostEqual(float(row["us_per_layer"]) / float(row["floor_us"]),
                                       float(row["times_floor"]), 6)

    def test_page_probe_tells_refusals_from_what_works(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = self.bench_rows(folder, "page_probe", "page-probe", "--layers", "1",
                                   "--page-sizes", "0,24,64", "--batch", "2", "--repeats", "1",
                                   "--heads", "3", "--kv-heads", "1", "--head-dim", "64")
            self.assertEqual([(row["page_size"], row["kernel"]) for row in rows],
                             [(size, kernel) for size in ("0", "24", "64")
                              for kernel in ("rows", "split", "prompt")])
            for row in rows:
                works = row["page_size"] != "0"
                self.assertEqual(row["outcome"], "works" if works else "refused", row)
                self.assertEqual(bool(row["us_per_layer"]), works)
                self.assertEqual("1 to 65536" in row["message"], not works)

    def test_names_the_flag_of_a_score(self):
        score = ["score", "--model", "m"]
        self.assertIn("--text", self.refused(2, *score))
        self.assertIn("--through", self.refused(2, *score, "--prompt", "x", "--through", "fast"))
        self.assertIn("--prompt", self.refused(2, *score, "--prompt", "x", "--text", "y"))
        self.assertIn("no-such-file", self.refused(1, *score, "--text", "no-such-file"))

    def test_parity_names_the_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokens.jsonl"
            path.write_text('{"header": {}}\n{"request": {"workload": 5}}\n')
            said = self.refused(1, "parity", folder, path)
            self.assertIn("tokens.jsonl, line 2", said)
            self.assertIn("'workload'", said)
            none = pathlib.Path(folder) / "none"
            self.assertIn("none: cannot be read", self.refused(1, "parity", none, path))
            self.assertIn("B", self.refused(2, "parity", path))

    def test_names_the_flag_of_a_gate(self):
        cases = [
            (["kernel", "--head-dims", "48"], ["--head-dims", "48", "32"]),
            (["kernel", "--decode-kernel", "fast"], ["--decode-kernel", "fast"]),
            (["kernel", "--threads", "-1"], ["--threads", "-1"]),
            (["engine", "--model", "m", "--workload", "odd"], ["--workload", "odd", "uniform"]),
            (["engine", "--model", "m", "--against", "warp"], ["--against", "warp"]),
            (["poison", "--model", "m", "--requests", "0"], ["--requests", "0"]),
            (["wide-pages", "--model", "m", "--page-size", "64"], ["--page-size"]),
            (["reference", "--model", "m"], ["--golden"]),
        ]
        for flags, words in cases:
            with self.subTest(flags=flags):
                said = self.refused(2, "gate", *flags)
                for word in words:
                    self.assertIn(word, said)
        self.assertIn("no-such-file", self.refused(1, "gate", "reference", "--model", "m",
                                                   "--golden", "no-such-file"))

    def test_serve_names_the_flag_wherever_it_was_set(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "serve.toml"
            cases = [
                (["--port", "99999"], {}, "", ["--port", "65535"]),
                ([], {"DECANT_PORT": "x"}, "", ["--port", "x"]),
                ([], {"DECANT_MAX_NUM_SEQS": "many"}, "", ["--max-batch", "many"]),
                ([], {}, "max-num-seqs = many", ["serve.toml", "--max-batch", "many"]),
                ([], {}, "prot = 1", ["serve.toml", "prot"]),
                ([], {}, "[serve]\nport = 1", ["serve.toml", "serve"]),
                (["--max-batch", "0"], {"DECANT_MAX_BATCH": "x"}, "", ["--max-batch", "0"]),
                (["--idle-timeout", "nan"], {}, "", ["--idle-timeout"]),
                (["--access-log", ""], {}, "", ["--access-log"]),
                (["--api-key", ""], {}, "", ["--api-key"]),
            ]
            for flags, environment, text, words in cases:
                with self.subTest(flags=flags, environment=environment, text=text):
                    path.write_text(text)
                    done = subprocess.run(
                        [program, "serve", "--model", "m", "--config", path, *flags],
                        env={**os.environ, "DECANT_PORT": "0", **environment}, text=True,
                        capture_output=True, check=False, timeout=TIMEOUT)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    for word in words:
                        self.assertIn(word, done.stderr)
        self.assertIn("no-such-file", self.refused(2, "serve", "--model", "m", "--config",
                                                   "no-such-file"))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            said = self.refused(1, "serve", "--model", "m", "--port", port)
            self.assertIn(port, said)
            self.assertIn("--port", said)

    def test_names_the_flag_of_a_fault_hunt(self):
        cases = [
            (["--histories", "0"], ["--histories", "0"]),
            (["--threads", "-1"], ["--threads", "-1"]),
            (["--mutation", "gremlin"], ["--mutation", "gremlin", "drop-cancel"]),
            (["--seed", str(2**64 - 1)], ["--seed", str(2**64 - 1)]),
        ]
        for flags, words in cases:
            with self.subTest(flags=flags):
                said = self.refused(2, "simulate", "faults", *flags)
                for word in words:
                    self.assertIn(word, said)

    def test_a_fault_is_found_replayed_and_recorded(self):
        done = run("simulate", "faults", "--histories", "100", "--mutation", "drop-cancel")
        self.assertEqual(done.returncode, 1)
        replay = re.search(r"replay: decant (simulate faults .*)", done.stdout)
        self.assertIsNotNone(replay, done.stdout)
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder) / "faults.jsonl"
            again = run(*replay[1].split(), "--out", record)
            self.assertEqual(again.returncode, 1)
            # From the breach on both say the same: the promise, the events that are left.
            breach = done.stdout.split("\n\n")[1]
            self.assertIn(breach.strip(), again.stdout)
            header, row = [json.loads(line) for line in record.read_text().splitlines()]
            self.assertEqual(header["header"]["seed"], row["row"]["faults"][0]["seed"])
            self.assertEqual(row["row"]["histories_with_faults"], 1)
        clean = run("simulate", "faults", "--histories", "100")
        self.assertEqual(clean.returncode, 0, clean.stdout)
        self.assertIn("0 histories broke a promise", clean.stdout)

    def test_an_interrupt_ends_a_fault_hunt_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder) / "faults.jsonl"
            with subprocess.Popen([program, "simulate", "faults", "--histories", "100000000", "--out", record],
                                  stdout=subprocess.PIPE, text=True) as process:
                wait_for(record.exists)  # made once the hunt begins
                process.send_signal(signal.SIGINT)
                said, _ = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 130)
            self.assertIn("0 histories broke a promise", said)
            self.assertEqual(record.read_text(), "")

    def test_the_kernel_gate_adds_its_row(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gates.jsonl"
            for rows in (1, 2):
                done = run("gate", "kernel", "--quick", "--groups", "3", "--head-dims", "64",
                           "--out", path)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("gate kernel: passed", done.stdout)
                lines = [json.loads(line) for line in path.read_text().splitlines()]
                self.assertEqual(len(lines), rows)
            row = lines[-1]
            self.assertEqual((row["gate"], row["passed"]), ("kernel", True))
            self.assertEqual({part["kernel"] for part in row["compared"]["kernels"]},
                             {"rows", "split", "prompt"})
            self.assertGreater(row["largest_difference"], 0)
            self.assertIn("--quick", row["header"]["command"])

    def test_a_file_that_is_no_model_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bad.gguf"
            path.write_bytes(b"GGUF\x03\0\0\0" + b"\xff" * 64)
            for command in (["inspect", path], ["generate", "--prompt", "x", "--model", path],
                            ["tokenize", "--model", path]):
                self.assertIn("bad.gguf", self.refused(1, *command))


@needs_model
class WithAModel(unittest.TestCase):

    def test_inspect_shows_the_model(self):
        said = run("inspect", "--tensors", "--metadata", MODEL).stdout
        for word in ["llama", "layers      30", "9 heads of 64, 3 for K and V", "49152 tokens",
                     "Q4_1", "22.5 KiB", "blk.29.ffn_down.weight", "general.architecture"]:
            self.assertIn(word, said)

    def test_tokenize_goes_there_and_back(self):
        texts = ["Hello, world", "", "two\nlines, \"quotes\" and é", "<|im_end|> as text"]
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        ids = run("tokenize", "--model", MODEL, text=lines).stdout
        self.assertEqual(json.loads(ids.splitlines()[0]), [19556, 28, 905])
        back = run("tokenize", "--model", MODEL, "--decode", text=ids).stdout
        self.assertEqual([json.loads(line) for line in back.splitlines()], texts)

        special = run("tokenize", "--model", MODEL, "--special", text='"<|im_end|>"\n').stdout
        self.assertEqual(json.loads(special), [2])
        self.assertEqual(run("tokenize", "--model", MODEL, "--decode", text="[2]\n").stdout, '""\n')
        self.assertEqual(
            run("tokenize", "--model", MODEL, "--decode", "--special", text="[2]\n").stdout,
            '"<|im_end|>"\n')

    def test_tokenize_names_the_bad_line(self):
        for flags, lines in [([], '"a"\n{}\n"b"\n'), ([], '"a"\n"\\ud800"\n'), ([], '"a"\n\n'),
                             (["--decode"], "[1]\n[1, 49152]\n"), (["--decode"], "[1]\n[-1]\n"),
                             (["--decode"], "[1]\n[1.5]\n"), (["--decode"], '[1]\n"a"\n'),
                             (["--decode"], "[1]\n" + "[" * 100000 + "\n"),
                             (["--decode"], "[1]\n[18446744073709551617]\n")]:
            with self.subTest(flags=flags, lines=lines[:40]):
                done = run("tokenize", "--model", MODEL, *flags, text=lines)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("line 2", done.stderr)
                self.assertEqual(len(done.stdout.splitlines()), 1)

    def generate(self, *flags: str, text: str = "") -> subprocess.CompletedProcess:
        done = run("generate", "--model", MODEL, "--max-tokens", "12", *flags, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_generate_takes_its_prompt_from_anywhere(self):
        prompt = "The capital of France is"
        expected = self.generate("--prompt", prompt).stdout
        self.assertIn("Paris", expected)
        self.assertEqual(self.generate(text=prompt).stdout, expected)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(prompt)
            file.flush()
            self.assertEqual(self.generate("--prompt-file", file.name).stdout, expected)
        self.assertEqual(self.generate("--prompt", prompt, "--decode-kernel", "rows").stdout,
                         expected)
        self.assertRegex(self.generate("--prompt", prompt, "--stop", "aris").stderr, "stop string")
        self.assertEqual(self.generate("--prompt", prompt, "--stop", "aris").stdout, " P\n")

    def test_generate_repeats_a_seed(self):
        flags = ["--prompt", "Once upon a time", "--temperature", "1.5", "--seed"]
        first = self.generate(*flags, "1").stdout
        self.assertEqual(self.generate(*flags, "1").stdout, first)
        self.assertNotEqual(self.generate(*flags, "2").stdout, first)

    def test_generate_says_what_cannot_fit(self):
        done = run("generate", "--model", MODEL, "--prompt", "x", "--max-tokens", "9000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("8192", done.stderr)

    def test_an_interrupt_ends_generate_in_order(self):
        process = subprocess.Popen(
            [program, "generate", "--model", MODEL, "--prompt", "1 2 3", "--max-tokens", "8000",
             "--ignore-eos"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"cancelled", said)

    def test_serve_starts_answers_and_ends_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "serve.toml"
            config.write_text("port = 1\nmax-num-seqs = 2\n")
            log = pathlib.Path(folder) / "access.jsonl"
            process = subprocess.Popen(
                [program, "serve", "--model", MODEL, "--config", config, "--access-log", log],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "DECANT_PORT": "0"})
            try:
                line = process.stdout.readline()
                self.assertRegex(line, r"^listening on http://127\.0\.0\.1:\d+\n$")
                request = urllib.request.Request(line.split()[-1] + "/health",
                                                 headers={"X-Request-Id": "probe"})
                with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                    self.assertEqual(answer.status, 200)
                    self.assertEqual(answer.headers["X-Request-Id"], "probe")
                for page in ("/", "/metrics", "/openapi.json", "/status.json"):
                    with urllib.request.urlopen(line.split()[-1] + page, timeout=TIMEOUT) as answer:
                        self.assertGreater(len(answer.read()), 500, page)
            finally:
                process.send_signal(signal.SIGTERM)
                _, said = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 0, said)
            self.assertIn("stopping", said)
            rows = [json.loads(row) for row in log.read_text().splitlines()]
            self.assertEqual(rows[0]["id"], "probe")
            self.assertEqual([(row["path"], row["status"]) for row in rows],
                             [(path, 200) for path in ("/health", "/", "/metrics", "/openapi.json",
                                                       "/status.json")])

    def test_closed_bench_adds_to_its_files(self):
        with tempfile.TemporaryDirectory() as folder:
            for repeat in (1, 2):
                done = run("bench", "closed", "--model", MODEL, "--mixed-seed", "3", "--scale",
                           "0.05", "--batch-size", "3", "--max-batch", "2", "--decode-kernel",
                           "rows,split", "--warm-ups", "0", "--runs", "2", "--out", folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"3 requests, 2 rows, split +pure decode")
                with open(pathlib.Path(folder) / "runs.csv", encoding="utf-8") as file:
                    rows = list(csv.DictReader(file))
                self.assertEqual([row["decode_kernel"] for row in rows],
                                 ["rows", "rows", "split", "split"] * repeat)
                self.assertTrue(all(float(row["wall_s"]) > 0 for row in rows))
            lines = (pathlib.Path(folder) / "runs.jsonl").read_text(encoding="utf-8").splitlines()
            objects = [json.loads(line) for line in lines]
            kinds = [next(iter(entry)) for entry in objects]
            self.assertEqual(kinds, ["header", "run", "run", "batch", "run", "run", "batch"] * 2)
            self.assertEqual(objects[0]["header"]["seed"], 3)
            self.assertIn("--mixed-seed", objects[0]["header"]["command"])
            self.assertGreater(objects[3]["batch"]["memory_bytes_per_s"], 0)

    def test_steps_bench_writes_its_files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for repeat in (1, 2):
                done = run("bench", "steps", "--model", MODEL, "--scale", "0.02", "--requests", "5",
                           "--max-batch", "2", "--warm-ups", "0", "--runs", "1", "--out", folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                for words in (r"gate up +\d", r"sum of parts +\d", r"timing costs [+-]\d",
                              r"token gaps .* median \d"):
                    self.assertRegex(done.stdout, words)
                with open(folder / "steps.csv", encoding="utf-8") as file:
                    rows = list(csv.DictReader(file))
                self.assertEqual({row["kind"] for row in rows}, {"pure_decode", "loaded"})
                self.assertEqual(sum(row["step"] == rows[0]["step"] for row in rows), repeat)
            for row in rows:
                parts = sum(float(row[f"{part}_ms"]) for part in (
                    "upload", "embed", "qkv", "prompt_attention", "decode_attention", "o",
                    "gate_up", "down", "head", "sample", "download"))
                self.assertLessEqual(parts, float(row["device_ms"]) * 1.001)
                self.assertGreater(parts, 0)
            entries = [json.loads(line) for line in
                       (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()]
            self.assertEqual([next(iter(entry)) for entry in entries], ["header", "steps"] * 2)
            summary = entries[-1]["steps"]
            self.assertEqual(summary["pure_decode"]["steps"] + summary["loaded"]["steps"],
                             len(rows) // 2)
            events = json.loads((folder / "trace.json").read_text())["traceEvents"]
            self.assertEqual(sum(event["name"].endswith(" step") for event in events),
                             len(rows) // 2)

    def test_an_interrupted_steps_bench_leaves_no_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(
                [program, "bench", "steps", "--model", MODEL, "--runs", "100", "--out", folder],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while b"KV cache" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 130)
            self.assertEqual({path.name for path in pathlib.Path(folder).iterdir()},
                             {"steps.csv", "steps.jsonl"})

    def test_arrivals_bench_adds_a_row_a_rate(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "service.csv"
            trace.write_text("prompt_tokens,arrival_s,output_tokens\r\n5,10,2\r\n9000,10.1,1\r\n"
                             "7,10.2,3\r\n")
            small = ["bench", "arrivals", "--model", MODEL, "--max-batch", "2", "--out", folder]
            done = run(*small, "--rates", "40,20", "--requests", "4", "--scale", "0.01",
                       "--decode-kernel", "rows,split")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"2 rows, split: \d+\.\d\d requests/s served at most")
            done = run(*small, "--trace", trace, "--speedup", "2")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("1 of 3 requests were left out", done.stdout)
            with open(pathlib.Path(folder) / "arrivals.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([(row["decode_kernel"], row["rate"], row["completed"])
                              for row in rows[:4]],
                             [("rows", "40", "4"), ("rows", "20", "4"), ("split", "40", "4"),
                              ("split", "20", "4")])
            self.assertEqual((rows[4]["trace"], rows[4]["left_out"], rows[4]["generated_tokens"]),
                             ("service.csv x2", "1", "5"))
            for row in rows:
                self.assertLess(float(row["queue_p50_s"]), float(row["first_token_p50_s"]))
                self.assertLessEqual(float(row["pages_max"]), float(row["pages"]))
            lines = (pathlib.Path(folder) / "arrivals.jsonl").read_text(encoding="utf-8")
            kinds = [next(iter(json.loads(line))) for line in lines.splitlines()]
            self.assertEqual(kinds, ["header", *["rate", "rate", "saturation"] * 2,
                                     "header", "rate", "saturation"])

    def test_an_interrupt_leaves_the_finished_rates(self):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(
                [program, "bench", "arrivals", "--model", MODEL, "--rates", "50,0.001",
                 "--requests", "3", "--scale", "0.01", "--out", folder],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertIn("rate 50", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 130)
            with open(pathlib.Path(folder) / "arrivals.csv", encoding="utf-8") as file:
                self.assertEqual([row["rate"] for row in csv.DictReader(file)], ["50"])

    def test_parity_compares_the_tokens_of_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokens.jsonl"
            done = run("bench", "closed", "--model", MODEL, "--scale", "0.05", "--batch-size", "2,3",
                       "--decode-kernel", "rows,split", "--warm-ups", "0", "--runs", "1", "--tokens",
                       "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = path.read_text(encoding="utf-8").splitlines()
            self.assertEqual(len(lines), 1 + 2 * (2 + 3))
            done = run("parity", folder, folder, "--kernel-a", "rows", "--kernel-b", "split")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"all +5 +\d")
            self.assertIn("rows, pages of 64", done.stdout)

            row = json.loads(lines[-1])
            row["request"]["tokens"][1] ^= 1
            forged = pathlib.Path(folder) / "forged.jsonl"
            forged.write_text("\n".join([*lines[:-1], json.dumps(row)]) + "\n", encoding="utf-8")
            done = run("parity", path, forged, "--model", MODEL, "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("flip sites: 1", done.stdout)
            header, flip, summary = (json.loads(line) for line in (
                pathlib.Path(folder) / "parity.jsonl").read_text().splitlines())
            self.assertIn("parity", header["header"]["command"])
            self.assertEqual((flip["flip"]["index"], flip["flip"]["position"]), (2, 1))
            self.assertGreater(flip["flip"]["logprob_a"], flip["flip"]["logprob_b"])
            self.assertEqual((summary["summary"]["requests"], summary["summary"]["differ"]), (10, 1))

    def test_score_agrees_through_every_kernel(self):
        with tempfile.TemporaryDirectory() as folder:
            text = "The sea is blue because it reflects the sky, as everybody knows."
            done = run("score", "--model", MODEL, "--prompt", text, "--decode-kernel", "rows,split",
                       "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(pathlib.Path(folder) / "score.csv", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.assertEqual([(row["through"], row["decode_kernel"]) for row in rows],
                             [("prompt", "rows"), ("decode", "rows"), ("decode", "split")])
            for row in rows:
                self.assertAlmostEqual(float(row["sum_logprob"]), float(rows[0]["sum_logprob"]),
                                       delta=0.5)
                self.assertTrue(10 < float(row["perplexity"]) < 100, row)
            self.assertEqual(rows[0]["largest_difference"], "")
            self.assertLess(float(rows[1]["largest_difference"]), 0.3)

    def test_every_gate_passes(self):
        golden = REPOSITORY / "tests" / "data" / "golden" / "smollm2-135m.jsonl"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gates.jsonl"
            done = run("gate", "all", "--model", MODEL, "--head-dims", "64", "--groups", "3",
                       "--page-sizes", "64", "--lengths", "1,65", "--batches", "2", "--scale",
                       "0.02", "--requests", "3", "--golden", golden, "--max-prompt-tokens", "3",
                       "--out", path)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            self.assertEqual([row["gate"] for row in rows],
                             ["kernel", "engine", "wide-pages", "poison", "same-pages",
                              "reference"])
            self.assertTrue(all(row["passed"] for row in rows))

    def test_compare_ends_with_one_line_of_json(self):
        done = run("bench", "compare", "--model", MODEL, "--case", "decode1_at0", "--repeat", "1",
                   "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(answer["case"], "decode1_at0")
        self.assertEqual(len(answer["tokens_per_s"]), 1)
        self.assertGreater(answer["tokens_per_s"][0], 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv.pop(1)
    unittest.main(verbosity=2)
