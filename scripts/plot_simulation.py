#!/usr/bin/env python3
"""Draws what the simulator predicts: each run of a campaign beside its measurement (check.csv of
decant simulate check), and the published figures of another engine within the spread of 100 draws
(seed_tables.csv of decant simulate seed-tables)."""

import statistics

import plotting

CHECK = ["utc_time", "commit", "device", "source", "decode_kernel", "page_size", "what", "measured",
         "predicted"]
SEED = ["utc_time", "commit", "device", "figure", "published", "predicted"]
UNITS = {"closed_s": "closed batch, to the last request (s)", "served_per_s": "served (requests/s)"}
ALLOWED = 0.05  # of what is measured


def draw_check(axes, what: str, rows: list[plotting.Row]) -> None:
    """Measured against predicted, one colour for a kernel and page size."""
    for kernel, part in plotting.group(
            rows, lambda row: f"{row['decode_kernel']}, pages of {row['page_size']}").items():
        axes.plot([plotting.number(row, "measured") for row in part],
                  [plotting.number(row, "predicted") for row in part], "o", alpha=0.7, label=kernel)
    most = 1.1 * max(plotting.number(row, "measured") for row in rows)
    axes.plot([0, most], [0, most], ":", color="dimgrey", label="predicted = measured")
    axes.fill_between([0, most], [0, most * (1 - ALLOWED)], [0, most * (1 + ALLOWED)],
                      color="dimgrey", alpha=0.15, label=f"within {ALLOWED:.0%}")
    axes.set(title=UNITS.get(what, what), xlabel="measured", ylabel="predicted", xlim=(0, most),
             ylim=(0, most))
    axes.legend()


def draw_seed(axes, rows: list[plotting.Row]) -> None:
    """Each published figure is 1; a bar spans 80 of 100 draws, a line all of them."""
    figures = plotting.group(rows, lambda row: row["figure"])
    for place, part in enumerate(figures.values()):
        published = plotting.number(part[0], "published")
        values = sorted(plotting.number(row, "predicted") / published for row in part)
        tenths = statistics.quantiles(values, n=10)
        axes.plot([values[0], values[-1]], [place, place], color="tab:blue", linewidth=1)
        axes.plot([tenths[0], tenths[-1]], [place, place], color="tab:blue", linewidth=7,
                  alpha=0.4)
        axes.plot(statistics.median(values), place, "o", color="tab:blue")
    axes.axvline(1, color="black", linestyle=":")
    axes.set_yticks(range(len(figures)), list(figures))
    axes.invert_yaxis()
    axes.set(title="Published figures (A10) within the spread of 100 draws",
             xlabel="predicted / published: median, 10% to 90%, all", xscale="log")


def main() -> None:
    options = plotting.parser(
        __doc__, "  scripts/plot_simulation.py --in results/sim --out results/sim/simulation.png",
        "simulation.png").parse_args()
    check = plotting.read_rows(options.places, "check.csv", CHECK)
    seed = plotting.read_rows(options.places, "seed_tables.csv", SEED)
    kinds = plotting.group(check, lambda row: row["what"])
    figure, axes = plotting.new_figure([[*kinds], ["seed"] * len(kinds)], height=20)
    for what, rows in kinds.items():
        draw_check(axes[what], what, rows)
    draw_seed(axes["seed"], seed)
    plotting.save(figure, options.out, plotting.caption(check, seed))


if __name__ == "__main__":
    plotting.run(main)
