"""A binary heap in two arrays: keys that grow downward, and the request each belongs to."""

from __future__ import annotations

from typing import Any

from review.compiled import inlined

__all__ = ["pop", "push"]


@inlined
def push(keys: Any, values: Any, size: int, key: Any, value: int) -> int:
    """The size after a key was added; the least key stands first."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if keys[above] <= key:
            break
        keys[place] = keys[above]
        values[place] = values[above]
        place = above
    keys[place] = key
    values[place] = value
    return size + 1


@inlined
def pop(keys: Any, values: Any, size: int) -> int:
    """The size after the first was taken away."""
    size -= 1
    key, value = keys[size], values[size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[place] = keys[below]
        values[place] = values[below]
        place = below
    keys[place] = key
    values[place] = value
    return size
