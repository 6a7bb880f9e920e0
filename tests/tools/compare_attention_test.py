"""scripts/compare-attention without a GPU: stand-ins for decant, PyTorch and FlashInfer say how long things take, and what
is missing is missing."""

import csv
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import textwrap
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
COLUMNS = ("utc_time", "commit", "device", "kernel", "overlap", "dtype", "page_size", "layers", "batch", "lengths", "tokens",
           "us_per_layer", "us_min", "us_max", "bytes_per_layer", "floor_us", "times_floor")

# Writes the rows that the flags ask for: 10 us for split, 40 for flash, floors of 5.
DECANT = f"""\
    #!{sys.executable}
    import csv, os, pathlib, sys
    flags = dict(zip(sys.argv[3::2], sys.argv[4::2]))
    assert sys.argv[1:3] == ["bench", "kernel"], sys.argv
    if "DECANT_FAILS" in os.environ: sys.exit("decant: no such device")
    out = pathlib.Path(flags["--out"])
    cases = [(batch, f"mixed seed {{seed}}") for batch in flags.get("--batches", "").split(",")
             for seed in flags.get("--mixed-seeds", "").split(",") if seed]
    cases += [(batch, length) for batch in flags.get("--batches", "").split(",")
              for length in flags.get("--lengths", "").split(",") if length]
    if "--chunk" in flags: cases.append(("1", f"{{flags['--chunk']}} after {{flags['--history']}}"))
    columns = {COLUMNS!r}
    new = not (out / "kernel.csv").exists()
    with open(out / "kernel.csv", "a", newline="") as file:
        writer = csv.DictWriter(file, columns)
        if new: writer.writeheader()
        for batch, lengths in cases:
            kernels = (("ranged", 10),) if "after" in lengths else (("split", 10), ("flash", 40))
            for kernel, us in kernels:
                for overlap in ("on", "off"):
                    row = dict.fromkeys(columns, "0")
                    row.update(kernel=kernel, overlap=overlap, dtype=flags["--dtype"], layers=flags["--layers"],
                               page_size="64", batch=batch, lengths=lengths, us_per_layer=us + (overlap == "off"),
                               us_min=us, us_max=us + 2, floor_us=5, times_floor=us / 5)
                    writer.writerow(row)
    with open(out / "kernel.jsonl", "a") as file: file.write('{{"header": {{}}}}\\n')
"""
# Tensors know their size; the device's clock goes on by what the calls of a graph that is launched say.
TORCH = """\
    import contextlib
    float16, bfloat16, int32, uint8, bool = "float16", "bfloat16", "int32", "uint8", "bool"
    recorded, replayed = None, [0.0]

    class Tensor:
        def __init__(self, size): self.size = size
        def uniform_(self, low, high): return self
        def view(self, *size): return Tensor(size)
        def tril(self, diagonal): return self

    def empty(*size, dtype, device): return Tensor(size)
    def ones(*size, dtype, device): return Tensor(size)
    def empty_like(tensor): return Tensor(tensor.size)
    def tensor(values, dtype, device): return values
    def manual_seed(seed): pass

    def work(seconds):
        if recorded is not None: recorded.append(seconds)

    class cuda:
        @staticmethod
        def is_available(): return True
        @staticmethod
        def synchronize(): pass
        @staticmethod
        def current_stream(): return cuda.Stream()
        @staticmethod
        def stream(stream): return contextlib.nullcontext()
        class Stream:
            def wait_stream(self, other): pass
        class CUDAGraph:
            def replay(self): replayed[0] += sum(self.work)
        @staticmethod
        @contextlib.contextmanager
        def graph(graph):
            global recorded
            recorded = graph.work = []
            yield
            recorded = None
        class Event:
            def __init__(self, enable_timing): pass
            def record(self): self.at = replayed[0]
            def synchronize(self): pass
            def elapsed_time(self, end): return (end.at - self.at) * 1e3

    from torch import nn
"""
TORCH_NN = """\
    import torch
    class functional:
        @staticmethod
        def scaled_dot_product_attention(queries, keys, values, **more): torch.work(30e-6)
"""
TORCH_ATTENTION = """\
    import contextlib
    class SDPBackend: FLASH_ATTENTION, CUDNN_ATTENTION = "flash", "cudnn"
    def sdpa_kernel(backend):
        if backend == "cudnn": raise RuntimeError("no cuDNN here\\nand more")
        return contextlib.nullcontext()
"""
TORCH_BIAS = """\
    def causal_lower_right(queries, keys): return (queries, keys)
"""
FLASHINFER = """\
    import torch
    class BatchDecodeWithPagedKVCacheWrapper:
        def __init__(self, workspace, layout, use_tensor_cores=False): self.seconds = 15e-6 if use_tensor_cores else 20e-6
        def plan(self, starts, pages, fills, heads, kv_heads, head_dim, page, q_data_type, kv_data_type):
            assert sorted(pages) == list(range(starts[-1])) and len(starts) == len(fills) + 1
            assert all(1 <= fill <= page for fill in fills)
        def run(self, queries, cache, out):
            assert cache[0] is not cache[1]
            torch.work(self.seconds)
    class BatchPrefillWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
        def plan(self, queries, starts, *more, causal, **types): assert causal and queries[0] == 0
"""


class CompareAttentionTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program("decant", DECANT)
        self.program("nvidia-smi", f"#!{sys.executable}\nprint('NVIDIA H900, 999.1')\n")
        self.modules = self.folder / "modules"
        for name, text in (("torch/__init__.py", TORCH), ("torch/nn/__init__.py", TORCH_NN),
                           ("torch/nn/attention/__init__.py", TORCH_ATTENTION),
                           ("torch/nn/attention/bias.py", TORCH_BIAS), ("flashinfer.py", FLASHINFER)):
            path = self.modules / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")

    def program(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_script(self, *flags: str, modules: bool = True, **more: str) -> subprocess.CompletedProcess:
        environment = {**os.environ, "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}",
                       "PYTHONDONTWRITEBYTECODE": "1", **more}
        environment["PYTHONPATH"] = str(self.modules) if modules else ""
        # -S: what is installed on this machine does not count.
        return subprocess.run([sys.executable, "-S", REPOSITORY / "scripts" / "compare-attention", "--decant",
                               self.folder / "decant", "--out", self.folder / "out", "--layers", "3", *flags],
                              capture_output=True, text=True, check=False, env=environment)

    def entries(self) -> list[dict]:
        text = (self.folder / "out" / "compare_attention.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def test_puts_all_kernels_of_a_case_into_one_table_and_writes_each_as_a_row(self):
        done = self.run_script("--dtype", "bf16", "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        header, *rows = self.entries()
        self.assertEqual((header["header"]["gpu"], header["header"]["driver"], header["header"]["seed"]),
                         ("NVIDIA H900", "999.1", 7))
        for key in ("commit", "utc_time", "command", "packages"):
            self.assertIn(key, header["header"])
        times = {(row["row"]["case"], row["row"]["kernel"], row["row"]["overlap"]): row["row"] for row in rows}
        self.assertEqual(len(times), len(rows))
        # Nine decode cases of two kernels of ours, on and off, and two of FlashInfer; three prompt cases.
        self.assertEqual(len(rows), 9 * (4 + 2) + 3 * (2 + 1 + 1))
        fast = times["32 x mixed seed 0", "flashinfer tensor cores", "its own"]
        self.assertAlmostEqual(fast["us_per_layer"], 15)
        self.assertAlmostEqual(fast["times_floor"], 3)
        # The draw that published times are of, each K and V once: 2 heads of 128, two bytes.
        self.assertEqual((fast["tokens"], fast["bytes_per_layer"]), (49117, 49117 * 2 * 2 * 128 * 2))
        self.assertEqual(fast["dtype"], "bf16")
        lines = [line.split("  ") for line in done.stdout.splitlines() if line.startswith("32 x mixed seed 0 ")]
        self.assertEqual([line[0] for line in lines], ["32 x mixed seed 0"] * 6)
        self.assertEqual([[word.strip() for word in line if word][1] for line in lines],
                         ["decant split", "decant split", "flashinfer tensor cores", "flashinfer", "decant flash",
                          "decant flash"])
        self.assertTrue(lines[2][-1].strip() == "1.50", lines[2])
        with open(self.folder / "out" / "decant" / "kernel.csv", encoding="utf-8") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 9 * 4 + 3 * 2)

    def test_says_what_did_not_run_and_why(self):
        done = self.run_script("--cases", "prompt")
        self.assertEqual(done.returncode, 0, done.stderr)
        notes = [line for line in done.stdout.splitlines() if line.startswith("not run: ")]
        self.assertTrue(any("flash_attn_interface is not installed" in note and "hopper" in note for note in notes), notes)
        self.assertTrue(any("flash_attn is not installed: pip install" in note for note in notes), notes)
        # A kernel that is there and refuses is a note for each case; only the first line of what it says.
        self.assertIn("not run: torch sdpa, cudnn, 1 x 512 after 0: RuntimeError: no cuDNN here", notes)
        self.assertEqual(len(notes), 2 + 3)

    def test_without_torch_there_are_our_rows_and_a_note(self):
        done = self.run_script("--cases", "prompt", modules=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not run: every other kernel: torch is not installed: pip install torch", done.stdout)
        self.assertEqual([row["row"]["kernel"] for row in self.entries()[1:]], ["decant ranged"] * 6)

    def test_a_module_that_lacks_another_says_which(self):
        (self.modules / "flashinfer.py").write_text("import tvm_ffi\n", encoding="utf-8")
        done = self.run_script("--cases", "prompt", "--only", "rivals")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not run: flashinfer needs tvm_ffi, which is not installed", done.stdout)
        self.assertIsNone(self.entries()[1]["row"]["floor_us"])

    def test_adds_to_what_is_there_and_names_what_is_wrong(self):
        for _ in range(2):
            self.assertEqual(self.run_script("--cases", "prompt", "--only", "decant").returncode, 0)
        self.assertEqual(sum("header" in entry for entry in self.entries()), 2)
        with open(self.folder / "out" / "decant" / "kernel.csv", encoding="utf-8") as file:
            self.assertEqual(len(list(csv.DictReader(file))), 2 * 3 * 2)
        failed = self.run_script(DECANT_FAILS="1")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("no such device", failed.stderr)
        self.assertNotIn("Traceback", failed.stderr)
        for flags, word in ((("--layers", "0"), "--layers"), (("--heads", "7"), "--kv-heads"),
                            (("--decant", "/nowhere/decant"), "--decant")):
            wrong = self.run_script(*flags)
            self.assertNotEqual(wrong.returncode, 0)
            self.assertIn(word, wrong.stderr)


if __name__ == "__main__":
    unittest.main()
