#!/usr/bin/env python3
"""Draws a soak's CSV files: draw.py DIRECTORY writes one SVG for each server
and soak.html, which shows them below the verdict.

SPDX-License-Identifier: MIT
"""
import collections
import csv
import html
import pathlib
import sys

import matplotlib
matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402  (needs the backend)


def rows_of(directory, name):
    with open(directory / name, newline="", encoding="utf-8") as file:
        by_server = collections.defaultdict(list)
        for row in csv.DictReader(file):
            by_server[row["server"]].append(row)
        return by_server


def column(rows, name, scale=1.0):
    return [float(row[name]) / scale for row in rows]


def draw_resident(axes, rows):
    """The sum over the server's own processes, and over what it forked, per moment."""
    for role, colour in (("server", "tab:blue"), ("child", "tab:orange")):
        lives = collections.defaultdict(lambda: collections.defaultdict(float))
        for row in rows:
            if row["role"] == role:
                lives[row["life"]][float(row["seconds"])] += float(row["resident_kib"]) / 1024
        for number, life in enumerate(lives.values()):
            axes.plot(list(life), list(life.values()), color=colour, linewidth=1,
                      marker="." if role == "child" else None, label=role if number == 0 else None)
    swap = collections.defaultdict(float)
    for row in rows:
        swap[float(row["seconds"])] += float(row["swap_kib"]) / 1024
    if any(swap.values()):
        axes.plot(list(swap), list(swap.values()), color="tab:red", linewidth=1, label="swap")
    axes.set_ylabel("resident, MiB")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right", fontsize="small")


def draw_latency(axes, rows):
    at = column(rows, "seconds")
    for name, label in (("worst_us", "worst"), ("p999_us", "99.9 %"), ("p50_us", "median")):
        axes.plot(at, [max(value, 1e-3) for value in column(rows, name, 1000)], linewidth=0.8, label=label)
    axes.set_yscale("log")
    axes.set_ylabel("latency, ms")
    axes.legend(loc="upper right", fontsize="small")


def draw_errors(axes, rows):
    at = column(rows, "seconds")
    axes.plot(at, column(rows, "requests"), linewidth=0.8, color="tab:green", label="requests")
    for name, colour in (("refused", "tab:orange"), ("failed", "tab:red"), ("wrong", "black")):
        points = [(second, count) for second, count in zip(at, column(rows, name)) if count]
        if points:
            axes.plot(*zip(*points), ".", color=colour, label=name)
    axes.set_yscale("symlog")
    axes.set_ylabel("a second")
    axes.legend(loc="lower right", fontsize="small")


def draw_events(figure_axes, events, machine):
    for axes in figure_axes:
        for row in machine:
            axes.axvline(float(row["seconds"]), color="plum", linewidth=0.8, linestyle=":")
        for row in events:
            axes.axvline(float(row["seconds"]), color="silver", linewidth=0.6)
    for row in events + machine:
        figure_axes[0].annotate(f"{row['event']} {row['detail']}".strip(), (float(row["seconds"]), 1.02),
                                xycoords=("data", "axes fraction"), rotation=90, fontsize=5, ha="center", va="bottom")


def draw(directory, name, resident, latency, events, machine):
    figure, axes = pyplot.subplots(3, 1, sharex=True, figsize=(14, 9))
    draw_resident(axes[0], resident)
    draw_latency(axes[1], latency)
    draw_errors(axes[2], latency)
    draw_events(axes, events, machine)
    axes[2].set_xlabel("seconds (grey: events of this server; dotted: of the machine)")
    figure.suptitle(name, x=0.06, ha="left")
    path = directory / f"{name}.svg"
    figure.savefig(path)
    pyplot.close(figure)
    return path


def page(directory, paths):
    """SVG files become part of the page, which is then whole in itself."""
    verdict = html.escape((directory / "verdict.txt").read_text(encoding="utf-8"))
    drawings = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        # Identifiers have to differ from drawing to drawing.
        text = text[text.index("<svg"):]
        for mark in ('id="', 'href="#', "url(#"):
            text = text.replace(mark, f"{mark}{path.stem}-")
        drawings.append(text)
    (directory / "soak.html").write_text(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>hakmem: soak</title>\n"
        "<style>svg { max-width: 100%; height: auto }</style>\n"
        f"<h1>Soak</h1>\n<pre>{verdict}</pre>\n" + "\n".join(drawings) + "\n</html>\n", encoding="utf-8")


def main():
    directory = pathlib.Path(sys.argv[1])
    resident, latency, events = (rows_of(directory, name) for name in ("resident.csv", "latency.csv", "events.csv"))
    paths = [draw(directory, name, resident[name], latency[name], events[name], events["machine"])
             for name in latency]
    page(directory, paths)


if __name__ == "__main__":
    main()
