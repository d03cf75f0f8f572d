"""How many words make the tokens that were asked for, and what the server takes: found by asking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporters.ladder.ask import Prompts
from exporters.ladder.plan import Shape
from exporters.probe.client import exchange
from exporters.probe.connection import Connection
from exporters.probe.exchange import Exchange
from exporters.probe.failure import ProbeError
from exporters.probe.prompt import Prompt
from exporters.probe.settings import ProbeTarget

__all__ = ["Calibration", "Scale", "calibrate"]

_SMALL_WORDS = 32
_ANSWER_TOKENS = 4
_REFUSED = (400, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Tokens of a prompt as a line over its words: what the server's own counts say."""

    per_word: float
    extra: float

    def words_for(self, tokens: int) -> int:
        return max(round((tokens - self.extra) / self.per_word), 1)

    @classmethod
    def through(cls, small: tuple[int, int], large: tuple[int, int]) -> "Scale":
        """The line through two (words, tokens); one word is one token where that is absurd."""
        (words, tokens), (more_words, more_tokens) = small, large
        if more_words <= words or not 0.2 <= (more_tokens - tokens) / (more_words - words) <= 8:
            return cls(per_word=1.0, extra=0.0)
        per_word = (more_tokens - tokens) / (more_words - words)
        return cls(per_word=per_word, extra=tokens - per_word * words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What to send. `scale` is None where the server does not count prompts."""

    target: ProbeTarget
    words: Mapping[Shape, int]
    scale: Scale | None
    ignores_eos: bool
    exchanges: tuple[Exchange, ...]


async def calibrate(
    target: ProbeTarget,
    shapes: Sequence[Shape],
    prompts: Prompts,
    *,
    timeout_s: float,
    ignore_eos: bool = True,
) -> Calibration:
    """Two or three short answers; raises ProbeError where the endpoint does not give any.

    Answers are asked for in full length (`ignore_eos`); a server that refuses the word is asked
    without it, and its answers may be shorter.
    """
    done: list[Exchange] = []
    usage: list[str] = []

    async def ask(target: ProbeTarget, words: int) -> Exchange:
        prompt = Prompt(text=prompts.text(words), max_tokens=_ANSWER_TOKENS)
        connection = Connection(target)
        try:
            found = await exchange(target, prompt, connection=connection, timeout_s=timeout_s)
        finally:
            await connection.close()
        usage.append(connection.usage)
        done.append(found)
        return found

    chosen = _ignoring_eos(target) if ignore_eos else target
    small = await ask(chosen, _SMALL_WORDS)
    if chosen is not target and small.status in _REFUSED:
        chosen = target
        small = await ask(chosen, _SMALL_WORDS)
    _must_answer(small)
    longest = max(shape.prompt_tokens for shape in shapes)
    large = await ask(chosen, max(longest, 2 * _SMALL_WORDS))
    _must_answer(large)
    scale = _scale(small, large, max(longest, 2 * _SMALL_WORDS))
    return Calibration(
        target=chosen.model_copy(update={"usage": usage[-1]}),
        words={
            shape: (scale or Scale(per_word=1.0, extra=0.0)).words_for(shape.prompt_tokens)
            for shape in shapes
        },
        scale=scale,
        ignores_eos=chosen is not target,
        exchanges=tuple(done),
    )


def _ignoring_eos(target: ProbeTarget) -> ProbeTarget:
    if target.aws or "ignore_eos" in target.body:
        return target
    return target.model_copy(update={"body": {**target.body, "ignore_eos": True}})


def _scale(small: Exchange, large: Exchange, words: int) -> Scale | None:
    if small.prompt_tokens is None or large.prompt_tokens is None:
        return None
    return Scale.through((_SMALL_WORDS, small.prompt_tokens), (words, large.prompt_tokens))


def _must_answer(done: Exchange) -> None:
    """A ladder on an endpoint that does not stream has no first rung."""
    if done.ok and done.ttft_s is not None:
        return
    trouble = done.trouble or "it answers without a token"
    raise ProbeError(
        done.reason or "no_token",
        trouble.removeprefix(f"{done.url}: "),
        where=done.url,
        remedy="Mend that first: one request must stream before many are sent.",
    )
