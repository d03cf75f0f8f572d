"""Grouping for chat: one message for what begins together, and nobody waits for longer than that."""

from hypothesis import given
from hypothesis import strategies as st

from alerts.grouping import Waiting, grouped

WAITING = st.lists(
    st.tuples(
        st.sampled_from(["firing", "resolved"]), st.sampled_from("ab"), st.floats(0, 100)
    ).map(lambda each: each),
    max_size=30,
).map(
    lambda rows: [
        Waiting(id=place, event=event, about=about, since_s=since_s)
        for place, (event, about, since_s) in enumerate(rows)
    ]
)


@given(WAITING)
def test_each_notification_is_in_one_group_of_its_kind_and_none_waits_longer(waiting):
    by_id = {each.id: each for each in waiting}

    groups = grouped(waiting, window_s=5)

    assert sorted(one for group in groups for one in group.ids) == sorted(by_id)
    for group in groups:
        members = [by_id[one] for one in group.ids]
        assert len({(each.event, each.about) for each in members}) == 1
        assert all(group.due_s <= each.since_s + 5 for each in members)
        assert all(group.due_s >= each.since_s for each in members)
    assert [group.due_s for group in groups] == sorted(group.due_s for group in groups)


def test_two_alerts_within_the_window_make_one_message_and_a_later_one_another():
    waiting = [
        Waiting(id=1, event="firing", about="chat page", since_s=0),
        Waiting(id=2, event="firing", about="chat page", since_s=4),
        Waiting(id=3, event="firing", about="chat page", since_s=60),
        Waiting(id=4, event="firing", about="search page", since_s=1),
        Waiting(id=5, event="resolved", about="chat page", since_s=2),
    ]

    groups = grouped(waiting, window_s=5)

    assert [group.ids for group in groups] == [(1, 2), (4,), (5,), (3,)]
