"""A reader of classic pages for these tests: families, and values by series."""

import re
from dataclasses import dataclass, field

__all__ = ["Page", "parse"]

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Page:
    """What a page says."""

    kinds: dict = field(default_factory=dict)
    helps: dict = field(default_factory=dict)
    samples: dict = field(default_factory=dict)

    def value(self, name, **labels):
        """The one value of this name that carries these labels."""
        found = [
            value
            for (sample, pairs), value in self.samples.items()
            if sample == name and labels.items() <= dict(pairs).items()
        ]
        assert len(found) == 1, (name, labels, found)
        return found[0]

    def shapes(self):
        """Names with their label names, and the edges of buckets, whatever the values."""
        shapes = set()
        for name, pairs in self.samples:
            labels = dict(pairs)
            labels.pop("model_name", None)
            shapes.add((name, tuple(sorted(labels.items()))))
        return shapes


def parse(text):
    page = Page()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            assert name not in page.helps
            page.helps[name] = words
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            page.kinds[name] = kind
        elif line and not line.startswith("#"):
            name, labels, value = _SAMPLE.match(line).groups()
            key = (name, tuple(_LABEL.findall(labels or "")))
            assert key not in page.samples
            page.samples[key] = float(value)
    return page
