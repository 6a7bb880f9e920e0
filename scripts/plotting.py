"""What the plot scripts share: reading rows of results, one look, and the caption that says whose figures they are."""

import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable

# Okabe and Ito's palette: its colours stay apart for people who see fewer.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
GREY = "#666666"
DPI = 150
FONT_SIZE = 16  # points; at half size still 8

Row = dict[str, str]


class PlotError(Exception):
    """What is missing, in words for the person who started the script."""


def python_with_matplotlib() -> str | None:
    """This Python, or else the system's, for which scripts/install-deps installs."""
    for python in (sys.executable, "/usr/bin/python3"):
        if pathlib.Path(python).exists() and subprocess.run(
                [python, "-c", "import matplotlib"], check=False, capture_output=True).returncode == 0:
            return python
    return None


def read_rows(places: Iterable[pathlib.Path], name: str, columns: Iterable[str]) -> list[Row]:
    """The rows of every file `name` in or below `places`. All must have `columns`."""
    places = list(places)
    files = []
    for place in places:
        if not place.exists():
            raise PlotError(f"{place}: no such file or folder")
        files += sorted(place.rglob(name)) if place.is_dir() else [place] * (place.name == name)
    if not files:
        raise PlotError(f"no {name} in {', '.join(str(place) for place in places)}")
    rows = []
    for path in files:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or [])]
            if missing:
                raise PlotError(f"{path}: no column {', '.join(missing)}")
            rows += [{**row, "file": str(path)} for row in reader]
    if not rows:
        raise PlotError(f"{', '.join(str(path) for path in files)}: no row")
    return rows


def number(row: Row, column: str) -> float:
    """A cell as a number; NaN where it is empty."""
    text = row[column]
    try:
        return float(text) if text else math.nan
    except (TypeError, ValueError):
        raise PlotError(f"{row['file']}: {column} is '{text}', which is no number") from None


def median(rows: Iterable[Row], column: str) -> float:
    """Over the rows that have a number there; NaN where none has."""
    values = [value for value in (number(row, column) for row in rows) if not math.isnan(value)]
    return statistics.median(values) if values else math.nan


def group(rows: Iterable[Row], key: Callable[[Row], object]) -> dict:
    """The rows by key, in order of first sight."""
    groups: dict = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def other_limits(row: Row) -> str:
    """", 256 rows, chunks of 2048" where a run had more than the original's 32 rows and 512 tokens."""
    rows, chunk = row.get("max_batch", ""), row.get("chunk_tokens", "")
    if (not rows or int(rows) <= 32) and chunk in ("", "512"):
        return ""
    return f", {rows} rows, chunks of {chunk}"


def engine_label(row: Row) -> str:
    """"flash: rows, pages of 256"; without the engine's name where the rows have none."""
    label = f"{row['decode_kernel']}, pages of {row['page_size']}{other_limits(row)}"
    return f"{row['engine']}: {label}" if "engine" in row else label


def header_words(path: str) -> dict[str, str]:
    """Device and model as the first header of the .jsonl file beside a .csv file has them."""
    jsonl = pathlib.Path(path).with_suffix(".jsonl")
    if not jsonl.is_file():
        return {}
    with open(jsonl, encoding="utf-8") as file:
        try:
            header = json.loads(file.readline())["header"]
            machine, command = header["machine"], header["command"]
            words = {"device": ", ".join(sorted(set(machine["gpus"]))) or machine["cpu"]}
        except (ValueError, KeyError, TypeError):
            raise PlotError(f"{jsonl}: the first line is no header") from None
    if "--model" in command[:-1]:
        words["model"] = pathlib.Path(command[command.index("--model") + 1]).name
    return words


def caption(*tables: list[Row]) -> str:
    """Device, model, commits and days of everything that a figure shows."""
    found: dict[str, list[str]] = {"device": [], "model": [], "commit": [], "utc_time": []}
    for rows in tables:
        for path, part in group(rows, lambda row: row["file"]).items():
            words = {} if {"device", "model"} <= part[0].keys() else header_words(path)
            for row in part:
                for column, values in found.items():
                    value = row.get(column) or words.get(column, "")
                    value = value[:10] if column == "utc_time" else value
                    if value and value not in values:
                        values.append(value)
    parts = [", ".join(found[column]) for column in ("device", "model")]
    parts += [f"commit {', '.join(found['commit'])}", f"UTC {', '.join(found['utc_time'])}"]
    return " · ".join(part for part in parts if part)


def new_figure(panels: list[list[str]], width: float = 18, height: float = 7.5):
    """A figure, and its panels by the names that `panels`, rows of columns, gives them."""
    # Chosen before pyplot is loaded, so that no display is needed.
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({
        "font.size": FONT_SIZE, "axes.titlesize": FONT_SIZE + 2, "axes.labelsize": FONT_SIZE,
        "legend.fontsize": FONT_SIZE - 1, "lines.linewidth": 3, "lines.markersize": 10,
        "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left",
    })
    return pyplot.subplot_mosaic(panels, figsize=(width, height), layout="constrained")


def save(figure, out: pathlib.Path, words: str, legend: float = 0) -> None:
    """Writes the figure with its caption below everything; the share `legend` stays free above."""
    figure.get_layout_engine().set(rect=(0, 0.05, 1, 0.95 - legend))
    figure.text(0.01, 0.01, words, fontsize=FONT_SIZE - 2, color=GREY)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=DPI)
    print(out)


def parser(description: str, examples: str, out: str) -> argparse.ArgumentParser:
    """--in and --out, which all plot scripts have."""
    result = argparse.ArgumentParser(description=description, epilog=f"examples:\n{examples}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--in", dest="places", metavar="PATH", nargs="+", type=pathlib.Path,
                        required=True, help="folders of results, searched with all below them")
    result.add_argument("--out", metavar="FILE.png", type=pathlib.Path, default=pathlib.Path(out),
                        help=f"the picture (default: {out})")
    return result


def run(main: Callable[[], None]) -> None:
    """Runs a script; what is missing is said in one line."""
    try:
        main()
    except PlotError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
    except ModuleNotFoundError as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error.name} is missing: "
                 "scripts/install-deps --test gets it (python3-matplotlib)")
