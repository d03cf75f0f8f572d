"""One round of a target: what was asked, what came back, and what is to be said of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from domain.request import Outcome
from exporters.probe.exchange import Exchange
from exporters.probe.finding import Finding, Lumps, finding, lumps, where_lumps_begin
from exporters.probe.floor import Floor

__all__ = ["Round"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """`asked`: exchanges with the users' address, in order. `inner`: with those behind it.

    `refusal` says why nothing was asked, and `refused_as` says it in a word.
    """

    asked: tuple[Exchange, ...] = ()
    inner: tuple[Exchange, ...] = ()
    cold: Finding | None = None  # the first of `asked` was a cold start, by its time
    floor: Floor | None = None
    refusal: str = ""
    refused_as: str = ""
    month_usd: float | None = None
    month_tokens: int | None = None

    @property
    def last(self) -> Exchange | None:
        """The exchange that tells how things are now."""
        return self.asked[-1] if self.asked else None

    @property
    def up(self) -> bool:
        return self.last is not None and self.last.outcome is Outcome.OK

    @property
    def lumps(self) -> Lumps | None:
        """How the users' answer arrived."""
        return lumps(self.last) if self.last is not None else None

    @property
    def lumps_begin(self) -> str:
        """The address from which on answers come in lumps; empty where unknown."""
        if self.last is None or not self.inner:
            return ""
        return where_lumps_begin((*self.inner, self.last))

    def found(self, exchange: Exchange) -> Finding | None:
        """What is to be said of one of `asked`."""
        if self.cold is not None and exchange is self.asked[0]:
            return self.cold
        return finding(exchange)

    def with_floor(self, floor: Floor) -> Round:
        return replace(self, floor=floor)

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything that a person should read, a sentence each."""
        said = [self.refusal] if self.refusal else []
        for exchange in self.asked:
            found = self.found(exchange)
            said += [found.sentence] if found is not None else []
        if self.lumps is not None and self.lumps.held and self.last is not None:
            said.append(f"{self.last.url}: {self.lumps.sentence}{self._place()}")
        if self.floor is not None and self.floor.trouble:
            said.append(self.floor.trouble)
        return tuple(said)

    def _place(self) -> str:
        """Where on the path that begins."""
        begins, addresses = self.lumps_begin, [each.url for each in self.inner]
        if not addresses:
            return ". No address behind it is known: give a `path`, to learn where"
        if not begins:
            return ". The addresses behind it do not tell where that begins"
        if begins == addresses[0]:
            return f". It is so at {begins} already, where the path begins"
        place = [*addresses, self.last.url if self.last else ""].index(begins)
        at = next((each for each in (*self.inner, *self.asked) if each.url == begins), None)
        who = f" ({at.server})" if at is not None and at.server else ""
        return f". It begins at {begins}{who}: {addresses[place - 1]} behind it streams"
