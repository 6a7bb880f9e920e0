#!/usr/bin/env python3
"""Draws steps.csv (decant bench steps): where the time of a pure decode step and of a loaded step
goes, beside its floor, and how long requests that are generating wait from one token to the next."""

import math

import plotting

# Parts of a forward, and the columns that each adds up.
PARTS = {
    "QKV": ["qkv_ms"],
    "prompt attention": ["prompt_attention_ms"],
    "decode attention": ["decode_attention_ms"],
    "O projection": ["o_ms"],
    "gate and up": ["gate_up_ms"],
    "down": ["down_ms"],
    "head, sampling": ["head_ms", "sample_ms"],
    "copies, embedding": ["upload_ms", "embed_ms", "download_ms"],
}
KINDS = {"pure_decode": "Pure decode step", "loaded": "Loaded step"}
COLUMNS = ["utc_time", "commit", "device", "model", "engine", "decode_kernel", "page_size", "kind",
           "decode_tokens", "duration_ms", "floor_ms", *sum(PARTS.values(), [])]


def draw_kind(axes, kind: str, series: dict[str, list[plotting.Row]]) -> None:
    """A bar for each engine: medians of the parts, one behind the other; marks for the median of the
    whole step and of its floor."""
    for place, rows in enumerate(series.values()):
        steps = [row for row in rows if row["kind"] == kind]
        left = 0.0
        for colour, (part, columns) in zip(plotting.COLOURS, PARTS.items()):
            width = sum(value for value in (plotting.median(steps, column) for column in columns)
                        if not math.isnan(value))
            axes.barh(place, width, 0.6, left=left, color=colour, edgecolor="white",
                      label=part if place == 0 else "_")
            left += width
        step, floor = plotting.median(steps, "duration_ms"), plotting.median(steps, "floor_ms")
        for name, value, line in (("whole step", step, "-"), ("floor", floor, (0, (1, 1)))):
            axes.plot([value, value], [place - 0.38, place + 0.38], color="black", linestyle=line,
                      linewidth=4, label=name if place == 0 else "_")
        if not math.isnan(step):
            axes.annotate(f"{step:.3g} ms", (max(step, left), place), xytext=(10, 0),
                          textcoords="offset points", va="center", weight="bold")
    axes.set_yticks(range(len(series)), [label.replace(": ", "\n") for label in series])
    axes.set(title=KINDS[kind], xlabel="median (ms)", ylim=(len(series) - 0.4, -0.6))
    axes.margins(x=0.2)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)


def draw_gaps(axes, series: dict[str, list[plotting.Row]]) -> None:
    """For each wait, the share of tokens that waited longer. A decode token waits as long as the
    step that computes it takes."""
    for place, (label, rows) in enumerate(series.items()):
        waits = sorted((plotting.number(row, "duration_ms"), plotting.number(row, "decode_tokens"))
                       for row in rows if plotting.number(row, "decode_tokens") > 0)
        tokens = sum(count for _, count in waits)
        left, longer = tokens, []
        for _, count in waits:
            left -= count
            longer.append(100 * left / tokens)
        axes.step([wait for wait, _ in waits], longer, where="post", label=label,
                  color=plotting.COLOURS[place % len(plotting.COLOURS)])
    axes.set(title="Wait from token to token", xlabel="wait (ms)", xscale="log", yscale="log",
             ylabel="tokens that waited longer (%)", ylim=(0.1, 110))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    # Between powers of ten only what has room: 20 and 50.
    axes.xaxis.set_minor_formatter(
        lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.legend(loc="lower left")


def main() -> None:
    options = plotting.parser(__doc__,
                              "  scripts/plot_steps.py --in results/h200/steps --out steps.png",
                              "steps.png").parse_args()
    rows = plotting.read_rows(options.places, "steps.csv", COLUMNS)
    series = plotting.group(rows, plotting.engine_label)
    figure, panels = plotting.new_figure([["pure_decode", "gaps"], ["loaded", "gaps"]],
                                         height=4 + 2.4 * len(series))
    for kind in KINDS:
        draw_kind(panels[kind], kind, series)
    draw_gaps(panels["gaps"], series)
    handles, labels = panels["loaded"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=5)
    plotting.save(figure, options.out, plotting.caption(rows), legend=0.12)


if __name__ == "__main__":
    plotting.run(main)
