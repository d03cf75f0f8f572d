"""E-mail, sent to a real SMTP server on loopback."""

import email
import email.policy

import pytest

from alerts.receivers.attempt import Fate
from alerts.receivers.mail import Mail
from alerts.receivers.settings import MailSettings
from tests.alerts.receivers.post_office import PostOffice
from tests.alerts.receivers.told import HOSTILE, KEY, NOW_S, body, hostile
from tests.exporters.probe.certificates import made


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    own = made(tmp_path_factory.mktemp("certificate"))
    return own.file, own.key


def sent(office, text=None, key=KEY, **settings):
    chosen = {"host": "127.0.0.1", "security": "none", "timeout_s": 3} | settings
    mail = Mail(
        MailSettings(
            name="mail",
            type="email",
            port=office.port,
            sender="stagewatch@example.com",
            to=("oncall@example.com", "lead@example.com"),
            **chosen,
        )
    )
    return mail.send(text or body(), key=key, now_s=NOW_S)


def letter(office, place=-1):
    return email.message_from_bytes(office.letters[place][2], policy=email.policy.default)


def test_a_letter_arrives_with_text_and_html():
    with PostOffice() as office:
        attempt = sent(office)

    assert attempt.fate is Fate.DELIVERED
    assert office.letters[0][:2] == (
        "stagewatch@example.com",
        ["oncall@example.com", "lead@example.com"],
    )
    said = letter(office)
    assert said["Subject"] == "Page: chat-ttft, queue on decode-3"
    assert "151 of 1000" in said.get_body(("plain",)).get_content()
    assert "<h1" in said.get_body(("html",)).get_content()


def test_all_letters_of_one_alert_are_one_thread_and_each_has_its_own_id():
    with PostOffice() as office:
        sent(office, body("firing"), key="first")
        sent(office, body("resolved"), key="second")
        sent(office, body("firing", alert_id="another"), key="third")

    first, second, third = (letter(office, place) for place in range(3))
    assert first["In-Reply-To"] == second["In-Reply-To"] != third["In-Reply-To"]
    assert first["References"] == second["References"]
    assert len({each["Message-ID"] for each in (first, second, third)}) == 3


def test_the_same_notification_again_is_the_same_letter_to_the_byte():
    with PostOffice() as office:
        sent(office)
        sent(office)

    assert office.letters[0] == office.letters[1]


def test_a_password_travels_only_inside_tls(certificate):
    login = {"username": "ada", "password": "s3cret", "ca_file": str(certificate[0])}
    with PostOffice(certificate=certificate, users={"ada": "s3cret"}) as office:
        attempt = sent(office, host="localhost", security="starttls", **login)

    assert attempt.fate is Fate.DELIVERED
    assert office.commands.index("STARTTLS") < office.commands.index("AUTH")


def test_tls_from_the_first_byte(certificate):
    with PostOffice(certificate=certificate, tls=True) as office:
        attempt = sent(office, host="localhost", security="tls", ca_file=str(certificate[0]))

    assert attempt.fate is Fate.DELIVERED
    assert "STARTTLS" not in office.commands


def test_a_server_that_nobody_vouches_for_gets_no_letter(certificate):
    with PostOffice(certificate=certificate) as office:
        attempt = sent(office, host="localhost", security="starttls")

    assert attempt.fate is Fate.RETRY
    assert "SSL" in attempt.detail
    assert not office.letters


def test_a_server_without_starttls_gets_no_letter_in_the_clear():
    with PostOffice() as office:
        attempt = sent(office, security="starttls")

    assert attempt.fate is Fate.RETRY
    assert not office.letters


@pytest.mark.parametrize(
    ("order", "fate", "said"),
    [
        (("MAIL", "451 later"), Fate.RETRY, "SMTP 451"),
        (("MAIL", "550 never"), Fate.REFUSED, "SMTP 550"),
        (("DATA", "421 full"), Fate.RETRY, "SMTP 421"),
        (("END", "452 full"), Fate.RETRY, "SMTP 452"),
        (("END", "554 spam"), Fate.REFUSED, "SMTP 554"),
    ],
)
def test_what_an_answer_means(order, fate, said):
    with PostOffice(answers=[order]) as office:
        attempt = sent(office)

    assert (attempt.fate, attempt.detail) == (fate, said)
    assert not office.letters


def test_one_address_that_is_refused_keeps_no_other_from_its_letter():
    with PostOffice(answers=[("RCPT", "550 gone")]) as office:
        attempt = sent(office)

    assert attempt.fate is Fate.DELIVERED
    assert attempt.detail == "taken; 1 of 2 refused"
    assert office.letters[0][1] == ["lead@example.com"]


@pytest.mark.parametrize(("code", "fate"), [("550", Fate.REFUSED), ("450", Fate.RETRY)])
def test_when_no_address_is_taken_it_depends_on_why(code, fate):
    with PostOffice(answers=[("RCPT", f"{code} no")] * 2) as office:
        attempt = sent(office)

    assert attempt.fate is fate


def test_a_wrong_password_is_tried_again_since_it_can_be_put_right(certificate):
    login = {"username": "ada", "password": "wrong", "ca_file": str(certificate[0])}
    with PostOffice(certificate=certificate, users={"ada": "s3cret"}) as office:
        attempt = sent(office, host="localhost", security="starttls", **login)

    assert attempt.fate is Fate.RETRY
    assert "wrong" not in attempt.detail


def test_nobody_there_is_tried_again():
    with PostOffice() as office:
        pass

    assert sent(office).fate is Fate.RETRY


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_adds_a_header_or_an_address(text):
    with PostOffice() as office:
        attempt = sent(office, hostile(text))

    assert attempt.fate is Fate.DELIVERED
    assert office.letters[0][1] == ["oncall@example.com", "lead@example.com"]
    said = letter(office)
    assert said["Bcc"] is None
    assert said["To"] == "oncall@example.com, lead@example.com"
    assert len(said.get_all("Subject")) == 1
