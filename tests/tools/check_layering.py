#!/usr/bin/env python3
"""Checks that every folder of src/ includes only what docs/architecture.md allows it.

The folders stand in one order, lowest first; a file may include headers of its own folder and of
folders before it. A few folders promise more: the scheduler, say, knows no thread and no clock.
"""

import argparse
import pathlib
import re
import sys

# Lowest first.
FOLDERS = [
    "base", "jinja", "text", "cache", "sched", "tensor", "weights", "ops", "model", "runtime", "engine",
    "server", "bench", "sim", "apps",
]

# (folders, pattern of the included path, why not). Tests are held to the order only: they may use
# threads and clocks to exercise code that does not.
FORBIDDEN = [
    (("cache", "sched"),
     r"<(thread|mutex|shared_mutex|condition_variable|future|atomic|chrono|semaphore|latch)>"
     r"|base/clock\.h",
     "the pool and the scheduler know no thread and no clock; time is passed in"),
    (("bench", "sim"), r"server/", "benches and the simulator know no HTTP"),
    (("server",), r"ops/", "the server knows no kernels"),
    (("base", "cache", "sched", "tensor", "ops", "model", "runtime", "engine"), r"<?nlohmann/",
     "JSON stays at the edges: files read, requests served, commands"),
]

SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<own>[^"]+)"|(?P<system><[^>]+>))')


def check_include(path: pathlib.PurePosixPath, own: str | None, system: str | None) -> str | None:
    """Says what is wrong with an include of src/`path`, or None."""
    folder = path.parts[0]
    target = own or system
    if own is not None:
        top = own.split("/")[0]
        if "/" not in own or top not in FOLDERS:
            return f'"{own}" does not start with a folder of src/ ({", ".join(FOLDERS)})'
        if FOLDERS.index(top) > FOLDERS.index(folder):
            return f'"{own}": {folder} lies below {top} and may not know it'
    if not path.stem.endswith("_test"):
        for folders, pattern, why in FORBIDDEN:
            if folder in folders and re.match(pattern, target):
                return f"{target}: {why}"
    return None


def check_text(path: pathlib.PurePosixPath, text: str) -> list[str]:
    """The faults of one file, as "src/path:line: fault"."""
    if path.parts[0] not in FOLDERS:
        return [f"src/{path}:1: {path.parts[0]} is not among the known folders; give it a place "
                "in the order"]
    faults = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        fault = check_include(path, match["own"], match["system"])
        if fault is not None:
            faults.append(f"src/{path}:{number}: {fault}")
    return faults


def check_tree(source: pathlib.Path) -> tuple[int, list[str]]:
    """Checks all files under src/; returns their number and the faults."""
    files = sorted(p for p in source.rglob("*") if p.suffix in SOURCE_SUFFIXES)
    faults = []
    for file in files:
        relative = pathlib.PurePosixPath(file.relative_to(source).as_posix())
        if len(relative.parts) < 2:
            faults.append(f"src/{relative}:1: a source file belongs into a folder of src/")
            continue
        faults += check_text(relative, file.read_text(encoding="utf-8"))
    return len(files), faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    default_root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=pathlib.Path, default=default_root,
                        help="the repository (default: the one this script lies in)")
    arguments = parser.parse_args()
    source = arguments.root / "src"
    if not source.is_dir():
        print(f"{source} is not a folder", file=sys.stderr)
        return 2
    count, faults = check_tree(source)
    if count == 0:
        print(f"no source files under {source}", file=sys.stderr)
        return 2
    for fault in faults:
        print(fault)
    print(f"layering: {count} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
