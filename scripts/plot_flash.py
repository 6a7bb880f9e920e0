#!/usr/bin/env python3
"""Draws runs.csv (decant bench closed) and kernel.csv (decant bench kernel): the wall time of whole
batches for each decode kernel, and the kernels' time per layer against context length beside their
floor."""

import math
import statistics

import plotting

RUNS = ["utc_time", "commit", "workload", "batch_size", "max_batch", "page_size", "decode_kernel",
        "wall_s"]
KERNELS = ["utc_time", "commit", "device", "kernel", "page_size", "batch", "lengths",
           "us_per_layer", "floor_us"]


def draw_walls(axes, rows: list[plotting.Row]) -> None:
    """Bars from zero: the median of a batch's runs, with the range of all."""
    series = plotting.group(rows, plotting.engine_label)
    batches = list(plotting.group(rows, batch_label))
    width = 0.8 / len(series)
    for place, (label, part) in enumerate(series.items()):
        for batch, runs in plotting.group(part, batch_label).items():
            walls = [plotting.number(row, "wall_s") for row in runs]
            middle = statistics.median(walls)
            x = batches.index(batch) + (place - (len(series) - 1) / 2) * width
            axes.bar(x, middle, width * 0.92, color=plotting.COLOURS[place % len(plotting.COLOURS)],
                     yerr=[[middle - min(walls)], [max(walls) - middle]],
                     error_kw={"elinewidth": 2, "capsize": 4}, label=label)
            axes.annotate(f"{middle:.2f}", (x, max(walls)), xytext=(0, 4),
                          textcoords="offset points", ha="center",
                          fontsize=plotting.FONT_SIZE - 2)
            label = "_"  # one entry a series
    axes.set_xticks(range(len(batches)), batches)
    axes.set(title="Whole batches, to the last request", ylabel="wall time (s), median and range")
    axes.margins(y=0.12)
    axes.grid(axis="x", visible=False)
    axes.legend(loc="upper left")


def batch_label(row: plotting.Row) -> str:
    return f"{row['workload']}\n{row['batch_size']} requests\n{row['max_batch']} rows"


def pick_batch(rows: list[plotting.Row], wanted: int | None) -> int:
    batches = sorted({int(plotting.number(row, "batch")) for row in rows})
    if wanted is None:
        return max((batch for batch in batches if batch <= 32), default=batches[0])
    if wanted not in batches:
        raise plotting.PlotError(f"--batch is {wanted}; kernel.csv has "
                                 f"{', '.join(str(batch) for batch in batches)}")
    return wanted


def draw_kernels(axes, rows: list[plotting.Row], wanted: int | None) -> None:
    # As steps run: kernels may overlap. Files from before the column hold such rows only.
    even = [row for row in rows if row["lengths"].isdecimal() and row.get("overlap") != "off"]
    if not even:
        raise plotting.PlotError("kernel.csv: no row whose lengths are one number")
    batch = pick_batch(even, wanted)
    even = [row for row in even if plotting.number(row, "batch") == batch]

    def by_length(part: list[plotting.Row], column: str) -> dict[int, float]:
        lengths = sorted(plotting.group(part, lambda row: int(row["lengths"])).items())
        return {length: plotting.median(group, column) for length, group in lengths}

    series = plotting.group(even, lambda row: f"{row['kernel']}, pages of {row['page_size']}")
    for place, (label, part) in enumerate(series.items()):
        times = by_length(part, "us_per_layer")
        axes.plot(list(times), list(times.values()), label=label,
                  color=plotting.COLOURS[place % len(plotting.COLOURS)],
                  marker=plotting.MARKERS[place % len(plotting.MARKERS)])
    floors = {length: floor for length, floor in by_length(even, "floor_us").items()
              if not math.isnan(floor)}
    axes.plot(list(floors), list(floors.values()), color=plotting.GREY, linestyle="--",
              label="floor: bytes at measured bandwidth")
    axes.set(title=f"Decode attention, {batch} rows", xlabel="context length (tokens)",
             ylabel="time per layer (µs)", yscale="log")
    axes.set_xscale("log")
    lengths = list(by_length(even, "us_per_layer"))
    # Labels that lie closer than a factor of 1.8 would touch.
    ticks = [length for place, length in enumerate(lengths)
             if place == 0 or length >= 1.8 * lengths[place - 1]]
    axes.set_xticks(ticks, [f"{length:,}" for length in ticks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.legend(loc="upper left")


def main() -> None:
    parser = plotting.parser(__doc__, "  scripts/plot_flash.py --in results/h200 --out flash.png",
                             "flash.png")
    parser.add_argument("--batch", type=int, metavar="ROWS",
                        help="rows of the kernels' panel (default: the most there are up to 32)")
    options = parser.parse_args()
    runs = plotting.read_rows(options.places, "runs.csv", RUNS)
    kernels = plotting.read_rows(options.places, "kernel.csv", KERNELS)
    figure, panels = plotting.new_figure([["left", "right"]])
    draw_walls(panels["left"], runs)
    draw_kernels(panels["right"], kernels, options.batch)
    plotting.save(figure, options.out, plotting.caption(runs, kernels))


if __name__ == "__main__":
    plotting.run(main)
