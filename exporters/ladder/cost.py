"""What an endpoint's figures cost: per 10 000 tokens and per 1 000 good requests."""

import math
from dataclasses import dataclass

from domain.errors import ConfigError

__all__ = ["Price"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What is paid: per hour of the endpoint, or per million tokens in and out. None: not known."""

    per_hour: float | None = None
    per_million_input: float | None = None
    per_million_output: float | None = None

    def __post_init__(self) -> None:
        given = (self.per_hour, self.per_million_input, self.per_million_output)
        if any(price is not None and not 0 <= price < math.inf for price in given):
            raise ConfigError("a price is 0 or more", where="--price", remedy="Write 4.5.")
        by_token = self.per_million_input is not None or self.per_million_output is not None
        if self.per_hour is not None and by_token:
            raise ConfigError(
                "a price per hour and a price per token",
                where="--price-per-hour",
                remedy="Give the one that the bill is made of.",
            )
        if by_token and None in (self.per_million_input, self.per_million_output):
            raise ConfigError(
                "tokens in and tokens out each have a price",
                where="--price-input, --price-output",
                remedy="Give both; 0 is a price.",
            )

    @property
    def is_known(self) -> bool:
        return self.per_hour is not None or self.is_per_token

    @property
    def is_per_token(self) -> bool:
        return self.per_million_input is not None

    def of_tokens(self, prompt_tokens: float, output_tokens: float) -> float | None:
        """What so many tokens cost; None without a price per token."""
        if self.per_million_input is None or self.per_million_output is None:
            return None
        cost = prompt_tokens * self.per_million_input + output_tokens * self.per_million_output
        return cost / 1e6

    def per_second(self, prompt_tokens_hz: float | None, output_tokens_hz: float) -> float | None:
        """What running at these rates costs a second; None where it cannot be said."""
        if self.per_hour is not None:
            return self.per_hour / 3600
        return self.of_tokens(prompt_tokens_hz, output_tokens_hz) if prompt_tokens_hz else None
