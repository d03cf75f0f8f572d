"""Strategies for promises of every kind, as a file may hold them."""

from fractions import Fraction

from hypothesis import strategies as st

from alerts.definition import Change, Definition, Escalation
from alerts.maintenance import Maintenance
from alerts.phrase import CALENDAR_S
from alerts.state import Timers
from domain.condition import ConditionKind
from domain.indicator import (
    PER_REQUEST,
    AvailabilityIndicator,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
    counts_minutes,
)
from domain.labels import LABEL_NAMES, labels_of
from domain.metric import COUNTERS, GAUGES, LATENCIES, METRICS, Kind
from domain.objective import Objective, Severity
from domain.period import Calendar, CalendarUnit
from domain.slice import EmptySlice, SlicePolicy

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
texts = st.text(
    st.characters(
        min_codepoint=32,
        max_codepoint=0x2FF,
        exclude_characters="\x7f",
        exclude_categories=("Cc", "Cf", "Zl", "Zp"),
    ),
    min_size=1,
    max_size=12,
)
words = texts.map(str.strip).filter(bool)
targets = st.integers(9500, 9999).map(lambda n: Fraction(n, 10_000))
thresholds = st.one_of(
    st.integers(1, 10**7).map(lambda n: Fraction(n, 1000)),
    st.integers(1, 10**6).map(lambda n: Fraction(n, 10**6)),
)
decimals = st.integers(1, 10**9).map(lambda n: Fraction(n, 1000))
wheres = st.dictionaries(st.sampled_from(LABEL_NAMES), texts, max_size=3).map(labels_of)
minutes = st.integers(1, 60 * 24 * 30).map(lambda n: n * 60)
instants = st.integers(0, 60 * 24 * 365 * 60).map(lambda n: n * 60)


@st.composite
def levels(draw):
    metric = draw(st.sampled_from(GAUGES))
    values = st.integers(0, 1000) if METRICS[metric].kind is Kind.RATIO else st.integers(0, 10**9)
    bounds = sorted(draw(st.tuples(values, values)))
    least, most = (Fraction(value, 1000) for value in bounds)
    sides = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    return LevelIndicator(
        metric=metric, at_least=least if sides[0] else None, at_most=most if sides[1] else None
    )


limits = st.lists(st.sampled_from(PER_REQUEST), unique=True, min_size=1, max_size=4).flatmap(
    lambda names: st.tuples(*(st.tuples(st.just(name), thresholds) for name in names))
)
endpoints = st.builds(
    EndpointIndicator,
    service=st.just("sagemaker"),
    dimensions=st.dictionaries(
        st.sampled_from(("EndpointName", "VariantName")), texts, max_size=2
    ).map(lambda pairs: tuple(sorted(pairs.items()))),
    counts_failures=st.booleans(),
)
indicators = st.one_of(
    st.builds(
        LatencyIndicator, metric=st.sampled_from(LATENCIES), threshold_s=thresholds, where=wheres
    ),
    st.builds(AvailabilityIndicator, where=wheres),
    st.builds(
        GoodputIndicator,
        limits=limits.map(
            lambda pairs: tuple(Limit(metric=name, threshold_s=limit) for name, limit in pairs)
        ),
        where=wheres,
    ),
    st.builds(
        ThroughputIndicator, metric=st.sampled_from(COUNTERS), at_least_per_s=decimals, where=wheres
    ),
    levels(),
    st.builds(
        ConditionIndicator,
        kinds=st.lists(st.sampled_from(ConditionKind), unique=True, min_size=1).map(tuple),
        where=wheres,
    ),
    endpoints,
    st.builds(
        EndpointIndicator,
        service=st.just("bedrock"),
        metric=st.just("ttft"),
        threshold_s=thresholds,
        where=wheres,
    ),
)
policies = st.builds(SlicePolicy, target=targets, empty=st.sampled_from(EmptySlice))
calendars = st.builds(Calendar, unit=st.sampled_from(CalendarUnit), zone=st.sampled_from(ZONES))


@st.composite
def objectives(draw):
    indicator, calendar = draw(indicators), draw(st.none() | calendars)
    days = CALENDAR_S[calendar.unit] // 86_400 if calendar else draw(st.integers(1, 90))
    return Objective(
        name=draw(words.filter(lambda name: any(c in "abcxyz019" for c in name))),
        indicator=indicator,
        target=draw(targets),
        period_s=days * 86_400,
        min_events=draw(st.integers(0, 50)),
        runbook=draw(st.sampled_from(("", "https://wiki.example/a"))),
        slices=None if counts_minutes(indicator) else draw(st.none() | policies),
        calendar=calendar,
    )


receivers = st.lists(st.sampled_from(("pager", "chat", "lead")), unique=True, min_size=1).map(tuple)
windows = st.one_of(
    st.builds(
        Maintenance,
        name=st.just("deploys"),
        duration_s=st.integers(1, 600).map(lambda n: n * 60),
        cron=st.sampled_from(("0 2 * * SUN", "30 1 1 * *", "0 3 * * 1-5")),
        zone=st.sampled_from(ZONES),
        reason=st.sampled_from(("", "weekly deploy")),
    ),
    st.builds(Maintenance, name=st.just("move"), duration_s=st.just(7200), once_at_s=instants),
)
definitions = st.builds(
    Definition,
    objective=objectives(),
    description=st.sampled_from(("", "What users: were promised.")),
    timers=st.builds(Timers, for_s=minutes | st.just(0), keep_firing_s=minutes | st.just(0)),
    no_data_after_s=minutes,
    no_data=st.sampled_from((None, Severity.PAGE, Severity.TICKET)),
    receivers=receivers | st.just(()),
    escalation=st.just(()) | receivers.map(lambda who: (Escalation(after_s=900, receivers=who),)),
    maintenance=st.lists(windows, unique_by=lambda window: window.name, max_size=2).map(tuple),
    clear=targets | st.just(Fraction(1)),
    since_s=st.none() | instants,
    notes=st.booleans(),
    labels=st.dictionaries(st.sampled_from(("team", "tier")), words).map(labels_of),
    summary=st.sampled_from(("", "{{ name }} burns")),
    changes=st.just(()) | st.tuples(st.builds(Change, since_s=instants, target=targets)),
)
