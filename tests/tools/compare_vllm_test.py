#!/usr/bin/env python3
"""scripts/compare-vllm with a real decant on the CPU and a stand-in for vLLM, which keeps to the parts of vLLM's interface that
the script uses and refuses all else. Usage: compare_vllm_test.py DECANT [unittest's arguments]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "compare-vllm"
STAND_IN = {
    "vllm/__init__.py": """
from vllm.sampling_params import SamplingParams
__version__ = "0.0.stand-in"
""",
    "vllm/sampling_params.py": """
import dataclasses, enum
class RequestOutputKind(enum.Enum):
    CUMULATIVE = 0
    DELTA = 1
@dataclasses.dataclass(kw_only=True)
class SamplingParams:
    temperature: float
    max_tokens: int
    ignore_eos: bool
    detokenize: bool
    output_kind: RequestOutputKind
""",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": """
import dataclasses
@dataclasses.dataclass(kw_only=True)
class AsyncEngineArgs:
    model: str
    load_format: str
    skip_tokenizer_init: bool
    dtype: str
    seed: int
    max_model_len: int
    enable_prefix_caching: bool
    enable_chunked_prefill: bool
    disable_log_stats: bool
    max_num_seqs: int
    max_num_batched_tokens: int
""",
    "vllm/v1/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/async_llm.py": """
import asyncio, json, os, pathlib, types
class AsyncLLM:
    @classmethod
    def from_engine_args(cls, arguments):
        asyncio.get_running_loop()
        engine = cls()
        engine.arguments = arguments
        config = json.loads((pathlib.Path(arguments.model) / "config.json").read_text())
        assert config["architectures"] == ["LlamaForCausalLM"] and config["num_hidden_layers"] == 4, config
        engine.vocab = config["vocab_size"]
        engine.ids = set()
        return engine
    async def generate(self, *, prompt, sampling_params, request_id):
        assert request_id not in self.ids, "vLLM refuses an id that it knows"
        self.ids.add(request_id)
        ids = prompt["prompt_token_ids"]
        assert ids and all(0 <= token < self.vocab for token in ids)
        assert len(ids) + sampling_params.max_tokens <= self.arguments.max_model_len
        assert sampling_params.ignore_eos and sampling_params.output_kind.name == "DELTA"
        with open(os.environ["STAND_IN_LOG"], "a") as log:
            log.write(json.dumps([self.arguments.max_num_seqs, self.arguments.max_num_batched_tokens, request_id, ids,
                                  sampling_params.max_tokens, os.environ.get("VLLM_BATCH_INVARIANT")]) + "\\n")
        for number in range(sampling_params.max_tokens):
            await asyncio.sleep(0)
            if os.environ.get("STAND_IN_FAILS") and number == 1:
                return
            yield types.SimpleNamespace(outputs=[types.SimpleNamespace(token_ids=[7])])
    def shutdown(self):
        pass
""",
}

decant = "decant"


class CompareVllm(unittest.TestCase):

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.log = self.folder / "log.jsonl"
        self.out = self.folder / "rows.jsonl"

    def run_script(self, *more: str, stand_in: bool = True, **environment: str) -> subprocess.CompletedProcess:
        if stand_in:
            for name, text in STAND_IN.items():
                path = self.folder / "modules" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        command = [sys.executable, SCRIPT, "--decant", decant, "--device", "cpu", "--shape", "tiny", "--scale", "0.02",
                   "--batch-size", "5", "--requests", "6", "--rate", "500", "--runs", "2", "--out", self.out, *more]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500,
                              env={**os.environ, "PYTHONPATH": str(self.folder / "modules"), "STAND_IN_LOG": str(self.log),
                                   **environment})

    def test_without_vllm_it_says_how_to_install_it(self):
        done = self.run_script(stand_in=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("pip install vllm", done.stderr)
        self.assertFalse(self.out.exists())

    def test_both_get_the_same_requests_and_stand_side_by_side(self):
        done = self.run_script("--batch-invariant", "--free-chunk", "auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        for limits in ("seed", "free"):
            self.assertRegex(done.stdout, rf"closed, to the last request \(s\) +{limits} +[\d.e-]+ +[\d.e-]+ +[\d.e+-]+\n")
        lines = [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(lines[0]["header"]["vllm"], "0.0.stand-in")
        rows = [line["run"] for line in lines[1:]]
        for engine in ("decant", "vLLM"):
            for limits in ("seed", "free"):
                own = [(row["measurement"], row["run"]) for row in rows if (row["engine"], row["limits"]) == (engine, limits)]
                self.assertEqual(own, [("closed", 1), ("closed", 2), ("arrivals", 1)])
        self.assertTrue(all(row["wall_s"] > 0 and row["served_per_s"] > 0 for row in rows))

        asked = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
        self.assertEqual({tuple(line[:2]) for line in asked}, {(32, 512), (256, 8192)})
        self.assertEqual({line[5] for line in asked}, {"1"})
        # What vLLM got is what decant bench workload writes, and so what decant bench makes.
        file = self.folder / "workload.jsonl"
        subprocess.run([decant, "bench", "workload", "--shape", "tiny", "--scale", "0.02", "--requests", "5", "--out", file],
                       check=True, capture_output=True, timeout=100)
        requests = [json.loads(line).get("request") for line in file.read_text(encoding="utf-8").splitlines()]
        wanted = [(request["prompt"], request["budget"]) for request in requests if request]
        first = [(line[3], line[4]) for line in asked if line[:2] == [32, 512] and line[2].startswith("c1-")]
        self.assertEqual(first, wanted)

    def test_tokens_that_are_missing_are_an_error(self):
        done = self.run_script(STAND_IN_FAILS="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("vLLM failed with seed limits", done.stderr)
        self.assertRegex(done.stderr, r"vLLM gave 1 tokens of \d+")
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    decant = sys.argv.pop(1)
    unittest.main()
