"""Amazon SNS: a subject for mail, a text for people, and the facts as attributes for filters."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.body import Told, clipped, read
from alerts.receivers.settings import SnsSettings
from alerts.receivers.words import words

if TYPE_CHECKING:
    from botocore.exceptions import ClientError  # type: ignore[import-untyped] # as it comes

__all__ = ["Sns", "publication"]

_SUBJECT, _LARGEST_BYTES, _GROUP = 99, 262_144, 128
_SHOWN = {"–": "-", "—": "-", "…": "...", "×": "x", "≤": "<=", "≥": ">=", "▲": "", "◆": ""}
_REFUSED = frozenset(
    {"InvalidParameter", "InvalidParameterValue", "ParameterValueInvalid", "ValidationError"}
)


class Sns:
    """One topic. boto3 is loaded when the first thing is said."""

    def __init__(self, settings: SnsSettings) -> None:
        self.settings = settings
        self._client: Any = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        """Publishes. A FIFO topic keeps the key for five minutes and says it once."""
        del now_s, receipt
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra

        try:
            if self._client is None:
                self._client = self._connected()
            self._client.publish(**publication(read(body), self.settings, key))
        except ClientError as error:
            return _judged(error)
        except BotoCoreError as error:
            return Attempt(fate=Fate.RETRY, detail=f"no answer: {type(error).__name__}")
        return Attempt(fate=Fate.DELIVERED, detail="published")

    def _connected(self) -> Any:
        import boto3  # type: ignore[import-untyped] # noqa: PLC0415 - heavy, untyped
        from botocore.config import Config  # type: ignore[import-untyped] # noqa: PLC0415 - the same

        patience = self.settings.timeout_s
        config = Config(
            connect_timeout=patience, read_timeout=patience, retries={"total_max_attempts": 1}
        )
        session = boto3.Session(profile_name=self.settings.profile)
        return session.client(
            "sns",
            region_name=self.settings.region,
            endpoint_url=self.settings.endpoint_url,
            config=config,
        )


def publication(told: Told, settings: SnsSettings, key: str) -> dict[str, Any]:
    """The arguments of SNS's Publish."""
    said = words(told, settings)
    facts = {"event": told.event, "severity": told.severity, "objective": told.objective}
    found: dict[str, Any] = {
        "TopicArn": settings.topic_arn,
        "Subject": _subject(said.title),
        "Message": _fitting("\n".join([said.title, "", *said.lines()])),
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value}
            for name, value in facts.items()
            if value
        },
    }
    if settings.topic_arn.endswith(".fifo"):
        group = re.sub(r"[^A-Za-z0-9]", "-", told.dedup_key or told.objective)
        found |= {"MessageGroupId": group[:_GROUP] or "-", "MessageDeduplicationId": key}
    return found


def _subject(title: str) -> str:
    """Printable ASCII, shorter than 100, beginning with a letter or digit."""
    for shown, ascii_form in _SHOWN.items():
        title = title.replace(shown, ascii_form)
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^\x20-\x7e]", "", plain)
    plain = re.sub(r"^[^A-Za-z0-9]+", "", plain)
    return clipped(plain, _SUBJECT - 2).replace("…", "...").strip() or "Stagewatch"


def _fitting(text: str) -> str:
    kept = text.encode()[: _LARGEST_BYTES - 2048]  # why less: attributes count too
    return kept.decode("utf-8", "ignore")


def _judged(error: ClientError) -> Attempt:
    """A parameter that is wrong stays wrong; a right that is missing may be given."""
    code = re.sub(r"[^A-Za-z.]", "", str(error.response.get("Error", {}).get("Code", "")))[:60]
    fate = Fate.REFUSED if code in _REFUSED else Fate.RETRY
    return Attempt(fate=fate, detail=f"SNS says {code or 'no'}")
