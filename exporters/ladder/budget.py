"""How many requests and how much money a ladder may still use: reserved first, settled after."""

from exporters.ladder.cost import Price
from exporters.ladder.plan import Guards, Shape
from exporters.ladder.sample import Sample

__all__ = ["Budget"]


class Budget:
    """No request begins that could carry the sum over its limit."""

    def __init__(self, guards: Guards, price: Price) -> None:
        self.requests = 0
        self.prompt_tokens = self.output_tokens = 0
        self.spent = 0.0
        self._guards, self._price = guards, price

    def add(self, prompt_tokens: int | None, output_tokens: int | None) -> None:
        """A request that was sent before there was a budget."""
        self.requests += 1
        self.prompt_tokens += prompt_tokens or 0
        self.output_tokens += output_tokens or 0
        self.spent += self._price.of_tokens(prompt_tokens or 0, output_tokens or 0) or 0.0

    def refusal(self, shape: Shape) -> str:
        """Why no further request of this shape may begin; empty if one may."""
        most = self._guards.max_requests
        if most is not None and self.requests >= most:
            return f"{most} requests were sent, as many as --max-requests allows"
        limit = self._guards.max_spend
        if limit is not None and self.spent + self._most(shape) > limit:
            return f"${self.spent:.2f} are spent or promised, and --max-spend is ${limit:.2f}"
        return ""

    def reserve(self, shape: Shape) -> None:
        """A request begins: it is paid for as if it took all it may."""
        self.requests += 1
        self.spent += self._most(shape)

    def settle(self, shape: Shape, sample: Sample) -> None:
        """It ended: what it took, where the server says it; else all stays reserved."""
        self.prompt_tokens += sample.prompt_tokens or 0
        self.output_tokens += sample.output_tokens or len(sample.chunk_at_s)
        if sample.prompt_tokens is None or sample.output_tokens is None:
            return
        took = self._price.of_tokens(sample.prompt_tokens, sample.output_tokens)
        if took is not None:
            self.spent += took - self._most(shape)

    def _most(self, shape: Shape) -> float:
        # why double: until the prompt is counted, a word may be two tokens
        return self._price.of_tokens(2 * shape.prompt_tokens, shape.output_tokens) or 0.0
