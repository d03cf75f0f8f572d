"""Promises from practice, by what the answers are for: `preset: chat` is several objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from alerts.phrase import Phrase
from domain.indicator import LatencyIndicator, ThroughputIndicator
from domain.labels import Labels

__all__ = ["PRESETS", "Preset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Limits in seconds by latency, or a floor for `counter` that only the user knows."""

    name: str
    text: str
    use_case: str
    limits_s: Mapping[str, Fraction] = field(default_factory=dict)
    counter: str = ""
    target: Fraction = Fraction(99, 100)

    @property
    def where(self) -> Labels:
        return (("use_case", self.use_case),)

    def promises(
        self, limits_s: Mapping[str, Fraction], at_least_per_s: Fraction | None, where: Labels
    ) -> list[tuple[str, Phrase]]:
        """What it stands for, each with the word that its name ends in; `limits_s` go before ours."""
        if at_least_per_s is not None:
            floor = ThroughputIndicator(
                metric=self.counter, at_least_per_s=at_least_per_s, where=where
            )
            return [("throughput", Phrase(target=self.target, indicator=floor))]
        return [
            (
                metric,
                Phrase(
                    target=self.target,
                    indicator=LatencyIndicator(
                        metric=metric, threshold_s=limits_s.get(metric, ours_s), where=where
                    ),
                ),
            )
            for metric, ours_s in self.limits_s.items()
        ]


def _spoken(name: str, text: str, use_case: str, ttft_ms: int, itl_ms: int) -> Preset:
    limits_s = {"ttft": Fraction(ttft_ms, 1000), "itl": Fraction(itl_ms, 1000)}
    return Preset(name=name, text=text, use_case=use_case, limits_s=limits_s)


_ALL = (
    _spoken("voice", "Answers that are spoken: a pause is heard.", "voice", 300, 100),
    _spoken("chat", "Answers that are read as they appear.", "chat", 1000, 150),
    _spoken("chat-strict", "A chat that should feel immediate.", "chat", 500, 150),
    _spoken("code", "Code completion while somebody types.", "code", 500, 80),
    _spoken(
        "writing", "Long texts: a start may wait, the flow may not stop.", "writing", 2000, 200
    ),
    Preset(
        name="batch",
        text="Offline work: nobody waits for one answer, all of it has to get done.",
        use_case="batch",
        counter="generation_tokens",
    ),
)
PRESETS = {preset.name: preset for preset in _ALL}
