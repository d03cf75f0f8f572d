"""One request is never counted twice, whoever else saw it."""

from collector.precedence import Precedence, contested
from domain.labels import labels_of

SPAN, PAGE, CLIENT, OTHER, FRONTEND = 1, 2, 3, 4, 5
LABELS = {
    SPAN: labels_of({"service": "chat", "source": "span"}),
    PAGE: labels_of({"service": "chat", "source": "page"}),
    CLIENT: labels_of({"service": "chat", "source": "client"}),
    OTHER: labels_of({"service": "batch", "source": "page"}),
    FRONTEND: labels_of({"service": "chat", "source": "frontend"}),
}
T = 1_795_966_020


def judge(*held):
    return Precedence(contested(LABELS), held)


def test_a_service_with_one_source_is_not_contested():
    assert contested({PAGE: LABELS[PAGE], OTHER: LABELS[OTHER]}) == {}


def test_two_replicas_of_one_source_do_not_contest_each_other():
    twins = {n: labels_of({"service": "chat", "source": "span", "replica": str(n)}) for n in (1, 2)}

    assert contested(twins) == {}


def test_a_source_we_do_not_know_comes_last():
    found = contested({**LABELS, 6: labels_of({"service": "chat"})})

    assert found[6][1] > found[CLIENT][1] > found[PAGE][1] > found[SPAN][1]


def test_spans_are_always_believed():
    assert judge((10, T, SPAN), (10, T, PAGE)).believes(10, T, SPAN)


def test_the_page_gives_way_to_spans_of_the_same_time():
    assert not judge((10, T, SPAN)).believes(10, T, PAGE)


def test_the_page_gives_way_to_spans_within_a_minute_on_either_side():
    assert not judge((10, T - 60, SPAN)).believes(10, T, PAGE)
    assert not judge((10, T + 60, SPAN)).believes(10, T, PAGE)


def test_the_page_answers_where_spans_are_further_away():
    assert judge((10, T - 70, SPAN)).believes(10, T, PAGE)
    assert judge((10, T + 70, SPAN)).believes(10, T, PAGE)


def test_a_minute_of_spans_speaks_for_all_its_seconds_and_a_minute_around():
    minute = judge((60, T, SPAN))

    assert not minute.believes(10, T + 110, PAGE)
    assert minute.believes(10, T + 120, PAGE)
    assert not minute.believes(60, T - 60, PAGE)
    assert minute.believes(60, T - 120, PAGE)


def test_an_hour_of_spans_speaks_for_that_hour_only():
    hour = judge((3600, T, SPAN))

    assert not hour.believes(3600, T, PAGE)
    assert hour.believes(3600, T + 3600, PAGE)
    assert hour.believes(60, T, PAGE)


def test_the_client_gives_way_to_any_server():
    assert not judge((10, T, PAGE)).believes(10, T, CLIENT)
    assert judge().believes(10, T, CLIENT)


def test_another_service_is_not_concerned():
    assert judge((10, T, SPAN)).believes(10, T, OTHER)


def test_a_frontend_stands_between_spans_and_pages():
    assert not judge((10, T, SPAN)).believes(10, T, FRONTEND)
    assert not judge((10, T, FRONTEND)).believes(10, T, PAGE)
    assert judge((10, T, PAGE)).believes(10, T, FRONTEND)


def test_a_question_about_replicas_looks_behind_the_frontend():
    apart = Precedence(contested(LABELS, apart=True), [(10, T, FRONTEND)])

    assert apart.believes(10, T, PAGE)
    assert apart.believes(10, T, FRONTEND)
    assert not Precedence(contested(LABELS, apart=True), [(10, T, SPAN)]).believes(10, T, PAGE)
