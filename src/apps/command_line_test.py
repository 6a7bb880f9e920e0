#!/usr/bin/env python3
"""Runs the program as a person would. Usage: command_line_test.py DECANT [unittest's arguments]

What needs a model uses SmolLM2 from $DECANT_MODELS, else models/, and is skipped without it.
"""

import csv
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path(os.environ.get("DECANT_MODELS") or REPOSITORY / "models")
MODEL = MODELS / "smollm2-135m-instruct-q4_1.gguf"
COMMANDS = [["generate"], ["inspect"], ["serve"], ["tokenize"], ["bench", "closed"], ["bench", "compare"],
            *(["gate", gate] for gate in ("kernel", "engine", "wide-pages", "poison", "same-pages",
                                          "reference", "all"))]
TIMEOUT = 120  # seconds, of one command

program = "decant"
needs_model = unittest.skipUnless(MODEL.is_file(), f"{MODEL.name} is not in the cache folder")


def run(*arguments: str | pathlib.Path, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([program, *arguments], input=text, capture_output=True, text=True,
                          check=False, timeout=TIMEOUT)


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
            (["--threads", "-1"], ["--threads", "-1"]),
            (["--max-batch", "0"], ["--max-batch", "0"]),
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
        ]
        for flags, words in cases:
            with self.subTest(flags=flags):
                said = self.refused(2, *closed, *flags)
                for word in words:
                    self.assertIn(word, said)
        self.assertIn("decode1_at0",
                      self.refused(2, "bench", "compare", "--model", "m", "--case", "decode9"))

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
            [program, "generate", "--model", MODEL, "--prompt", "1 2 3", "--max-tokens", "8000"],
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
