"""Classic histograms of recorded pages, read the plain way: for tests and benchmarks of `domain`."""

import math
import re
from dataclasses import dataclass

import numpy as np

from domain.buckets import from_buckets, layout
from domain.counter import increase

__all__ = ["PageInterval", "page_interval"]

_LINE = re.compile(r"(?P<name>[\w:]+)_(?P<part>bucket|sum)\{(?P<labels>.*)\} (?P<value>\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageInterval:
    """What two pages say of one family between them."""

    edges_s: tuple[float, ...]
    counts: np.ndarray
    sum_s: float
    noise_s: float
    restarted: bool

    def pair(self, *, with_sum=True):
        return from_buckets(
            layout(self.edges_s),
            self.counts,
            self.sum_s if with_sum else None,
            noise_s=self.noise_s,
        )


def _family(path, name):
    buckets, sum_s = {}, 0.0
    for line in path.read_text().splitlines():
        found = _LINE.match(line)
        if not found or found["name"] != name:
            continue
        if found["part"] == "sum":
            sum_s += float(found["value"])
        else:
            edge_s = float(re.search(r'le="([^"]+)"', found["labels"])[1])
            buckets[edge_s] = buckets.get(edge_s, 0.0) + float(found["value"])
    return dict(sorted(buckets.items())), sum_s


def page_interval(before, after, name):
    """The family `name` between two pages; None where the earlier one does not have it."""
    old, old_sum_s = _family(before, name)
    new, sum_s = _family(after, name)
    if not old or not new:
        return None
    grown = increase(old, new)
    counts = np.diff(list(grown.by.values()), prepend=0).astype(np.int64)
    return PageInterval(
        edges_s=tuple(new),
        counts=counts,
        sum_s=sum_s if grown.restarted else sum_s - old_sum_s,
        noise_s=(2 + int(counts.sum())) * math.ulp(max(abs(sum_s), abs(old_sum_s))),
        restarted=grown.restarted,
    )
