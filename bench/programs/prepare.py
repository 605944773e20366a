#!/usr/bin/env python3
"""Makes the inputs of the program rows: prepare.py TARGET DIRECTORY

Every target is made from seeded random numbers, so that all machines get the
same input. What is there and was made by the same version of the sources is kept.

SPDX-License-Identifier: MIT
"""
import contextlib
import fcntl
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = (HERE / "prepare.py", HERE / "Start.java")  # what the inputs are made by and from
SYLLABLES = "ka lo mi ru ten sor val din pra esh ul gor nim ta vek ori an del ist ora".split()


class Text:
    """Words and sentences with the frequencies of a language: few words often, many rarely."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        words = {"".join(self.random.choices(SYLLABLES, k=self.random.randint(1, 4))) for _ in range(4000)}
        self.words = sorted(words, key=lambda word: (len(word), word))
        self.bounds = []  # cumulative: what random.choices would compute again at each call
        total = 0.0
        for rank in range(1, len(self.words) + 1):
            total += 1 / rank
            self.bounds.append(total)

    def some(self, count):
        return self.random.choices(self.words, cum_weights=self.bounds, k=count)

    def sentence(self):
        return " ".join(self.some(self.random.randint(4, 14))).capitalize() + "."

    def paragraph(self):
        return " ".join(self.sentence() for _ in range(self.random.randint(2, 6)))


def records(directory):
    """records.json, records-quick.json: customers with their orders, for python3 and jq."""
    for name, count in (("records.json", 12000), ("records-quick.json", 1400)):
        text = Text("records")
        chance = text.random
        customers = [
            {
                "id": number,
                "name": " ".join(word.capitalize() for word in text.some(2)),
                "email": f"{text.some(1)[0]}.{number}@example.org",
                "active": chance.random() < 0.7,
                "score": round(chance.gauss(50, 15), 3),
                "tags": text.some(chance.randint(0, 6)),
                "address": {"street": text.some(1)[0], "number": chance.randint(1, 200),
                            "zip": str(chance.randint(10000, 99999))},
                "orders": [
                    {"item": " ".join(text.some(2)), "quantity": chance.randint(1, 9),
                     "price": chance.randint(100, 99999) / 100}
                    for _ in range(chance.randint(0, 8))
                ],
                "note": text.sentence(),
            }
            for number in range(count)
        ]
        (directory / name).write_text(json.dumps({"customers": customers}))


def prose(directory):
    """prose.txt: paragraphs, for perl."""
    text = Text("prose")
    (directory / "prose.txt").write_text("\n\n".join(text.paragraph() for _ in range(9000)) + "\n")


def sqlite(directory):
    """orders.sql, orders-quick.sql: a shop's data as single INSERTs, and questions about it, for sqlite3."""
    for name, count in (("orders.sql", 45000), ("orders-quick.sql", 12000)):
        text = Text("sqlite")
        chance = text.random
        with open(directory / name, "w") as out:
            out.write("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT);\n"
                      "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, day INTEGER, price REAL, "
                      "detail TEXT);\n"
                      "CREATE INDEX orders_customer ON orders (customer, day);\n"
                      "BEGIN;\n")
            customers = count // 10
            for number in range(customers):
                name, city = " ".join(text.some(2)), text.some(1)[0]
                out.write(f"INSERT INTO customer VALUES ({number}, '{name}', '{city}');\n")
            for number in range(count):
                detail = json.dumps({"item": " ".join(text.some(3)), "tags": text.some(3)})
                out.write(f"INSERT INTO orders VALUES ({number}, {chance.randrange(customers)}, {chance.randrange(365)}, "
                          f"{chance.randint(100, 99999) / 100}, '{detail}');\n")
            out.write("COMMIT;\n")
            out.write("SELECT city, count(*), round(sum(price), 2) FROM customer c JOIN orders o ON o.customer = c.id "
                      "GROUP BY city ORDER BY 3 DESC, 1 LIMIT 20;\n"
                      "SELECT json_extract(detail, '$.tags[0]') AS tag, count(*) FROM orders GROUP BY tag "
                      "ORDER BY 2 DESC, 1 LIMIT 20;\n"
                      "SELECT day, group_concat(name, ', ') FROM (SELECT DISTINCT day, name FROM orders o JOIN customer c "
                      "ON o.customer = c.id WHERE price > 900 ORDER BY day, name) GROUP BY day ORDER BY day LIMIT 10;\n"
                      "SELECT id, round(sum(price) OVER (PARTITION BY customer ORDER BY day, id), 2) AS total FROM orders "
                      "ORDER BY total DESC, id LIMIT 20;\n"
                      "UPDATE orders SET detail = json_set(detail, '$.day', day) WHERE day % 3 = 0;\n"
                      "DELETE FROM orders WHERE day % 5 = 0;\n"
                      "SELECT count(*), sum(length(detail)) FROM orders;\n"
                      "PRAGMA integrity_check;\n")


def git_history(commits):
    """A stream for git fast-import: `commits` commits over 120 files."""
    text = Text("git")
    chance = text.random
    files = {f"{text.some(1)[0]}/{name}{number}.txt": [text.sentence() for _ in range(chance.randint(20, 200))]
             for number, name in enumerate(text.some(120))}
    stream = []
    for commit in range(commits):
        who, when = text.some(1)[0], 1500000000 + commit * 3600
        person = f"{who.capitalize()} <{who}@example.org> {when} +0000"
        message = text.sentence() + "\n\n" + text.paragraph() + "\n"
        stream.append(f"commit refs/heads/main\nauthor {person}\ncommitter {person}\ndata {len(message)}\n{message}\n")
        changed = sorted(files) if commit == 0 else chance.sample(sorted(files), chance.randint(1, 6))
        for path in changed:
            lines = files[path]
            for _ in range(chance.randint(1, 5)):
                lines[chance.randrange(len(lines))] = text.sentence()
            lines.insert(chance.randrange(len(lines)), text.sentence())
            content = "\n".join(lines) + "\n"
            stream.append(f"M 100644 inline {path}\ndata {len(content)}\n{content}\n")
    return "".join(stream).encode()


def git(directory):
    """repo.git, repo-quick.git: packed histories, for git log and git gc."""
    # Whoever runs this, and however their git is set up, it is the same repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}

    def run(*words, **rest):
        subprocess.run(["git", *words], check=True, env=environment, **rest)

    for name, commits in (("repo.git", 1500), ("repo-quick.git", 350)):
        repository = str(directory / name)
        shutil.rmtree(repository, ignore_errors=True)
        run("init", "--quiet", "--bare", "--initial-branch=main", repository)
        run("-C", repository, "fast-import", "--quiet", input=git_history(commits))
        run("-C", repository, "config", "pack.threads", "1")
        run("-C", repository, "config", "gc.aggressiveWindow", "16")
        # The row does this again and again; from here on it finds the same each time.
        run("-C", repository, "gc", "--quiet", "--aggressive", "--prune=now")


def document(directory):
    """document.ps and document.pdf: pages of text and drawings, for gs and pdftoppm."""
    text = Text("document")
    chance = text.random
    out = ["%!PS-Adobe-3.0\n%%Pages: 12\n%%EndComments\n"]
    for page in range(1, 13):
        out.append(f"%%Page: {page} {page}\n")
        y = 800
        for _ in range(24):
            font = chance.choice(["Times-Roman", "Helvetica", "Courier", "Times-Italic"])
            size = chance.choice([8, 9, 10, 11])
            out.append(f"/{font} findfont {size} scalefont setfont {chance.randint(0, 4) / 10} setgray\n")
            out.append(f"40 {y} moveto ({text.sentence()}) show\n")
            y -= 14
        for _ in range(350):  # drawings below the text
            x, y = chance.randint(40, 500), chance.randint(40, 430)
            color = " ".join(f"{chance.random():.2f}" for _ in range(3))
            curve = " ".join(str(chance.randint(-60, 60)) for _ in range(6))
            paint = chance.choice(["stroke", "fill", "gsave fill grestore 0 setgray stroke"])
            out.append(f"newpath {x} {y} moveto {curve} rcurveto {chance.randint(-40, 40)} {chance.randint(-40, 40)} rlineto "
                       f"closepath {color} setrgbcolor {chance.random():.2f} setlinewidth {paint}\n")
        out.append("showpage\n")
    out.append("%%EOF\n")
    (directory / "document.ps").write_text("".join(out))
    # -dSAFER is the default since 9.50: it may read and write what is named here.
    subprocess.run(["gs", "-q", "-dBATCH", "-dNOPAUSE", "-sDEVICE=pdfwrite", f"-sOutputFile={directory / 'document.pdf'}",
                    str(directory / "document.ps")], check=True, stdin=subprocess.DEVNULL)


def smt2(directory):
    """schedule.smt2, schedule-quick.smt2: jobs on machines before a deadline, for z3."""
    for name, jobs, machines, slack in (("schedule.smt2", 10, 6, 4), ("schedule-quick.smt2", 9, 5, 3)):
        chance = random.Random("smt2")
        lines, order, length = ["(set-logic QF_LIA)"], {}, {}
        for job in range(jobs):
            order[job] = chance.sample(range(machines), machines)
            for step in range(machines):
                length[job, step] = chance.randint(1, 9)
                lines.append(f"(declare-fun s{job}_{step} () Int)\n(assert (>= s{job}_{step} 0))")
            for step in range(machines - 1):
                lines.append(f"(assert (>= s{job}_{step + 1} (+ s{job}_{step} {length[job, step]})))")
        for machine in range(machines):
            on_it = [(job, order[job].index(machine)) for job in range(jobs)]
            for i, (a, i_step) in enumerate(on_it):
                for b, b_step in on_it[i + 1:]:
                    first = f"(>= s{b}_{b_step} (+ s{a}_{i_step} {length[a, i_step]}))"
                    second = f"(>= s{a}_{i_step} (+ s{b}_{b_step} {length[b, b_step]}))"
                    lines.append(f"(assert (or {first} {second}))")
        load = max(sum(length[job, order[job].index(machine)] for job in range(jobs)) for machine in range(machines))
        for job in range(jobs):
            lines.append(f"(assert (<= (+ s{job}_{machines - 1} {length[job, machines - 1]}) {load + slack}))")
        lines.append("(check-sat)")
        (directory / name).write_text("\n".join(lines) + "\n")


def java(directory):
    """Start.class, for java."""
    subprocess.run(["javac", "-d", str(directory), str(HERE / "Start.java")], check=True)


TARGETS = {target.__name__: target for target in (records, prose, sqlite, git, document, smt2, java)}


@contextlib.contextmanager
def only_one(directory):
    """Two runs at the same time: the second waits and then finds everything done."""
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: prepare.py {'|'.join(TARGETS)} DIRECTORY")
    target, directory = sys.argv[1], Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    version = hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()
    stamp = directory / f".{target}"
    with only_one(directory):
        if stamp.exists() and stamp.read_text() == version:
            return
        stamp.unlink(missing_ok=True)
        TARGETS[target](directory)
        stamp.write_text(version)  # last: an interrupted run starts over


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"prepare.py: {error}")
