#!/usr/bin/env python3
"""Writes tables.md from the rows of a campaign (scripts/campaign), and from nothing else.

Where the experiment that decant repeats published a figure, it stands in a column of its own: an
A10, Qwen2.5-1.5B in fp16, the engines "fused" (rows kernel, pages of 64), the new one with the old
kernel (rows, pages of 256) and with the new one (FlashAttention, pages of 256).
"""

import argparse
import json
import pathlib
import statistics
import sys

import plotting

PUBLISHED_WORKLOAD = "mixed seed 0"
# What the original published, for the same column of ours. Keys: (table, row, engine).
PUBLISHED_STEPS = {
    ("pure_decode", "fused"): "31.3 (30.9 on the newer PyTorch)",
    ("pure_decode", "rows-256"): "30.3",
    ("pure_decode", "flash"): "24.0",
    ("loaded", "flash"): "43.9",
}
PUBLISHED_CLOSED = {
    ("8", "fused"): "8.83",
    ("32", "fused"): "12.03 (11.36 on the newer PyTorch)",
    ("32", "flash"): "9.36",
}
PUBLISHED_RATES = {
    ("6", "fused"): "4.39 (4.57 on the newer PyTorch)",
    ("5", "rows-256"): "4.28",
    ("6", "rows-256"): "4.44",
    ("7", "rows-256"): "4.62",
    ("7", "flash"): "5.42",
    ("8", "flash"): "5.68",
    ("9", "flash"): "5.49",
}
PUBLISHED_CAPPED = {
    ("2", "rows-64"): "1.85",
    ("2", "flash-256"): "1.87",
    ("3", "rows-64"): "2.53, waiting 7.63",
    ("3", "flash-256"): "2.74, waiting 1.71",
}
PUBLISHED_KERNEL = {"517": "0.108 ms (rows)", "mixed": "0.347 ms (rows), under 0.1 ms (flash)"}
PUBLISHED_PARITY = "95 of 520 differ; of those with 4,096 prompt tokens 75 of 125, with 64, 256 and 1,024 0 of 255"


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def engine_of(row: plotting.Row) -> str:
    """As the campaign calls it: the kernel and the pages decide, and limits that are not the experiment's."""
    kernel, page, limits = row["decode_kernel"], row["page_size"], plotting.other_limits(row)
    if kernel == "rows":
        return ("fused" if page == "64" else "rows-256") + limits
    return (kernel if kernel == "flash" else f"{kernel}-{page}") + limits


def json_entries(path: pathlib.Path, key: str) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [entry[key] for entry in map(json.loads, file) if key in entry]


def steps_table(out: pathlib.Path) -> str:
    rows = []
    for path in sorted(out.glob("steps/*/steps.jsonl")):
        for entry in json_entries(path, "steps"):
            name = engine_of({key: str(entry[key]) for key in ("decode_kernel", "page_size")})
            published = entry["workload"] == PUBLISHED_WORKLOAD
            for kind in ("pure_decode", "loaded"):
                summary = entry.get(kind)
                if summary is None:
                    continue
                rows.append([name, kind.replace("_", " "), str(summary["steps"]),
                             f"{summary['median_ms']:.2f}", f"{summary['floor_ms']:.2f}",
                             f"{summary['times_floor']:.2f}",
                             PUBLISHED_STEPS.get((kind, name), "") if published else ""])
            gaps = entry["gaps"]
            rows.append([name, "token gaps: median, p99", str(gaps["gaps"]),
                         f"{gaps['median_ms']:.2f}, {gaps['p99_ms']:.2f}", "", "", ""])
            rows.append([name, "cost of timing", "", f"{100 * entry['cost_of_timing']:+.1f}%", "",
                         "", "about +5%" if published else ""])
    return markdown(["engine", "what", "count", "ms", "floor ms", "times the floor",
                     "published (A10) ms"], rows)


def closed_table(out: pathlib.Path) -> str:
    rows = plotting.read_rows([out / "closed"], "runs.csv", ["workload", "batch_size", "wall_s"])
    table = []
    for (workload, batch, engine), part in plotting.group(
            rows, lambda row: (row["workload"], row["batch_size"], engine_of(row))).items():
        walls = [plotting.number(row, "wall_s") for row in part]
        published = (PUBLISHED_CLOSED.get((batch, engine), "")
                     if workload == PUBLISHED_WORKLOAD else "")
        table.append([workload, batch, engine, str(len(walls)), f"{statistics.median(walls):.3f}",
                      f"{min(walls):.3f} to {max(walls):.3f}", published])
    return markdown(["workload", "requests", "engine", "runs", "median s", "range s",
                     "published (A10) s"], table)


def arrivals_table(rows: list[plotting.Row], published: dict) -> str:
    table = []
    for row in sorted(rows, key=lambda row: (name_of_pool(row), plotting.number(row, "rate"))):
        name = name_of_pool(row) if published is PUBLISHED_CAPPED else engine_of(row)
        table.append([name, f"{plotting.number(row, 'rate'):g}", row["completed"],
                      *(f"{plotting.number(row, column):.{digits}f}" for column, digits in (
                          ("served_per_s", 2), ("queue_p50_s", 3), ("queue_p99_s", 2),
                          ("first_token_p50_s", 3), ("gap_p50_ms", 2), ("gap_p99_ms", 2))),
                      f"{row['pages_max']} of {row['pages']}",
                      (published.get((row["rate"], name), "")
                       if row["workload"] == PUBLISHED_WORKLOAD else "")])
    return markdown(["engine", "offered/s", "requests", "served/s", "queue wait median s", "p99 s",
                     "first token s", "token gap ms", "p99 ms", "pages", "published (A10) served/s"],
                    table)


def name_of_pool(row: plotting.Row) -> str:
    return f"{row['decode_kernel']}-{row['page_size']}"


def capacity_table(rows: list[plotting.Row]) -> str:
    table = []
    for engine, part in plotting.group(rows, engine_of).items():
        best = max(part, key=lambda row: plotting.number(row, "served_per_s"))
        last = max(part, key=lambda row: plotting.number(row, "rate"))
        table.append([engine, f"{plotting.number(best, 'served_per_s'):.2f}",
                      f"{plotting.number(best, 'rate'):g}",
                      f"{plotting.number(last, 'served_per_s'):.2f} at "
                      f"{plotting.number(last, 'rate'):g}"])
    return markdown(["engine", "most served/s", "at a rate of", "at the highest rate"], table)


def spread_table(out: pathlib.Path) -> str:
    """How much a headline depends on the draw."""
    figures = {
        "closed batch, s": ("runs.csv", "wall_s"),
        "served/s": ("arrivals.csv", "served_per_s"),
        "token gap p99, ms": ("arrivals.csv", "gap_p99_ms"),
    }
    table = []
    for what, (name, column) in figures.items():
        rows = plotting.read_rows([out / "seeds"], name, ["seed", column])
        for engine, part in plotting.group(rows, engine_of).items():
            values = [plotting.number(row, column) for row in part]
            table.append([what, engine, str(len({row["seed"] for row in part})),
                          f"{statistics.median(values):.3f}", f"{min(values):.3f}",
                          f"{max(values):.3f}"])
    return markdown(["figure", "engine", "seeds", "median", "least", "most"], table)


def kernel_table(out: pathlib.Path) -> str:
    rows = plotting.read_rows([out / "kernel"], "kernel.csv", ["kernel", "us_per_layer"])
    table = []
    for row in rows:
        published = next((text for key, text in PUBLISHED_KERNEL.items()
                          if row["lengths"].startswith(key)), "")
        # Files from before the column hold rows of kernels that may overlap.
        table.append([row["kernel"], row.get("overlap", "on"), row["batch"], row["lengths"], row["page_size"],
                      f"{plotting.number(row, 'us_per_layer'):.2f}",
                      f"{plotting.number(row, 'gb_per_s'):.0f}",
                      f"{plotting.number(row, 'times_floor'):.2f}", published])
    return markdown(["kernel", "overlap", "rows", "lengths", "page", "us a layer", "GB/s", "times the floor",
                     "published (A10) a layer"], table)


def probe_table(out: pathlib.Path) -> str:
    rows = plotting.read_rows([out / "page-probe"], "page_probe.csv", ["kernel", "outcome"])
    return markdown(["kernel", "page", "outcome", "us a layer", "said"],
                    [[row["kernel"], row["page_size"], row["outcome"],
                      f"{plotting.number(row, 'us_per_layer'):.1f}" if row["us_per_layer"] else "",
                      row["message"]] for row in rows])


def parity_text(out: pathlib.Path) -> str:
    (summary,) = json_entries(out / "parity" / "parity.jsonl", "summary")[-1:]
    lines = [[str(part["prompt_tokens"]), str(part["requests"]), str(part["differ"])]
             for part in summary["by_prompt_tokens"]]
    lines.append(["all", str(summary["requests"]), str(summary["differ"])])
    text = markdown(["prompt tokens", "requests", "differ"], lines)
    text += f"\nPublished (A10): {PUBLISHED_PARITY}.\n"
    if "flip_sites" in summary:
        text += (f"\nFlip sites: {summary['flip_sites']}, of them near ties: "
                 f"{summary['near_ties']}. Of {summary['answer_pairs']} pairs of answers the first "
                 f"engine's is likelier in {summary['a_likelier']}, the second's in "
                 f"{summary['b_likelier']}; mean difference of log-likelihood a token "
                 f"{summary['mean_difference_per_token']} (standard error "
                 f"{summary['mean_difference_per_token_error']}).\n")
    return text


def score_table(out: pathlib.Path) -> str:
    rows = plotting.read_rows([out / "score"], "score.csv", ["through", "perplexity"])
    return markdown(["through", "decode kernel", "page", "tokens", "perplexity", "bits a byte"],
                    [[row["through"], row["decode_kernel"], row["page_size"], row["tokens"],
                      f"{plotting.number(row, 'perplexity'):.5f}",
                      f"{plotting.number(row, 'bits_per_byte'):.5f}"] for row in rows])


def gates_table(out: pathlib.Path) -> str:
    with open(out / "gates.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return markdown(["gate", "passed", "largest difference", "flip sites", "commit"],
                    [[row["gate"], "yes" if row["passed"] else "NO",
                      "" if row["largest_difference"] is None
                      else f"{row['largest_difference']:.4g}",
                      str(len(row["flip_sites"])), row["header"]["commit"]] for row in rows])


def sections(out: pathlib.Path) -> list[tuple[str, str]]:
    """Title and text of every table whose rows are there."""
    def arrivals(folder: str) -> list[plotting.Row]:
        return plotting.read_rows([out / folder], "arrivals.csv", ["rate", "served_per_s"])

    makers = [
        ("Steps", "steps", lambda: steps_table(out)),
        ("Closed batches, to the LAST request", "closed", lambda: closed_table(out)),
        ("Capacity", "arrivals", lambda: capacity_table(arrivals("arrivals"))),
        ("Open arrivals", "arrivals",
         lambda: arrivals_table(arrivals("arrivals"), PUBLISHED_RATES)),
        ("The pool capped", "capped", lambda: arrivals_table(arrivals("capped"), PUBLISHED_CAPPED)),
        ("Real traffic", "trace", lambda: arrivals_table(arrivals("trace"), {})),
        ("Other draws", "seeds", lambda: spread_table(out)),
        ("Decode kernels", "kernel", lambda: kernel_table(out)),
        ("Page sizes", "page-probe", lambda: probe_table(out)),
        ("Do the outputs differ", "parity", lambda: parity_text(out)),
        ("The same text through both kernels", "score", lambda: score_table(out)),
        ("Gates", "gates.jsonl", lambda: gates_table(out)),
    ]
    return [(title, make()) for title, needed, make in makers if (out / needed).exists()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="what scripts/campaign --out wrote")
    out = parser.parse_args().folder
    try:
        parts = sections(out)
    except (plotting.PlotError, OSError, KeyError, ValueError) as error:
        print(f"campaign_tables: {error}", file=sys.stderr)
        return 1
    if not parts:
        print(f"campaign_tables: no rows in {out}; run scripts/campaign", file=sys.stderr)
        return 1
    text = ["# Tables of the campaign\n", "Made by `scripts/campaign` from the rows beside this file."
            " The published column is the original's, on an A10.\n"]
    for title, body in parts:
        text += [f"## {title}", body]
    (out / "tables.md").write_text("\n".join(text), encoding="utf-8")
    print(f"{out}/tables.md: {len(parts)} tables")
    return 0


if __name__ == "__main__":
    sys.exit(main())
