#!/usr/bin/env python3
"""Draws plan.csv (decant simulate plan): what a machine serves within the target, or how many
machines are needed, by rows and prompt chunk; a heat map for each of the other settings."""

import math

import plotting

COLUMNS = ["utc_time", "commit", "device", "model", "workload", "trace", "policy", "decode_kernel",
           "page_size", "pool_slots", "max_batch", "chunk_tokens", "question", "machines", "rate",
           "rate_per_machine", "target_first_token_p99_s", "target_gap_p99_ms", "beyond_misses"]
MOST_PANELS = 6
QUESTIONS = {"highest rate": "requests/s a machine", "least machines": "machines"}


def panel_of(row: plotting.Row) -> tuple[str, ...]:
    """What a heat map has in common: everything that is swept, save rows and chunk."""
    asked = row["machines"] if row["question"] == "highest rate" else f"{float(row['rate']):.4g}"
    return (row["device"], row["policy"], row["decode_kernel"], row["page_size"],
            row["pool_slots"], row["question"], asked)


def title(key: tuple[str, ...]) -> str:
    device, policy, kernel, page_size, pool, question, asked = key
    traffic = (f"{asked} machine{'s' * (asked != '1')}, {policy}" if question == "highest rate"
               else f"{asked} requests/s, {policy}")
    return f"{device}: {kernel}, pages of {page_size}\npool of {pool}, {traffic}"


def value_of(row: plotting.Row) -> float:
    """NaN where nothing holds the target."""
    column = "rate_per_machine" if row["question"] == "highest rate" else "machines"
    value = plotting.number(row, column)
    return value if value > 0 else math.nan


def scale(rows: list[plotting.Row]) -> tuple[float, float]:
    """The range of colours, one for all panels of a device and a question."""
    values = [value for value in map(value_of, rows) if not math.isnan(value)]
    return (min(values), max(values)) if values else (0, 1)


def draw(axes, key: tuple[str, ...], rows: list[plotting.Row],
         colours: tuple[float, float]) -> None:
    """Each cell says its value and, in a second line, which target stands in the way."""
    chunks = sorted({int(plotting.number(row, "chunk_tokens")) for row in rows})
    batches = sorted({int(plotting.number(row, "max_batch")) for row in rows})
    grid = [[math.nan] * len(chunks) for _ in batches]
    words = {}
    for row in rows:  # the last of equals stands
        y = batches.index(int(plotting.number(row, "max_batch")))
        x = chunks.index(int(plotting.number(row, "chunk_tokens")))
        grid[y][x] = value_of(row)
        words[x, y] = row["beyond_misses"]
    lowest, highest = colours
    image = axes.imshow(grid, origin="lower", aspect="auto", cmap="viridis", vmin=lowest,
                        vmax=highest)
    for (x, y), missed in words.items():
        value = grid[y][x]
        text = "not held" if math.isnan(value) else f"{value:.3g}\n{missed}".strip()
        dark = math.isnan(value) or value > (lowest + highest) / 2
        axes.text(x, y, text, ha="center", va="center", color="black" if dark else "white",
                  fontsize=plotting.FONT_SIZE - 3)
    axes.set_xticks(range(len(chunks)), chunks)
    axes.set_yticks(range(len(batches)), batches)
    axes.set(title=title(key), xlabel="prompt tokens a step (chunk)", ylabel="rows")
    axes.grid(visible=False)
    axes.figure.colorbar(image, ax=axes, label=f"{QUESTIONS[key[5]]}\n(below: what is missed beyond)")


def target(rows: list[plotting.Row]) -> str:
    """The targets, which all rows must share: values under different ones do not compare."""
    targets = sorted({(row["target_first_token_p99_s"], row["target_gap_p99_ms"]) for row in rows})
    if len(targets) > 1:
        raise plotting.PlotError(f"plan.csv: rows of {len(targets)} different targets; give --in "
                                 "a folder with rows of one")
    first, gap = targets[0]
    return ", ".join(text for value, text in ((first, f"p99 first token ≤ {first} s"),
                                              (gap, f"p99 token gap ≤ {gap} ms")) if value)


def main() -> None:
    options = plotting.parser(
        __doc__, "  scripts/plot_plan.py --in results/sim/plan/h200-sweep --out plan.png",
        "plan.png").parse_args()
    rows = plotting.read_rows(options.places, "plan.csv", COLUMNS)
    panels = plotting.group(rows, panel_of)
    if len(panels) > MOST_PANELS:
        raise plotting.PlotError(f"plan.csv: {len(panels)} settings beside rows and chunks; "
                                 f"allowed: {MOST_PANELS} heat maps in a picture")
    words = f"{target(rows)} · {plotting.caption(rows)}"
    names = [str(place) for place in range(len(panels))]
    width = min(len(names), 2)
    names += ["."] * (-len(names) % width)
    lines = [names[place:place + width] for place in range(0, len(names), width)]
    figure, axes = plotting.new_figure(lines, width=10 * width, height=7.5 * len(lines))
    for place, (key, part) in enumerate(panels.items()):
        alike = [row for row in rows if (row["device"], row["question"]) == (key[0], key[5])]
        draw(axes[str(place)], key, part, scale(alike))
    plotting.save(figure, options.out, words)


if __name__ == "__main__":
    plotting.run(main)
