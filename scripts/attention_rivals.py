"""Attention kernels of other projects as scripts/compare-attention times them: on the same batches as `decant bench
kernel`, each layer with K and V of its own, all layers in one CUDA graph.

A rival is made for a case and then queues one layer: `attend(layer)`. What depends on the batch only is done when it is
made, as decant plans a step once for all layers."""

import dataclasses
import importlib
import random
import statistics
from collections.abc import Callable

PAGE = 64
CHOICES = (16, 64, 256, 1024, 4096)
MOST_GENERATED = 160


class Missing(Exception):
    """A package that is not there, and how to get it."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """Whose attention: the defaults are Qwen2.5-1.5B's."""

    layers: int = 28
    heads: int = 12
    kv_heads: int = 2
    head_dim: int = 128


@dataclasses.dataclass(frozen=True)
class Case:
    """Decode tokens of rows with these contexts, or the last `chunk` positions of a prompt of one context."""

    name: str
    contexts: tuple[int, ...]
    chunk: int = 0

    def keys(self) -> int:
        return sum(self.contexts)

    def bytes_per_layer(self, shape: Shape) -> int:
        """K and V of every position once, two bytes an element."""
        return self.keys() * 2 * shape.kv_heads * shape.head_dim * 2


def mixed_lengths(seed: int, rows: int) -> tuple[int, ...]:
    draw = random.Random(seed)
    return tuple(draw.choice(CHOICES) + draw.randint(0, MOST_GENERATED) for _ in range(rows))


def load(names: list[str], how: str):
    """The first module of `names` that is there."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            # A package that is there but lacks one that it needs says so by that one's name.
            if error.name is None or name.partition(".")[0] != error.name.partition(".")[0]:
                raise Missing(f"{name} needs {error.name}, which is not installed") from error
    raise Missing(f"{names[0]} is not installed: {how}")


def load_torch():
    torch = load(["torch"], "pip install torch (a build for this machine's CUDA)")
    if not torch.cuda.is_available():
        raise Missing("torch finds no CUDA device here")
    return torch


class Batch:
    """One case's queries, caches and block tables in device memory; pages in random order, as decant's bench has them."""

    def __init__(self, torch, shape: Shape, case: Case, dtype: str, seed: int):
        self.torch, self.shape, self.case = torch, shape, case
        self.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
        torch.manual_seed(seed)
        self.rows = len(case.contexts)
        self.queries_a_row = case.chunk or 1
        self.row_pages = [-(-context // PAGE) for context in case.contexts]
        order = list(range(sum(self.row_pages)))
        random.Random(seed).shuffle(order)
        self.pages, at = [], 0
        for count in self.row_pages:
            self.pages.append(order[at:at + count])
            at += count
        tokens = self.rows * self.queries_a_row
        self.queries = self.uniform(tokens, shape.heads, shape.head_dim)
        self.out = torch.empty_like(self.queries)
        kept = (at, PAGE, shape.kv_heads, shape.head_dim)
        self.keys = [self.uniform(*kept) for _ in range(shape.layers)]
        self.values = [self.uniform(*kept) for _ in range(shape.layers)]

    def uniform(self, *size):
        return self.torch.empty(*size, dtype=self.dtype, device="cuda").uniform_(-1, 1)

    def ints(self, values: list):
        return self.torch.tensor(values, dtype=self.torch.int32, device="cuda")

    def table(self):
        """[rows, most pages of a row]"""
        most = max(self.row_pages)
        return self.ints([pages + [0] * (most - len(pages)) for pages in self.pages])

    def page_starts(self) -> list[int]:
        starts = [0]
        for count in self.row_pages:
            starts.append(starts[-1] + count)
        return starts

    def last_page_fills(self) -> list[int]:
        return [(context - 1) % PAGE + 1 for context in self.case.contexts]


class FlashInfer:
    """FlashInfer's paged wrappers; for decode tokens with tensor cores or without."""

    def __init__(self, batch: Batch, tensor_cores: bool):
        flashinfer = load(["flashinfer"], "pip install flashinfer-python (compiles kernels on first use: nvcc and ninja)")
        self.batch = batch
        shape, torch = batch.shape, batch.torch
        workspace = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        pages = batch.ints([page for row in batch.pages for page in row])
        starts, fills = batch.ints(batch.page_starts()), batch.ints(batch.last_page_fills())
        if batch.case.chunk:
            self.wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
            self.wrapper.plan(batch.ints([0, batch.case.chunk]), starts, pages, fills, shape.heads, shape.kv_heads,
                              shape.head_dim, PAGE, causal=True, q_data_type=batch.dtype, kv_data_type=batch.dtype)
        else:
            self.wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=tensor_cores)
            self.wrapper.plan(starts, pages, fills, shape.heads, shape.kv_heads, shape.head_dim, PAGE,
                              q_data_type=batch.dtype, kv_data_type=batch.dtype)

    def attend(self, layer: int) -> None:
        batch = self.batch
        self.wrapper.run(batch.queries, (batch.keys[layer], batch.values[layer]), out=batch.out)


class FlashAttention3:
    """FlashAttention 3 (the folder hopper/ of flash-attention) on pages, its schedule made once a step."""

    def __init__(self, batch: Batch):
        self.module = load(["flash_attn_interface", "flash_attn_3.flash_attn_interface"],
                           "no wheel on PyPI; build it from the folder hopper/ of github.com/Dao-AILab/flash-attention "
                           "(pip install . there)")
        self.batch = batch
        shape, case = batch.shape, batch.case
        self.queries = batch.queries.view(batch.rows, batch.queries_a_row, shape.heads, shape.head_dim)
        self.table = batch.table()
        self.contexts = batch.ints(list(case.contexts))
        self.schedule = None
        make = getattr(self.module, "get_scheduler_metadata", None)
        if make is not None:
            self.schedule = make(batch.rows, batch.queries_a_row, max(batch.row_pages) * PAGE, shape.heads,
                                 shape.kv_heads, shape.head_dim, self.contexts, qkv_dtype=batch.dtype, page_size=PAGE,
                                 causal=True)

    def attend(self, layer: int) -> None:
        batch = self.batch
        self.module.flash_attn_with_kvcache(self.queries, batch.keys[layer], batch.values[layer],
                                            cache_seqlens=self.contexts, page_table=self.table, causal=True,
                                            scheduler_metadata=self.schedule)


class FlashAttention2:
    """FlashAttention 2's split kernel on pages of 256, for prompt chunks: decode tokens are decant's `flash`."""

    def __init__(self, batch: Batch):
        self.module = load(["flash_attn"], "pip install flash-attn --no-build-isolation (compiles for an hour)")
        self.batch = batch
        shape, case = batch.shape, batch.case
        pages = -(-case.contexts[0] // 256)  # the kernel takes no smaller ones than of 256
        self.keys, self.values = ([batch.uniform(pages, 256, shape.kv_heads, shape.head_dim)
                                   for _ in range(shape.layers)] for _ in range(2))
        self.queries = batch.queries.view(1, case.chunk, shape.heads, shape.head_dim)
        order = list(range(pages))
        random.Random(1).shuffle(order)
        self.table = batch.ints([order])
        self.contexts = batch.ints(list(case.contexts))

    def attend(self, layer: int) -> None:
        self.module.flash_attn_with_kvcache(self.queries, self.keys[layer], self.values[layer],
                                            cache_seqlens=self.contexts, block_table=self.table, causal=True)


class TorchSdpa:
    """PyTorch's scaled_dot_product_attention of a prompt chunk by one of its backends, on contiguous K and V."""

    def __init__(self, batch: Batch, backend: str):
        self.batch = batch
        shape, case, torch = batch.shape, batch.case, batch.torch
        attention = importlib.import_module("torch.nn.attention")
        self.choose = lambda: attention.sdpa_kernel(getattr(attention.SDPBackend, backend))
        self.attention = torch.nn.functional.scaled_dot_product_attention
        context = case.contexts[0]
        self.queries = batch.uniform(1, shape.heads, case.chunk, shape.head_dim)
        self.keys, self.values = ([batch.uniform(1, shape.kv_heads, context, shape.head_dim)
                                   for _ in range(shape.layers)] for _ in range(2))
        if context == case.chunk:
            self.mask = {"is_causal": True}
        elif backend == "FLASH_ATTENTION":
            # It takes no mask but this one, which it knows by itself.
            bias = importlib.import_module("torch.nn.attention.bias")
            self.mask = {"attn_mask": bias.causal_lower_right(case.chunk, context)}
        else:
            seen = torch.ones(case.chunk, context, dtype=torch.bool, device="cuda").tril(context - case.chunk)
            self.mask = {"attn_mask": seen}

    def attend(self, layer: int) -> None:
        with self.choose():
            self.attention(self.queries, self.keys[layer], self.values[layer], enable_gqa=True, **self.mask)


@dataclasses.dataclass(frozen=True)
class Rival:
    name: str
    make: Callable[[Batch], object]
    decodes: bool
    reads_prompts: bool
    page: int | None = PAGE

    def takes(self, case: Case) -> bool:
        return self.reads_prompts if case.chunk else self.decodes


RIVALS = (
    Rival("flashinfer", lambda batch: FlashInfer(batch, False), True, False),
    Rival("flashinfer tensor cores", lambda batch: FlashInfer(batch, True), True, False),
    Rival("flashinfer prefill", lambda batch: FlashInfer(batch, True), False, True),
    Rival("flash-attention 3", FlashAttention3, True, True),
    Rival("flash-attention 2", FlashAttention2, False, True, 256),
    Rival("torch sdpa, flash", lambda batch: TorchSdpa(batch, "FLASH_ATTENTION"), False, True, None),
    Rival("torch sdpa, cudnn", lambda batch: TorchSdpa(batch, "CUDNN_ATTENTION"), False, True, None),
)


@dataclasses.dataclass(frozen=True)
class Time:
    """Seconds of a layer."""

    median: float
    least: float
    most: float


def measure(torch, rival, layers: int, repeats: int) -> Time:
    """All layers one after another as a graph, `repeats` launches after one that does not count."""
    def all_layers() -> None:
        for layer in range(layers):
            rival.attend(layer)

    # What only a first run does, such as compiling kernels, must not be recorded.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        all_layers()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        all_layers()
    seconds = []
    for repeat in range(repeats + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if repeat:
            seconds.append(begin.elapsed_time(end) * 1e-3 / layers)
    return Time(statistics.median(seconds), min(seconds), max(seconds))
