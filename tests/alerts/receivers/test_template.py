"""Templates: what they may say, and that none can hang, swell or reach what is not theirs."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.receivers.body import names, read
from alerts.receivers.proof import prove
from alerts.receivers.samples import sample
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.template import LONGEST, OUTPUT, rendered
from alerts.receivers.words import own_summary, words
from domain.errors import ConfigError


def values(kind="firing", **changes):
    return read(sample(kind) | changes).values()


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ objective }} is {{ event }}", "chat-ttft is firing"),
        ("{{ budget_remaining | percent }} left", "43 % left"),
        ("{{ counts.long.bad }} of {{ counts.long.total }}", "151 of 1000"),
        ("{{ labels.team | upper }}", "INFERENCE"),
        ("{{ labels.nobody | default('no team') }}", "no team"),
        ("{% if place.replica %}on {{ place.replica }}{% endif %}", "on decode-3"),
        ("{% for line in why %}{{ loop.index }}. {{ line }} {% endfor %}", "1. last 1 h: 151"),
        ("{{ counts.short.window_s | seconds }}", "5 min"),
        ("{{ links.runbook }}", "https://wiki.example/runbooks/chat-ttft"),
        ("{{ not_measured | join(', ') }}", "network"),
    ],
)
def test_a_template_says_what_the_notification_holds(template, said):
    prove(template, where="test")

    assert rendered(template, values()).startswith(said)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ objektive }}", "asks for 'objektive'"),
        ("{% if false %}{{ nowhere }}{% endif %}", "asks for 'nowhere'"),
        ("{{ links.runbok }}", "links.runbok"),
        ("{{ counts.longer.bad }}", "counts.longer"),
        ("{{ objective", "cannot be read"),
        ("{{ objective | shout }}", "shout"),
        ("{{ budget_remaining * 100 }}", "'no-data'|'condition'|'resolved'|'note'|'test'"),
        ("x" * (LONGEST + 1), "characters"),
    ],
)
def test_what_a_template_asks_for_in_vain_is_one_clear_error_with_the_way_out(template, said):
    with pytest.raises(ConfigError, match=said) as error:
        prove(template, where="receiver pager")

    assert error.value.where == "receiver pager"
    assert error.value.remedy


@pytest.mark.parametrize(
    "bomb",
    [
        "{{ range(100000000) | list }}",
        "{% for a in text %}{% for b in text %}{% for c in text %}x{% endfor %}{% endfor %}{% endfor %}",
        "{{ 'a' * 1000000000 }}",
        "{{ 10 ** 10 ** 10 }}",
        "{% set a = 'xxxxxxxx' %}{% set a = a ~ a %}",
        "{{ 'a' ~ text }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ text.center(1000000000) }}",
        "{{ text | center(1000000000) }}",
        "{{ text | replace('a', text) }}",
        "{{ text | wordwrap(1) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ objective.__class__ }}{{ objective.__init__.__globals__ }}",
        "{{ self }}{{ self._TemplateReference__context }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ lipsum(n=10000) }}",
        "{% for x in why recursive %}{{ loop(why) }}{% endfor %}",
        "{% raw %}" + "{{" * 2000,
    ],
)
def test_a_template_that_would_hang_swell_or_escape_is_refused_at_once(bomb):
    began_s = time.process_time()

    try:
        prove(bomb, where="test")
        said = rendered(bomb, values())
    except ConfigError:
        said = ""

    assert time.process_time() - began_s < 1
    assert len(said) <= OUTPUT + 1
    assert "class" not in said
    assert "globals" not in said


@given(st.text(alphabet="{}%|.'()[] abex*+~_0123456789\n", max_size=60))
def test_no_template_at_all_does_harm(source):
    began_s = time.process_time()

    try:
        prove(source, where="test")
    except ConfigError:
        return

    assert len(rendered(source, values())) <= OUTPUT + 1
    assert time.process_time() - began_s < 1


def test_what_grows_beyond_its_size_is_cut_with_a_mark():
    said = rendered("{% for c in text %}" + "x" * 900 + "{% endfor %}", values())

    assert len(said) == OUTPUT + 1 or said.endswith("…")
    assert len(said) <= OUTPUT + 1


def test_a_receivers_title_and_text_stand_in_the_place_of_ours():
    hook = WebhookSettings(
        name="x", url="https://a.example", title="{{ severity }}!", text="{{ labels.team }}"
    )
    said = words(read(sample()), hook)

    assert (said.title, said.text) == ("page!", "inference")


@pytest.mark.parametrize("field", ["title", "text"])
def test_a_wrong_template_is_refused_with_the_settings(field):
    with pytest.raises(ValueError, match=r"asks for 'objektive'.*Known here: .*objective"):
        WebhookSettings(name="x", url="https://a.example", **{field: "{{ objektive }}"})


def test_a_promises_summary_is_made_when_the_notification_is():
    summary = "{{ labels.team }}: {{ budget_remaining | percent }} of the budget is left."

    assert own_summary(summary, sample()) == "inference: 43 % of the budget is left."
    assert own_summary("", sample()) == ""


def test_a_template_that_fails_only_now_does_not_keep_the_page_from_being_told():
    hook = WebhookSettings(name="x", url="https://a.example").model_copy(
        update={"text": "{{ labels.team * 2 }}"}
    )

    assert words(read(sample()), hook).text.startswith("Page: chat-ttft, queue on decode-3 (the")


def test_every_name_that_a_template_may_ask_for_is_there_in_each_kind():
    for kind in ("firing", "no-data", "test"):
        assert set(values(kind)) == set(names())
