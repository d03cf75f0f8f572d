"""E-mail: one thread for each alert, as plain text and as HTML, by STARTTLS or TLS."""

from __future__ import annotations

import hashlib
import html
import re
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.body import Told, read
from alerts.receivers.settings import MailSettings
from alerts.receivers.words import Words, words

__all__ = ["Mail", "letter"]

_SUBJECT = 200
_MENDED = frozenset({530, 534, 535})
"""Answers to a login: a password can be put right while a notification waits."""


class Mail:
    """One list of addresses behind one SMTP server; a connection for each letter."""

    def __init__(self, settings: MailSettings) -> None:
        self.settings = settings

    def close(self) -> None:
        """Nothing stays open."""

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        """One letter to all. The same Message-ID each time, so that it is seen once."""
        del receipt
        said = letter(read(body), self.settings, key=key, now_s=now_s)
        try:
            with self._server() as server:
                refused = server.send_message(said)
        except smtplib.SMTPResponseException as error:
            return _judged(error)
        except smtplib.SMTPRecipientsRefused as error:
            return _nobody(error)
        except (smtplib.SMTPException, OSError) as error:
            return Attempt(fate=Fate.RETRY, detail=f"no answer: {type(error).__name__}")
        some = f"; {len(refused)} of {len(self.settings.to)} refused" if refused else ""
        return Attempt(fate=Fate.DELIVERED, detail=f"taken{some}")

    @contextmanager
    def _server(self) -> Iterator[smtplib.SMTP]:
        chosen = self.settings
        if chosen.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                chosen.host, chosen.port, timeout=chosen.timeout_s, context=self._trust()
            )
        else:
            server = smtplib.SMTP(chosen.host, chosen.port, timeout=chosen.timeout_s)
        with server:
            if chosen.security == "starttls":
                server.starttls(context=self._trust())
            if chosen.password is not None:
                server.login(chosen.username, chosen.password.get_secret_value())
            yield server

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.settings.ca_file)


def letter(told: Told, settings: MailSettings, *, key: str, now_s: float) -> EmailMessage:
    """The letter. All letters of one alert answer the same first one, which need not exist."""
    said = words(told, settings)
    thread = _message_id(told.alert_id or told.dedup_key, settings)
    found = EmailMessage(policy=SMTP.clone(max_line_length=76))
    found["From"] = settings.sender
    found["To"] = ", ".join(settings.to)
    found["Subject"] = said.title[:_SUBJECT]
    found["Date"] = format_datetime(datetime.fromtimestamp(int(now_s), UTC))
    found["Message-ID"] = _message_id(key, settings)
    found["In-Reply-To"] = thread
    found["References"] = thread
    found["Auto-Submitted"] = "auto-generated"
    found["X-Auto-Response-Suppress"] = "All"
    if told.severity == "page" and not told.over:
        found["Importance"] = "high"
    found.set_content("\n".join(said.lines()) + "\n", cte="quoted-printable")
    found.add_alternative(_page(said), subtype="html", cte="quoted-printable")
    # why: a boundary drawn by lot would make each attempt another letter
    found.set_boundary(f"=_{hashlib.sha256(key.encode()).hexdigest()[:32]}")
    return found


def _message_id(identity: str, settings: MailSettings) -> str:
    domain = re.sub(r"[^A-Za-z0-9.-]", "", settings.sender.rpartition("@")[2]) or "stagewatch"
    return f"<{hashlib.sha256(identity.encode()).hexdigest()[:32]}@{domain}>"


def _page(said: Words) -> str:
    """Readable on a phone, light or dark; nothing is loaded from anywhere."""
    rows = "".join(
        '<tr><th style="text-align:left;vertical-align:top;padding:2px 12px 2px 0;font-weight:600">'
        f'{html.escape(name)}</th><td style="padding:2px 0">{html.escape(value)}</td></tr>\n'
        for name, value in said.facts
    )
    links = " · ".join(
        f'<a href="{html.escape(address)}">{html.escape(text)}</a>' for address, text in said.links
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"></head>\n'
        '<body style="font:16px/1.45 system-ui,sans-serif;max-width:40em">\n'
        f'<h1 style="font-size:1.15em">{html.escape(said.title)}</h1>\n'
        f"<p>{html.escape(said.text)}</p>\n"
        f'<table style="border-collapse:collapse">\n{rows}</table>\n<p>{links}</p>\n</body></html>\n'
    )


def _judged(error: smtplib.SMTPResponseException) -> Attempt:
    """5xx is for ever, but not for a login; 4xx passes."""
    code = error.smtp_code
    for_ever = 500 <= code < 600 and code not in _MENDED
    return Attempt(fate=Fate.REFUSED if for_ever else Fate.RETRY, detail=f"SMTP {code}")


def _nobody(error: smtplib.SMTPRecipientsRefused) -> Attempt:
    codes = sorted({code for code, _ in error.recipients.values()})
    fate = Fate.REFUSED if all(500 <= code < 600 for code in codes) else Fate.RETRY
    return Attempt(fate=fate, detail=f"no address is taken: SMTP {', '.join(map(str, codes))}")
