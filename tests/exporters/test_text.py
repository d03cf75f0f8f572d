"""Prometheus text: whatever a page may contain is read as Prometheus reads it, or refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from exporters.engine.failure import ScrapeError
from exporters.engine.text import PageParser
from tests.paths import RECORDED

RECORDINGS = sorted(
    path.relative_to(RECORDED).as_posix()
    for folder in ("vllm", "vllm-disagg", "engines", "cases-engines")
    for path in (RECORDED / folder).rglob("*.prom")
    if path.stat().st_size
    and "jsonescaped" not in path.name
    and "tgi" not in path.name  # prometheus_client writes `_total` behind TGI's counters
)


def everything():
    return PageParser(lambda _: True)


def of(text):
    """Every sample of a page as a plain dictionary."""
    page = everything().parse(text)
    return {
        (series.name, series.labels, series.le): value
        for name in page.names()
        for series, value in page.samples(name)
    }


def one(line):
    ((key, value),) = of(line + "\n").items()
    return *key, value


def by_prometheus_client(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            le = labels.pop("le", None)
            key = (sample.name, tuple(sorted(labels.items())), None if le is None else float(le))
            found[key] = sample.value
    return found


def same(a, b):
    return a.keys() == b.keys() and all(
        a[key] == b[key] or (math.isnan(a[key]) and math.isnan(b[key])) for key in a
    )


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recorded_page_is_read_as_prometheus_client_reads_it(name):
    text = (RECORDED / name).read_text()

    assert same(of(text), by_prometheus_client(text))


@pytest.mark.parametrize("name", ["vllm/overload/98-after.prom", "engines/vllm-0.33.0-agg.prom"])
def test_a_page_is_read_the_same_the_second_time(name):
    parser, text = everything(), (RECORDED / name).read_text()

    first, second = parser.parse(text), parser.parse(text)

    assert {n: first.samples(n) for n in first.names()} == {
        n: second.samples(n) for n in second.names()
    }


label_values = st.text(
    st.one_of(
        st.sampled_from('\\"n{}=, #le+\t'), st.characters(codec="utf-8", exclude_characters="\n\r")
    ),
    max_size=12,
)
numbers = st.one_of(
    st.integers(0, 10**6).map(float), st.floats(), st.sampled_from([math.inf, -math.inf, math.nan])
)


def written(value):
    return {math.inf: "+Inf", -math.inf: "-Inf"}.get(
        value, "NaN" if math.isnan(value) else repr(value)
    )


def escaped(value):
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@st.composite
def lines(draw):
    name = draw(st.sampled_from(["a", "a_bucket", "vllm:b_total", "x:y_count"]))
    labels = draw(
        st.dictionaries(st.sampled_from(["model_name", "engine", "_x"]), label_values, max_size=3)
    )
    pairs = [f'{key}="{escaped(value)}"' for key, value in labels.items()]
    if name == "a_bucket":
        edge = draw(st.sampled_from(["0.5", "2", "2.0", "+Inf", "1e-3"]))
        pairs.insert(draw(st.integers(0, len(pairs))), f'le="{edge}"')
    braces = "{" + ",".join(pairs) + draw(st.sampled_from(["", ","] if pairs else [""])) + "}"
    stamp = draw(st.sampled_from(["", "", " 1795965889561"]))
    gap = draw(st.sampled_from([" ", " ", "  ", "\t"]))
    return f"{name}{braces if pairs else ''}{gap}{written(draw(numbers))}{stamp}"


others = st.sampled_from(
    [
        "",
        "  ",
        "# HELP a what it is {x} 1",
        "# a comment",
        "# TYPE z counter",
        "#",
        "# EOF of a kind",
    ]
)


@given(st.lists(st.one_of(lines(), others), max_size=12))
def test_a_generated_page_is_read_as_prometheus_client_reads_it(page):
    text = "\n".join(page) + "\n"
    parser, expected, contradictory = everything(), {}, set()
    for line in page:
        for key, value in by_prometheus_client(line + "\n").items():
            if not same({key: expected.setdefault(key, value)}, {key: value}):
                contradictory.add(key)

    for _ in range(2):
        if not expected:
            with pytest.raises(ScrapeError):
                parser.parse(text)
            continue
        read = parser.parse(text)
        found = {(s.name, s.labels, s.le): v for n in read.names() for s, v in read.samples(n)}
        assert found.keys() == expected.keys()
        sure = expected.keys() - contradictory
        assert same({k: found[k] for k in sure}, {k: expected[k] for k in sure})
        assert read.suspects == {name for name, _, _ in contradictory}
        assert read.bad_lines == 0


@given(st.text(max_size=300))
def test_no_text_makes_the_parser_fail_in_any_other_way(text):
    parser, reasons = everything(), set()
    for _ in range(2):
        try:
            parser.parse(text)
        except ScrapeError as failure:
            reasons.add(failure.reason)

    assert len(reasons) <= 1


@given(st.integers(0, 100), st.data())
def test_a_page_cut_off_anywhere_loses_samples_and_never_changes_one(number, data):
    text = (RECORDED / RECORDINGS[number % len(RECORDINGS)]).read_text()
    whole = of(text)
    cut = data.draw(st.integers(0, len(text)))

    try:
        torn = of(text[:cut])
    except ScrapeError:
        return

    assert torn.items() <= whole.items() or any(math.isnan(value) for value in whole.values())


def test_escapes_in_label_values_are_undone():
    line = r'a{path="C:\\temp \"x\" {y}=1, z",more="two\nlines"} 1'

    assert one(line) == (
        "a",
        (("more", "two\nlines"), ("path", 'C:\\temp "x" {y}=1, z')),
        None,
        1.0,
    )


@pytest.mark.parametrize("spelling", ['le="2",m="x"', 'm="x",le="2.0"', 'm="x", le="2e0",'])
def test_an_edge_is_a_number_wherever_and_however_it_is_written(spelling):
    assert one(f"a_bucket{{{spelling}}} 7") == ("a_bucket", (("m", "x"),), 2.0, 7.0)


def test_the_same_series_in_two_spellings_is_one_series():
    page = everything().parse('a{x="1",y="2"} 3\na{y="2", x="1"} 3\n')

    assert len(page.samples("a")) == 1
    assert not page.suspects


@pytest.mark.parametrize("seen_before", [False, True])
def test_a_series_that_stands_twice_with_two_values_is_suspect(seen_before):
    parser = everything()
    if seen_before:
        parser.parse('a{x="1"} 3\nb 1\n')

    page = parser.parse('a{x="1"} 3\nb 1\na{x="1"} 4\n')

    assert page.suspects == {"a"}
    assert page.has("b")


def test_a_last_line_without_its_end_is_not_believed():
    page = everything().parse("a 1\nb 14")

    assert page.torn
    assert not page.has("b")


def test_time_stamps_and_exemplars_after_the_value_are_read_over():
    text = 'a 1 1795965889561\nb{x="y z"} 2 -5\nc_bucket{le="1"} 3 # {id="a b"} 0.5 1.5\n'

    assert sorted(of(text).values()) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("end", ["# EOF\n", "# EOF", "# EOF\r", "# EOF\r\n"])
def test_an_openmetrics_end_is_a_comment_with_or_without_its_line_feed(end):
    page = everything().parse("a 1\n" + end)

    assert of("a 1\n" + end) == {("a", (), None): 1.0}
    assert not page.torn
    assert not page.bad_lines


def test_an_end_that_was_cut_off_is_a_page_cut_off():
    assert everything().parse("a 1\n# EO").torn


def test_a_byte_order_mark_is_no_part_of_the_first_line():
    page = everything().parse("\ufeffa 1\nb 2\n")

    assert page.names() == {"a", "b"}
    assert not page.bad_lines


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a{",
        'a{x="1} 2',
        "a one",
        "a 1_000",
        "a 1 2 3",
        "1a 2",
        'a{x="1",x="2"} 1',
        'a{le="x"} 1',
        'a{le="nan"} 1',
        "a{x} 1",
        "{} 1",
        "a 1 now",
    ],
)
def test_a_line_that_is_no_sample_is_counted_and_the_rest_is_read(line):
    page = everything().parse(f"good 1\n{line}\nalso_good 2\n")

    assert page.bad_lines == 1
    assert page.names() == {"good", "also_good"}


def test_a_malformed_line_makes_its_own_name_suspect():
    page = everything().parse('a 1\nb_bucket{le="0.5" 3\n')

    assert page.suspects == {"b_bucket"}


@pytest.mark.parametrize("value", ["1_000", "1e", "0x10", ""])
def test_a_known_series_with_a_value_that_is_none_is_counted(value):
    parser = everything()
    parser.parse("a 1\nb 2\n")

    page = parser.parse(f"a {value}\nb 2\n")

    assert page.bad_lines == 1
    assert page.names() == {"b"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ('"# HELP a b\\n# TYPE a counter\\na 1\\n"', "json_string"),
        ("[]\n", "json"),
        ('{"detail": "Not Found"}\n', "json"),
        ("<!DOCTYPE html>\n<html><body>hello</body></html>\n", "html"),
        ("# HELP a b\n# TYPE a counter\n", "no_samples"),
        ("Unauthorized, please log in\n", "not_prometheus"),
        ("a 1", "not_prometheus"),
    ],
)
def test_a_body_that_is_no_page_is_refused_with_its_reason(body, reason):
    with pytest.raises(ScrapeError) as refused:
        everything().parse(body, where="http://engine/metrics")

    assert refused.value.reason == reason
    assert "http://engine/metrics" in str(refused.value)


def test_a_page_in_quotes_is_refused_in_words_that_say_so():
    text = (RECORDED / "engines" / "llamacpp-b7100-jsonescaped-1.prom").read_text()

    with pytest.raises(ScrapeError, match="looks like a JSON string"):
        everything().parse(text)


def test_only_wanted_samples_are_kept():
    page = PageParser({"a"}.__contains__).parse('a 1\nb 2\nb{x="y"} 3\n')

    assert page.names() == {"a"}


def test_types_are_read():
    page = everything().parse("# TYPE a counter\na 1\n# TYPE b  histogram\n")

    assert page.types == {"a": "counter", "b": "histogram"}


def test_a_page_of_ever_new_series_does_not_fill_the_memory():
    parser = everything()
    for number in range(40):
        parser.parse("".join(f'a{{x="{number}-{each}"}} 1\n' for each in range(1000)))

    assert len(parser._slot_of_text) < 15_000


def test_a_page_keeps_its_samples_when_the_parser_forgets():
    parser = everything()
    page = parser.parse("a 1\n")
    parser._forget()
    parser.parse("b 2\nc 3\n")

    assert [(series.name, value) for series, value in page.samples("a")] == [("a", 1.0)]


@pytest.mark.parametrize("line", ["a{" + " " * 50_000, 'a{x="' + "\\" * 50_001, "a" * 50_000 + "{"])
def test_a_hostile_line_costs_no_more_than_its_length(line):
    assert everything().parse(f"good 1\n{line}\n").bad_lines == 1
