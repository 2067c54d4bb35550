"""A report that keeps a processor busy: mean sale of each month, and how far off that mean may be.

The sales are in files, one for each month, with one amount on each line: 2027-01.csv, 2027-02.csv, …
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import fmean, quantiles

import msgspec

from oncue import Context, Tasks

tasks = Tasks()


class Month(msgspec.Struct):
    month: str
    sales: int
    mean: float
    low: float  # in 95 of 100 months like this one the mean would lie between low
    high: float  # and high


# In a process of its own: it can use a whole processor, and be stopped at any moment.
@tasks.task("sales_report", isolation="process", timeout="1h")
def sales_report(ctx: Context, folder: str, rounds: int = 5_000) -> list[Month]:
    files = sorted(Path(folder).glob("*.csv"))
    report = msgspec.convert(ctx.checkpoint() or [], list[Month])  # what an earlier attempt has done already
    for file in files[len(report) :]:
        ctx.log.info("working on %s", file.name)
        report.append(summary(file, rounds))
        ctx.save_checkpoint(report)
        ctx.progress(len(report), len(files))
    return report


def summary(file: Path, rounds: int) -> Month:
    """The same for the same file, whenever it is computed: chance is seeded with its name."""
    amounts = [float(line) for line in file.read_text().split()]
    chance = Random(file.name)
    means = [fmean(chance.choices(amounts, k=len(amounts))) for _ in range(rounds)]
    low, *_, high = quantiles(means, n=40)
    return Month(file.stem, len(amounts), round(fmean(amounts), 2), round(low, 2), round(high, 2))
