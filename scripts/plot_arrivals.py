#!/usr/bin/env python3
"""Draws arrivals.csv (decant bench arrivals): requests served a second and queue wait against the
offered rate, one line for each engine, decode kernel and page size."""

import plotting

COLUMNS = ["utc_time", "commit", "device", "model", "engine", "decode_kernel", "page_size", "rate",
           "served_per_s", "queue_p50_s"]
LEAST_WAIT = 1e-3  # seconds; shorter waits are drawn here


def rates_of(rows: list[plotting.Row]) -> dict[float, list[plotting.Row]]:
    """The rows by offered rate, slowest first."""
    return dict(sorted(plotting.group(rows, lambda row: plotting.number(row, "rate")).items()))


def look(place: int) -> dict:
    """How the line of a series looks in both panels."""
    return {"color": plotting.COLOURS[place % len(plotting.COLOURS)],
            "marker": plotting.MARKERS[place % len(plotting.MARKERS)]}


def draw_served(axes, series: dict[str, list[plotting.Row]]) -> None:
    """The legend tells each line's highest point."""
    fastest = 0.0
    for place, (label, rows) in enumerate(series.items()):
        points = {rate: plotting.median(part, "served_per_s")
                  for rate, part in rates_of(rows).items()}
        peak = max(points.values())
        axes.plot(list(points), list(points.values()), label=f"{label} (peak {peak:.2f})",
                  **look(place))
        fastest = max(fastest, peak)
    slowest = min(plotting.number(row, "rate") for rows in series.values() for row in rows)
    axes.plot([slowest, fastest], [slowest, fastest], color=plotting.GREY, linestyle=":",
              label="served = offered", zorder=1)
    axes.set(title="Requests served", xlabel="offered (requests/s)", ylabel="served (requests/s)",
             ylim=(0, fastest * 1.15), xlim=(0, None))


def draw_wait(axes, series: dict[str, list[plotting.Row]]) -> None:
    for place, (label, rows) in enumerate(series.items()):
        waits = {rate: max(plotting.median(part, "queue_p50_s"), LEAST_WAIT)
                 for rate, part in rates_of(rows).items()}
        axes.plot(list(waits), list(waits.values()), label=label, **look(place))
    axes.set(title="Queue wait (1 ms: 1 ms or less)", xlabel="offered (requests/s)",
             ylabel="arrival to admission, median (s)", yscale="log", xlim=(0, None))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def main() -> None:
    options = plotting.parser(
        __doc__, "  scripts/plot_arrivals.py --in results/h200/arrivals --out arrivals.png",
        "arrivals.png").parse_args()
    rows = plotting.read_rows(options.places, "arrivals.csv", COLUMNS)
    series = plotting.group(rows, plotting.engine_label)
    figure, panels = plotting.new_figure([["left", "right"]])
    draw_served(panels["left"], series)
    draw_wait(panels["right"], series)
    handles, labels = panels["left"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=2)
    lines = (len(labels) + 1) // 2
    plotting.save(figure, options.out, plotting.caption(rows), legend=0.03 + 0.05 * lines)


if __name__ == "__main__":
    plotting.run(main)
