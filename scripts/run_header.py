"""The header of results that a Python script writes: where, when and by which command; and a way to add to a file of them."""

import datetime
import json
import os
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
CPU_FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_tile", "amx_int8",
             "amx_bf16")


def cpu_info() -> dict:
    model, flags = "unknown", []
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and model == "unknown":
            model = value.strip()
        if key.strip() == "flags" and not flags:
            flags = [flag for flag in CPU_FLAGS if flag in value.split()]
    return {"cpu_model": model, "cpu_features": flags, "logical_cores": len(os.sched_getaffinity(0))}


def git_commit() -> str:
    """The commit of the tree; $DECANT_COMMIT names it where a copy came without its history."""
    if named := os.environ.get("DECANT_COMMIT"):
        return named
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def make(seed: int, **more) -> dict:
    """{"header": {...}} with what every header has, and `more`."""
    return {"header": {
        "machine": cpu_info(),
        "commit": git_commit(),
        # Where folders lie on this machine is nobody else's business.
        "command": [pathlib.Path(word).name if word.startswith("/") else word for word in sys.argv],
        "seed": seed,
        "utc_time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **more,
    }}


def append(path: str | os.PathLike, seed: int, rows: list[dict], **more) -> None:
    """Adds a header and its rows to a file of JSON lines, in one write."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in [make(seed, **more), *rows])
    with open(path, "a", encoding="utf-8") as file:
        file.write(lines)
