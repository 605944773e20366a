"""Pictures of docs/benchmarks.md, from its own tables: for each set of rows one of the means over all rows, and
those of hakmem beside the best peer in each row.

    charts.py benchmarks.md FOLDER      writes FOLDER/*.svg, and prints the document with the pictures in it

Run by the environment of scripts/build-site, which has the library that draws.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import sys

import pygal
import pygal.style

STYLE = pygal.style.Style(background="white", plot_background="white", font_family="sans-serif", label_font_size=13,
                          major_label_font_size=13, legend_font_size=13, title_font_size=16)
LOOK = {"style": STYLE, "js": [], "width": 1000, "legend_at_bottom": True, "truncate_legend": -1,
        "show_minor_x_labels": False}


def table_after(lines, at):
    """The rows of the first table after a line, each a list of cells without emphasis, and where it begins."""
    while not lines[at].startswith("|"):
        at += 1
    end = at
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    cells = [[cell.strip().strip("*") for cell in line.strip("|").split(" | ")] for line in lines[at:end]]
    return [cells[0], *cells[2:]], at


def number(cell):
    return float(cell) if re.fullmatch(r"[\d.]+", cell) else None


def means(table):
    """A bar for each allocator's time and memory, as the table has them: best first, which is the top here."""
    names, *rows = table
    chart = pygal.HorizontalBar(title="Over all rows, glibc = 1: less is better", height=520, **LOOK)
    chart.x_labels = [row[0] for row in reversed(rows)]
    for name in "relative time", "relative memory":
        column = names.index(name)
        chart.add(name, [number(row[column]) for row in reversed(rows)])
    return chart


def against_the_best(heading, table):
    """A bar for each row: hakmem's figure as the ratio to the best peer's, worst first, which is the top."""
    names, *rows = table
    ratios = names.index("ratio to it")
    chart = pygal.HorizontalStackedBar(title=f"{heading}, the peer = 1: less is better", height=200 + 17 * len(rows),
                                       truncate_label=60, legend_at_bottom_columns=1, **LOOK)
    rows = [row for row in reversed(rows) if number(row[ratios]) is not None]
    chart.x_labels = [row[0] for row in rows]
    chart.add("beyond the noise", [None if row[-1] else number(row[ratios]) for row in rows])
    chart.add("within it, or not tested for it", [number(row[ratios]) if row[-1] else None for row in rows])
    return chart


def main():
    lines = pathlib.Path(sys.argv[1]).read_text().split("\n")
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for at, line in enumerate(lines):
        if line == "### Over all rows" or line.startswith("### hakmem and the best peer: "):
            table, begins = table_after(lines, at)
            chart = means(table) if line == "### Over all rows" else against_the_best(line[4:], table)
            name = f"benchmarks-{len(pictures) + 1}.svg"
            chart.render_to_file(str(folder / name))
            pictures[begins] = f"![{chart.config.title}]({folder.name}/{name})\n\n"
    if not pictures:
        sys.exit(f"{sys.argv[1]} has no table to draw")
    print("\n".join(pictures.get(at, "") + line for at, line in enumerate(lines)), end="")


if __name__ == "__main__":
    main()
