"""Who may send, read and act: one frozen value, every field explained."""

from ipaddress import ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

__all__ = ["AuthSettings", "TokenSettings"]

_Role = Literal["sender", "viewer", "responder", "admin"]


class TokenSettings(BaseModel):
    """A bearer token, and what its bearer may do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        default="token", description="Who acts with it: the author of what is done."
    )
    token: SecretStr = Field(description="The secret itself; never printed.")
    role: _Role = Field(
        default="sender",
        description="`sender` sends, `viewer` reads, `responder` acknowledges, silences and resets "
        "too, `admin` does all.",
    )


class AuthSettings(BaseModel):
    """Who may send, read and act."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: tuple[SecretStr | TokenSettings, ...] = Field(
        default=(),
        description="Bearer tokens: a plain one may send, a mapping says its role. Without one that "
        "may send anyone who can connect may; without one that may act only this machine may.",
    )
    anonymous: Literal["viewer", "nobody"] = Field(
        default="viewer", description="What somebody without a token may do: read, or nothing."
    )
    proxies: tuple[str, ...] = Field(
        default=(),
        description="Addresses or networks of proxies whose word on who somebody is is taken.",
    )
    user_header: str = Field(
        default="X-Forwarded-User",
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="Where such a proxy says who it is; it must drop what clients send there.",
    )
    proxy_role: Literal["viewer", "responder", "admin"] = Field(
        default="responder", description="What those may do whom a proxy has let in."
    )

    @field_validator("proxies")
    @classmethod
    def _networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for each in proxies:
            try:
                ip_network(each, strict=False)
            except ValueError:
                raise ValueError(f"{each!r} is no address and no network") from None
        return proxies

    @model_validator(mode="after")
    def _no_empty_token(self) -> "AuthSettings":
        if not all(each.token.get_secret_value().strip() for each in self.named):
            raise ValueError(
                "a token is empty and would let anyone in; remove it or give it a value"
            )
        secrets = [each.token.get_secret_value() for each in self.named]
        if len(set(secrets)) < len(secrets):
            raise ValueError("two tokens are equal; whose would it be? Change one")
        return self

    @property
    def named(self) -> tuple[TokenSettings, ...]:
        """All tokens, plain ones as what they are: senders."""
        return tuple(
            TokenSettings(token=each) if isinstance(each, SecretStr) else each
            for each in self.tokens
        )

    @property
    def senders(self) -> tuple[SecretStr, ...]:
        """Those that may send."""
        return tuple(each.token for each in self.named if each.role in ("sender", "admin"))
