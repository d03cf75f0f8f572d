"""Labels are sorted pairs; an empty one and an absent one are the same."""

from hypothesis import given
from hypothesis import strategies as st

from domain.labels import LABEL_NAMES, labels_of, matches, project, value_of
from tests.strategies import labels

names = st.sampled_from(LABEL_NAMES)


@given(st.dictionaries(names, st.text(max_size=3)), st.randoms())
def test_labels_do_not_depend_on_order(pairs, random):
    shuffled = random.sample(list(pairs.items()), len(pairs))

    assert labels_of(pairs) == labels_of(shuffled)
    assert labels_of(labels_of(pairs)) == labels_of(pairs)


@given(labels, names)
def test_an_empty_label_is_an_absent_one(some, name):
    without = labels_of(pair for pair in some if pair[0] != name)

    assert labels_of([*without, (name, "")]) == without
    assert matches(without, ((name, ""),))
    assert value_of(without, name) == ""


@given(labels, st.lists(names, max_size=3))
def test_labels_match_what_is_projected_from_them(some, by):
    kept = project(some, by)

    assert matches(some, kept)
    assert {name for name, _ in kept} <= set(by)
    assert project(kept, by) == kept


def test_every_pair_must_match():
    own = labels_of({"service": "chat", "replica": "a"})

    assert matches(own, (("service", "chat"), ("replica", "a")))
    assert not matches(own, (("service", "chat"), ("replica", "b")))
    assert not matches(own, (("replica", ""),))
    assert not matches(own, (("model", "llama"),))
    assert matches(own, ())


def test_a_value_is_found_by_its_name():
    assert value_of(labels_of({"service": "chat", "replica": "a"}), "service") == "chat"
