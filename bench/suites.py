"""The rows of each suite: which program runs with which arguments, and what is
asked of hakmem there.

SPDX-License-Identifier: MIT
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Goal:
    """What hakmem has to reach on a row; None: nothing is asked.

    Ratios are "how much better": 1.15 is 15 % more throughput, or 1/1.15 of the
    time or memory.
    """

    vs_glibc: float | None = None
    vs_best: float | None = None
    mib_over_glibc: float | None = None


@dataclass(frozen=True)
class Row:
    name: str
    command: tuple[str, ...]
    goal: Goal = field(default_factory=Goal)
    # Programs print no result line of their own: their figure is peak memory.
    is_program: bool = False
    # Rows whose figure hardly varies, and which take long, need fewer rounds.
    max_rounds: int = 1000


def workload(name: str, command: str, **rest) -> Row:
    return Row(name, tuple(command.split()), **rest)


def program(name: str, command: tuple[str, ...], **rest) -> Row:
    return Row(name, command, is_program=True, **rest)


ORDERS = ("lifo", "fifo", "interleave")
BATCHES = (25, 50, 100, 200, 500, 1000, 2000)
SIZES = (16, 32, 64, 128, 256, 512, 1024)


def issue() -> list[Row]:
    """What the first release has to reach in speed and memory."""
    rows = [
        workload(
            f"random_mixed 16-1024 B, {slots} slots",
            f"random_mixed --slots {slots} --seconds 0.4",
            goal=Goal(vs_glibc=1.15, vs_best=1.0),
        )
        for slots in (256, 8192)
    ]
    rows += [
        workload(
            f"pair {size}",
            f"pairs --family {family} --min {size} --max {size} --seconds 0.2",
            goal=Goal(vs_best=0.5),  # 150 M ops/s where the best does 300
        )
        for size, family in (
            ("8K", "mid_large"),
            ("32K", "mid_large"),
            ("256K", "large"),
            ("1M", "large"),
            ("2M", "large"),
        )
    ]
    rows += [
        program(f"memory of {name}", command, goal=Goal(mib_over_glibc=1.0))
        for name, command in (
            ("true", ("/bin/true",)),
            ("ls", ("ls",)),
            ("perl -e 1", ("perl", "-e", "1")),
        )
    ]
    rows += [
        workload(
            f"tiny_hot {order} {size} B x {batch}",
            f"tiny_hot --order {order} --size {size} --batch {batch} --seconds 0.1",
            goal=Goal(vs_best=0.97),
        )
        for order in ORDERS
        for size in SIZES
        for batch in BATCHES
    ]
    return rows


def memory_after_peak() -> list[Row]:
    return [
        workload(f"memory after peak, freed: {freed}", f"memory_after_peak --freed {mode}", max_rounds=2)
        for freed, mode in (("all", "all"), ("90 % at random", "random"), ("90 % by neighbourhood", "neighbour"))
    ]


def scenarios(seconds: float) -> list[Row]:
    return [
        workload(f"scenario {name}", f"{binary} --scenario {name} --seconds {seconds}")
        for binary, names in (
            ("scenarios", ("json", "mir", "vm", "mixed")),
            ("objects", ("string_builder", "token_stream", "small_objects")),
        )
        for name in names
    ]


def quick() -> list[Row]:
    """At least one row of every family, in a few minutes."""
    rows = [
        workload("random_mixed 16-1024 B, 256 slots", "random_mixed --slots 256 --seconds 0.3"),
        workload("random_mixed 8192 slots, 2 threads", "random_mixed --slots 8192 --threads 2 --seconds 0.3"),
        workload("tiny_hot lifo 64 B x 100", "tiny_hot --order lifo --size 64 --batch 100 --seconds 0.2"),
        workload("tiny_hot interleave 256 B x 1000", "tiny_hot --order interleave --size 256 --batch 1000 --seconds 0.2"),
        workload("mid_large pair", "pairs --family mid_large --seconds 0.2"),
        workload("mid_large batch 32, 2 threads", "pairs --family mid_large --batch 32 --threads 2 --seconds 0.3"),
        workload("large pair", "pairs --family large --seconds 0.2"),
        workload("large batch 8", "pairs --family large --batch 8 --seconds 0.3"),
        workload("comprehensive", "comprehensive --seconds 0.4"),
        workload("larson, 2 threads", "larson --threads 2 --seconds 0.4"),
        workload("producer_consumer 64 B", "producer_consumer --seconds 0.3"),
        workload("exchange_ring", "exchange_ring --seconds 0.3"),
        workload("server_stress, 8 threads", "server_stress --seconds 0.4"),
        workload("cache thrash", "cache_sharing --mode thrash --seconds 0.2"),
        workload("cache scratch", "cache_sharing --mode scratch --seconds 0.2"),
        workload("pareto", "pareto --seconds 0.3"),
        workload("thread_churn", "thread_churn --seconds 0.3"),
        workload("big_churn", "big_churn --seconds 0.5"),
        workload("realloc vector", "realloc_growth --mode vector --seconds 0.3"),
        workload("realloc string", "realloc_growth --mode string --seconds 0.3"),
        workload("realloc huge, to 256 MiB", "realloc_growth --mode huge --max 256M --seconds 0.3"),
        workload("calloc_large ends", "calloc_large --touch ends --seconds 0.3"),
        workload("calloc_large pages", "calloc_large --touch pages --seconds 0.3"),
        workload("fragmentation", "fragmentation", max_rounds=3),
        workload("idle_threads", "idle_threads", max_rounds=2),
    ]
    return rows + scenarios(0.3) + memory_after_peak()


def full() -> list[Row]:
    """Every mode of every family, with 1, 2 and more threads than processors."""
    crowds = (1, 2, 8, 64)
    rows = issue()
    rows += [
        workload(f"random_mixed {low}-{high} B, {slots} slots, {crowd} threads",
                 f"random_mixed --min {low} --max {high} --slots {slots} --threads {crowd}")
        for low, high in ((16, 128), (16, 1024), (16, 32768))
        for slots in (256, 8192)
        for crowd in crowds
    ]  # fmt: skip
    rows += [
        workload(f"{family} batch {batch}, {crowd} threads",
                 f"pairs --family {family} --batch {batch} --threads {crowd}")
        for family in ("mid_large", "large")
        for batch in (1, 8, 64)
        for crowd in crowds[:3]
    ]  # fmt: skip
    rows += [workload(f"mid_large batch 8, every page, {crowd} threads",
                      f"pairs --family mid_large --batch 8 --touch pages --threads {crowd}")
             for crowd in crowds[:2]]  # fmt: skip
    rows += [workload(f"comprehensive, {crowd} threads", f"comprehensive --threads {crowd}") for crowd in crowds[:2]]
    rows += scenarios(0.4)
    rows += [workload(f"larson, {crowd} threads", f"larson --threads {crowd}") for crowd in crowds]
    rows += [
        workload(f"producer_consumer {low}-{high}, {pairs} pairs",
                 f"producer_consumer --min {low} --max {high} --pairs {pairs}")
        for low, high in (("64", "64"), ("16", "4K"), ("4K", "64K"))
        for pairs in (1, 4)
    ]  # fmt: skip
    rows += [workload(f"exchange_ring, {crowd} threads", f"exchange_ring --threads {crowd}") for crowd in crowds[1:]]
    rows += [workload(f"server_stress, {crowd} threads", f"server_stress --threads {crowd}") for crowd in crowds]
    rows += [
        workload(f"cache {mode}, {crowd} threads", f"cache_sharing --mode {mode} --threads {crowd}")
        for mode in ("thrash", "scratch")
        for crowd in crowds[:3]
    ]
    rows += [workload(f"pareto, {crowd} threads", f"pareto --threads {crowd}") for crowd in crowds[:3]]
    rows += [workload(f"thread_churn, {crowd} threads", f"thread_churn --threads {crowd}") for crowd in crowds]
    rows += [workload(f"big_churn, {crowd} threads", f"big_churn --threads {crowd}") for crowd in crowds[:2]]
    rows += [workload("big_churn 5-25 MiB", "big_churn --min 5M --max 25M")]
    rows += [workload(f"realloc {mode}", f"realloc_growth --mode {mode}") for mode in ("vector", "string")]
    rows += [workload("realloc huge, to 1 GiB", "realloc_growth --mode huge", max_rounds=3)]
    rows += [workload(f"calloc_large {touch}", f"calloc_large --touch {touch}") for touch in ("ends", "pages")]
    rows += [workload("fragmentation", "fragmentation", max_rounds=3)]
    rows += [workload("idle_threads", "idle_threads", max_rounds=2)]
    return rows + memory_after_peak()


SUITES = {"issue": issue, "quick": quick, "full": full}
