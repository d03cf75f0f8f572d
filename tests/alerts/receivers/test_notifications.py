"""What each service is sent: reviewed files, and each service's own limits, whatever the labels."""

import email
import email.policy
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.receivers.body import clean, read
from alerts.receivers.preview import preview
from alerts.receivers.samples import EVENTS, sample
from alerts.receivers.words import words
from tests.alerts.receivers.told import HOSTILE, NOW_S, RECEIVERS, body, hostile

_ENDINGS = {"email": "eml", "apprise": "txt"}
_ENTITY = re.compile(r"&(?!(amp|lt|gt);)")
_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def shown(kind, text):
    return preview(RECEIVERS[kind], json.loads(text), now_s=NOW_S)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("kind", [each for each in RECEIVERS if each != "apprise"])
def test_what_is_sent_is_what_was_reviewed_golden(golden, kind, event):
    text = shown(kind, body(event))

    FITS.get(kind, str)(text)
    golden(f"notifications/{kind}-{event}.{_ENDINGS.get(kind, 'json')}", text)


def texts_of(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)
    elif isinstance(value, str):
        yield value


def fits_pagerduty(text):
    said = json.loads(text)
    assert len(text.encode()) <= 512_000
    assert said.get("event_action", "trigger") in ("trigger", "acknowledge", "resolve")
    payload = said.get("payload")
    if payload is not None:
        assert 0 < len(payload["summary"]) <= 1024
        assert payload["source"]
        assert payload.get("severity", "info") in ("critical", "error", "warning", "info")
    assert all(link["href"].startswith(("http://", "https://")) for link in said.get("links", ()))
    assert not any(_CONTROLS.search(each) for each in texts_of(said))


def fits_slack(text):
    said = json.loads(text)
    assert len(said["blocks"]) <= 50
    assert sum(len(each) for each in texts_of(said["blocks"])) <= 13_000
    assert len(said["text"]) <= 4000
    assert not re.search(r"<(?!!here> )", said["text"])
    for block in said["blocks"]:
        if block["type"] == "header":
            assert len(block["text"]["text"]) <= 150
        for inner in [block.get("text"), *block.get("fields", ())]:
            if inner is not None and inner["type"] == "mrkdwn":
                assert 0 < len(inner["text"]) <= 3000
                assert not _ENTITY.search(inner["text"])
                assert not re.search(r"<(?!!here> )", inner["text"])
        assert len(block.get("fields", ())) <= 10
        assert all(len(each["text"]) <= 2000 for each in block.get("fields", ()))
        for button in block.get("elements", ()):
            assert len(button["url"]) <= 3000
            assert len(button["text"]["text"]) <= 75


def fits_sns(text):
    said = json.loads(text)
    subject = said["Subject"]
    assert subject.isascii()
    assert subject.isprintable()
    assert 0 < len(subject) < 100
    assert subject[0].isalnum()
    attributes = sum(
        len(name) + len("String") + len(each["StringValue"].encode())
        for name, each in said["MessageAttributes"].items()
    )
    assert len(said["Message"].encode()) + attributes <= 262_144
    assert re.fullmatch(r"[A-Za-z0-9-]{1,128}", said["MessageGroupId"])
    assert len(said["MessageDeduplicationId"]) <= 128


def fits_email(text):
    letter = email.message_from_string(text, policy=email.policy.default)
    assert letter["To"] == "oncall@example.com, lead@example.com"
    assert letter["Bcc"] is None
    assert set(letter.keys()) <= {
        *("From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References"),
        *("Auto-Submitted", "X-Auto-Response-Suppress", "Importance"),
        *("MIME-Version", "Content-Type"),
    }
    assert not letter.defects
    assert all(len(line) <= 998 for line in text.splitlines())
    page = letter.get_body(("html",)).get_content()
    assert set(re.findall(r"<([a-z0-9]+)", page)) <= {
        *("html", "head", "meta", "body", "h1", "p", "table", "tr", "th", "td", "a")
    }
    assert all(link.startswith("http") for link in re.findall(r'href="([^"]*)', page))


def fits_alertmanager(text):
    (said,) = json.loads(text)
    names = [*said["labels"], *said["annotations"]]
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) for name in names)
    assert all(said["labels"].values())
    assert said["startsAt"] <= said["endsAt"]
    assert len(text.encode()) <= 100_000


FITS = {
    "pagerduty": fits_pagerduty,
    "slack": fits_slack,
    "sns": fits_sns,
    "email": fits_email,
    "alertmanager": fits_alertmanager,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("kind", FITS)
def test_no_label_breaks_out_of_a_notification(kind, text):
    for event in ("firing", "resolved", "note"):
        FITS[kind](shown(kind, hostile(text, event)))


@given(text=st.text(max_size=300), kind=st.sampled_from(sorted(FITS)))
def test_whatever_the_world_writes_the_limits_hold(text, kind):
    FITS[kind](shown(kind, hostile(text)))


@given(st.text(), st.integers(1, 50))
def test_a_clean_text_is_one_line_of_its_length_that_stays_as_it_is(text, most):
    once = clean(text, most)

    assert len(once) <= most
    assert len(once.splitlines()) <= 1
    assert not _CONTROLS.search(once)
    assert clean(once, most) == once
    once.encode()


@pytest.mark.parametrize("field", [*sample()])
def test_a_body_with_a_strange_field_is_still_told(field):
    for wrong in (None, 7, [], {}, "x", [None], {"x": None}):
        text = json.dumps(sample() | {field: wrong})

        assert words(read(text), RECEIVERS["slack"]).title
        for kind in ("pagerduty", "slack", "alertmanager"):
            FITS[kind](shown(kind, text))


def test_a_body_of_the_first_version_without_the_newer_fields_is_told():
    said = sample()
    for newer in ("labels", "receivers", "diagnosis", "summary", "stale"):
        del said[newer]

    assert "151 of 1000" in words(read(said), RECEIVERS["email"]).text


def test_stage_place_counts_budget_and_link_are_all_said():
    said = words(read(sample()), RECEIVERS["email"])
    text = "\n".join([said.title, *said.lines()])

    for part in ("queue", "decode-3", "151 of 1000", "Budget left: 43 %", "/alerts/chat-ttft-page"):
        assert part in text


def test_the_three_lines_of_a_diagnosis_are_shown_and_no_fourth():
    lines = [f"cause {number}" for number in range(5)]
    said = words(read(sample() | {"diagnosis": lines}), RECEIVERS["email"])

    assert [value for name, value in said.facts if name == "Diagnosis"] == lines[:3]


def test_a_budget_that_is_overspent_is_not_called_left():
    said = words(read(sample() | {"budget_remaining": -0.2}), RECEIVERS["email"])

    assert ("Budget left", "none; overspent by 20 % of it") in said.facts


def test_what_the_webhook_gets_is_the_body_itself():
    assert json.loads(shown("webhook", body())) == sample()
