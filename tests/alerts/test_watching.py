"""How a promise is watched: who is told, when it does not count, and what YAML takes for granted."""

from fractions import Fraction

import pytest

from alerts.definition import Change, Escalation, define, gather, gather_all, load
from alerts.maintenance import Maintenance
from domain.errors import ConfigError

PLAIN = "phrase: p99 ttft <= 1s"
MARCH_S = 1_772_323_200  # 2026-03-01 in UTC


def only(further):
    (found,) = load(f"- {{{PLAIN}, {further}}}", name="f")
    return found


def test_receivers_are_named_and_escalation_takes_its_time():
    said = only(
        "receivers: [pager, chat], escalation: [{after: 15min, receivers: lead}, "
        "{after: 1h, receivers: [lead, boss]}]"
    )

    assert said.receivers == ("pager", "chat")
    assert said.escalation == (
        Escalation(after_s=900, receivers=("lead",)),
        Escalation(after_s=3600, receivers=("lead", "boss")),
    )


def test_maintenance_comes_again_or_once():
    said = only(
        'maintenance: [{name: deploys, cron: "0 2 * * SUN", duration: 1h, zone: Europe/Berlin}, '
        "{name: move, once: 2026-03-01 02:00, duration: 3h, zone: Europe/Berlin, reason: new room}]"
    )

    assert said.maintenance == (
        Maintenance(name="deploys", cron="0 2 * * SUN", duration_s=3600, zone="Europe/Berlin"),
        Maintenance(
            name="move",
            once_at_s=MARCH_S + 3600,
            duration_s=3 * 3600,
            zone="Europe/Berlin",
            reason="new room",
        ),
    )


@pytest.mark.parametrize(
    "written", ["2026-03-01", "2026-03-01T00:00:00Z", "2026-03-01 01:00:00+01:00"]
)
def test_an_instant_may_be_a_day_or_a_minute(written):
    assert only(f"since: {written}").since_s == MARCH_S


def test_a_target_changes_from_an_instant_on():
    said = only("changes: [{since: 2026-03-01, target: 99.5%}, {since: 2026-06-01, target: 99.9%}]")

    assert said.changes[0] == Change(since_s=MARCH_S, target=Fraction(995, 1000))
    assert said.in_force(MARCH_S - 1).objective.target == Fraction(99, 100)
    assert said.in_force(MARCH_S).objective.target == Fraction(995, 1000)
    assert said.in_force(MARCH_S + 10**8).objective.target == Fraction(999, 1000)


def test_the_rest_is_said_in_a_word():
    said = only("clear: 80%, notes: false, labels: {team: chat}, summary: '{{ name }} burns'")

    assert (said.clear, said.notes, said.summary) == (Fraction(4, 5), False, "{{ name }} burns")
    assert said.labels == (("team", "chat"),)


WRONG = [
    ("receivers: []", "names no receiver"),
    ("receivers: [a, a]", "names a receiver twice"),
    ("receivers: no", "'no' is a text here, but YAML also takes it for a bool. Write \"no\""),
    ("escalation: [{after: 0s, receivers: a}]", "is no later than the step before"),
    ("escalation: [{after: 2h, receivers: a}, {after: 1h, receivers: b}]", "no later than"),
    ("escalation: [{receivers: a}]", "'after' is missing"),
    ("escalation: soon", "is no list"),
    ("maintenance: [{name: a, duration: 1h}]", "begins never or in two ways"),
    ('maintenance: [{name: a, cron: "0 2 * *", duration: 1h}]', "has 4 fields"),
    ('maintenance: [{name: a, cron: "0 25 * * *", duration: 1h}]', "is no cron line: Bad hour"),
    (
        'maintenance: [{name: a, cron: "0 0 31 2 *", duration: 1h}]',
        "is no cron line: Bad day-of-month",
    ),
    ('maintenance: [{name: a, cron: "* * * * *", duration: 1min}]', "begins again before it is"),
    ('maintenance: [{name: a, cron: "0 2 * * *", duration: 24h}]', "begins again before it is"),
    ('maintenance: [{name: a, cron: "0 2 1 1 *", duration: 8d}]', "from 1min to 7d"),
    ("maintenance: [{name: a, once: 2026-03-01, duration: 90s}]", "Use whole minutes"),
    ("maintenance: [{name: a, once: soon, duration: 1h}]", "'soon' is no instant"),
    ("maintenance: [{name: a, once: 2026-03-01, duration: 1h, zone: Mars}]", "'Mars' is no zone"),
    ("maintenance: [{name: a, once: 2026-03-01, duration: 1h, when: x}]", "there is no key 'when'"),
    ("since: 2026-13-01", "is no instant"),
    ("since: 2026-03-01T08:00:30Z", "is not on a minute"),
    ("since: 1969-01-01", "is not on a minute"),
    ("changes: [{since: 2026-03-01}]", "'target' is missing"),
    ("changes: [{since: 2026-03-01, target: 100}]", "leaves nothing to measure against"),
    (
        "changes: [{since: 2026-03-01, target: 99%}, {since: 2026-02-01, target: 99%}]",
        "is not in order of time",
    ),
    ("clear: 120%", "leaves nothing to measure against"),
    ("clear: 0", "leaves nothing to measure against"),
    ("notes: 2", "'2' is neither true nor false"),
    ("labels: {'a b': c}", "is no name of a label"),
    ("labels: {a: ''}", "is too short or too long"),
    ("labels: {version: 1.10}", "'1.10' is a text here, but YAML also takes it for a float"),
    ("where: {region: no}", "'where' is in the phrase already"),
    ("min_events: 1e9", "is no count"),
    ("for: 1:30", "'1:30' is no number with a unit"),
    ("for: 400d", "is never"),
    (f"summary: {'x' * 5000}", "is 5000 characters long"),
    ("receiver: pager", "there is no key 'receiver'. Did you mean 'receivers'?"),
]


@pytest.mark.parametrize(("further", "told"), WRONG)
def test_what_cannot_work_is_refused_with_its_place(further, told):
    with pytest.raises(ConfigError) as caught:
        only(further)

    assert told in str(caught.value)
    assert caught.value.where.startswith("f:1:")


def test_a_change_that_nothing_could_watch_is_refused():
    with pytest.raises(ConfigError, match="no rule can ever fire"):
        load("- {phrase: p99 ttft <= 1s over 90d, changes: [{since: 2026-03-01, target: 50%}]}")


@pytest.mark.parametrize("value", ["no", "off", "0x1f", "007", "1:30", "~", "2026-03-01", "1_000"])
def test_a_label_that_yaml_takes_for_something_else_wants_quotes(value):
    plain = f"- {{metric: ttft, threshold: 1s, target: 99%, where: {{region: {value}}}}}"

    with pytest.raises(ConfigError, match="with quotes"):
        load(plain)
    (found,) = load(plain.replace(f": {value}}}", f': "{value}"}}'))
    assert found.objective.indicator.where == (("region", value),)


HOSTILE = [
    ("- &a [*a]", "is an alias"),
    ("- &a p99 ttft <= 1s\n- *a", "f:2:3: is an alias"),
    ("[" * 100_000, "is nested too deeply"),
    ("{a: " * 5000, "nested too deeply"),
    ("- !!python/object/apply:os.system [ls]", "has the tag"),
    ("- {<<: {name: x}}", "there is no key '<<'"),
    ("- p99 ttft <= 1s\n" * 70_000, "is longer than 1 MiB"),
    ("- " + "x" * 5000, "is 5000 characters long"),
    ("--- [a]\n--- [b]", "is not YAML"),
]


@pytest.mark.parametrize(("text", "told"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_file_is_one_clear_error(text, told):
    with pytest.raises(ConfigError) as caught:
        load(text, name="f")

    assert told in str(caught.value)


def test_a_file_of_many_megabytes_is_not_read(tmp_path):
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"#" * (2 << 20))

    with pytest.raises(ConfigError, match="Keep it below 1 MiB"):
        load(path)


def test_a_configuration_may_hold_presets_and_composites():
    promises = gather_all(
        [{"preset": "chat"}, {"name": "all", "all_of": ["chat-ttft", "chat-itl"]}]
    )

    assert [each.id for each in promises.definitions] == ["chat-ttft", "chat-itl"]
    assert [each.id for each in promises.composites] == ["all"]


@pytest.mark.parametrize("said", ["99.9% available", "no silent in 99% of minutes"])
def test_a_configuration_takes_sentences_of_any_kind(said):
    assert len(gather([said])) == 1


def test_a_mistake_in_a_configuration_names_the_entry():
    with pytest.raises(ConfigError) as caught:
        gather(["p99 ttft <= 1s", {"phrase": "p99 itl <= 1s", "notes": "perhaps"}])

    assert caught.value.where == "objectives[1]"


def test_one_objective_of_a_scenario_says_where_it_stands():
    with pytest.raises(ConfigError) as caught:
        define("{phrase: p99 tftt <= 1s}", at="s objective")

    assert caught.value.where == "s objective:1:10"
