"""What a probe asks: plain words of a chosen number, never the same twice."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

__all__ = ["WORDS", "Prompt"]

WORDS = (
    *("the", "time", "people", "water", "house", "world", "light", "night", "paper", "music"),
    *("river", "table", "story", "money", "group", "place", "point", "state", "right", "north"),
    *("field", "white", "black", "green", "round", "heart", "sound", "voice", "stone", "south"),
)
"""Each is one token for every tokenizer in common use, so that words are nearly tokens."""

_ASK = "Tell a long story with these words in it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The text of one request, and the most tokens that its answer may have."""

    text: str
    max_tokens: int

    @classmethod
    def of_words(cls, words: int, *, max_tokens: int, nonce: str | None = None) -> Prompt:
        """About this many words, hence about as many tokens; the answer's usage says exactly.

        why a nonce in front: a prefix cache would answer for the engine. "" lets it.
        """
        mark = secrets.token_hex(4) if nonce is None else nonce
        lead = [mark, *_ASK.split()] if mark else _ASK.split()
        filling = (WORDS[place % len(WORDS)] for place in range(max(words - len(lead), 0)))
        return cls(text=" ".join((*lead, *filling)), max_tokens=max_tokens)
