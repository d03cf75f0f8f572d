"""Scrapes out of remote-write: whatever the way they came, the totals are those of the engine."""

import contextlib
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.intake import Overloaded
from collector.native_histogram import NativeHistogram
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from domain.errors import StoreError
from stagewatch.prometheus.keeping import Keeper
from tests.collector import storing
from tests.stagewatch.prometheus_world import (
    BEGIN_MS,
    STEP_MS,
    Clock,
    Told,
    World,
    scrape_of,
    totals,
)


def written(world, finished, number, **scrape):
    world.write(BEGIN_MS + number * STEP_MS, scrape_of(finished, **scrape))


def begun(**settings):
    """A world that has counted from 100 requests on; the next scrape is number 3."""
    world = World(**settings)
    for number in range(3):
        written(world, 100, number)
    world.wait(15)
    return world


def ended(world, finished, number, **scrape):
    """Three quiet scrapes, so that whatever was waited for is there."""
    for more in range(3):
        written(world, finished, number + more, **scrape)
        world.wait(400)
    return totals(world.told)


def same(n):
    return dict.fromkeys(("tokens", "started", "ttft", "e2e"), n)


def test_what_grew_between_two_scrapes_is_counted():
    world = begun()
    written(world, 107, 3)
    world.wait(0.1)

    assert totals(world.told) == same(7)


def test_a_scrape_is_read_at_once_when_every_series_has_spoken():
    world = begun()
    samples = scrape_of(107)
    world.write(BEGIN_MS + 3 * STEP_MS, samples[:-1])
    world.wait(0.1)
    before = totals(world.told)
    world.write(BEGIN_MS + 3 * STEP_MS, samples[-1:])
    world.wait(0.1)

    assert before == same(0)
    assert totals(world.told) == same(7)


@st.composite
def deliveries(draw):
    """Scrapes split over queues, each in order, in any interleaving; some batches come again."""
    grown = draw(st.lists(st.integers(0, 50), min_size=1, max_size=6))
    queues = draw(st.integers(1, 4))
    queue_of = draw(st.lists(st.integers(0, queues - 1), min_size=14, max_size=14))
    newcomer_at = draw(st.integers(0, len(grown)))
    finished, later, batches = 100, 0, [[] for _ in range(queues)]
    for number, more in enumerate(grown, start=3):
        finished += more
        samples = scrape_of(finished)
        if number - 3 >= newcomer_at:
            later += more
            samples += [s for s in scrape_of(later, model="new") if s not in samples]
        for queue in range(queues):
            part = [s for i, s in enumerate(samples) if queue_of[i % 14] == queue]
            cut = draw(st.integers(0, len(part)))
            batches[queue] += [(number, each) for each in (part[:cut], part[cut:]) if each]
    order = draw(st.permutations([q for q in range(queues) for _ in batches[q]]))
    waits = draw(st.lists(st.sampled_from([0.0, 1.0, 11.0, 61.0]), min_size=len(order) or 1))
    again = draw(st.lists(st.booleans(), min_size=len(order), max_size=len(order)))
    return finished, later, batches, order, waits, again, len(grown) + 3


@given(deliveries())
@settings(deadline=None)
def test_any_split_any_interleaving_and_any_repetition_give_the_same_totals(delivery):
    finished, later, batches, order, waits, again, number = delivery
    world = begun()
    left, seen = [list(each) for each in batches], []
    for place, queue in enumerate(order):
        batch = left[queue].pop(0)
        seen.append(batch)
        for scrape, samples in [batch, *(seen[: len(seen) // 2 + 1] if again[place] else [])]:
            world.write(BEGIN_MS + scrape * STEP_MS, samples)
        world.wait(waits[place % len(waits)])
    if later:
        for more in range(3):
            world.write(BEGIN_MS + (number + more) * STEP_MS, scrape_of(later, model="new")[1:])
    found = ended(world, finished, number)

    assert found == same(finished - 100 + later)


@given(st.integers(0, 13), st.integers(0, 13), st.sampled_from([0.0, 12.0, 70.0]))
@settings(deadline=None)
def test_a_part_of_the_first_scrape_that_comes_late_is_no_growth(cut, second_cut, wait_s):
    world = World()
    first, second = scrape_of(1000), scrape_of(1003)
    world.write(BEGIN_MS, first[:cut])
    world.write(BEGIN_MS + STEP_MS, second[:second_cut])
    world.wait(wait_s)
    world.write(BEGIN_MS, first[cut:])
    world.write(BEGIN_MS + STEP_MS, second[second_cut:])
    world.wait(wait_s)
    found = ended(world, 1005, 2)

    assert all(n <= 5 for n in found.values())
    assert found["tokens"] in (0, 2, 5)


def test_a_sample_sent_again_changes_nothing():
    world = begun()
    for _ in range(3):
        written(world, 107, 3)
        world.wait(1)
        written(world, 104, 2)

    assert totals(world.told) == same(7)
    assert world.counts()["late_samples"] > 0


def test_a_target_that_does_not_answer_is_down_at_once_and_its_growth_is_told_when_it_is_back():
    world = begun()
    ended_series = [(labels, None) for labels, _ in scrape_of(100)[1:]]
    world.write(BEGIN_MS + 3 * STEP_MS, ended_series + scrape_of(0, up=0.0))
    world.wait(0.1)
    told_down = world.told.levels("stagewatch_up")[-1]
    found = ended(world, 112, 4)

    assert told_down == 0.0
    assert world.told.levels("stagewatch_up")[-1] == 1.0
    assert world.told.total("stagewatch_failed_scrapes_total", reason="target_down") == 1
    assert found == same(12)
    assert world.told.total("stagewatch_schema_drift_total") == 0


def test_a_restarted_engine_counts_from_zero():
    world = begun()
    found = ended(world, 5, 3)

    assert found == same(5)
    assert world.told.total("stagewatch_counter_resets_total") == 1


def test_a_series_that_nobody_ended_holds_up_its_target_only_for_a_while():
    world = begun()
    for number in range(3, 40):
        world.write(BEGIN_MS + number * STEP_MS, scrape_of(100 + number)[:-1])
        world.wait(15)

    assert totals(world.told)["tokens"] > 30
    assert world.counts()["partial_scrapes"] > 0


TWINS = {"prometheus_replica": "a"}, {"prometheus_replica": "b"}


@given(st.integers(0, 14_999), st.lists(st.booleans(), min_size=4, max_size=12), st.booleans())
@settings(deadline=None)
def test_of_two_prometheuses_one_is_believed_and_nothing_is_counted_twice(offset, firsts, twin):
    world, number = World(), 0
    for number, first in enumerate([True, True, True, *firsts]):
        order = TWINS if first else TWINS[::-1]
        for sender in order:
            late_ms = offset if sender is TWINS[1] else 0
            at_ms = BEGIN_MS + number * STEP_MS + late_ms
            world.write(at_ms, scrape_of(100 + 3 * number, **sender))
        world.wait(15)
    survivor = TWINS[twin]
    for more in range(1, 9):
        at_ms = BEGIN_MS + (number + more) * STEP_MS + (offset if twin else 0)
        world.write(at_ms, scrape_of(100 + 3 * (number + more), **survivor))
        world.wait(15)
    begin = world.told.exports[0]
    first_ms = begin.resource_metrics[0].scope_metrics[0].metrics[-1].gauge.data_points
    found = totals(world.told)

    assert first_ms
    assert found["tokens"] in (3 * (number + 8), 3 * (number + 7), 3 * (number + 6))
    assert world.counts()["failovers"] <= 1
    assert world.counts()["twin_scrapes"] > 0


def test_what_a_target_is_called_follows_the_settings():
    world = begun(
        services={"vllm-prod": "chat"},
        roles={"vllm-prod": "both"},
        labels={"region": "region", "gpu": "pool"},
    )
    told = {"job": "vllm-prod", "region": "eu", "gpu": "h200", "team": "x", "cluster": "c1"}
    for number in range(3):
        written(world, 10 * number, number, **told)
    world.wait(15)
    ours = {
        "service": "chat",
        "replica": "c1/10.0.0.1:8000",
        "role": "both",
        "region": "eu",
        "pool": "h200",
        "model": "llama",
    }

    assert world.told.total("stagewatch_generation_tokens_total", **ours) == 200


def test_a_label_that_is_given_to_a_target_later_makes_no_growth_of_what_it_counted_before():
    world = begun()
    ends = [(labels, None) for labels, _ in scrape_of(100)]
    world.write(BEGIN_MS + 3 * STEP_MS, ends)
    found = ended(world, 103, 3, team="x", pool="blue")

    assert found == same(3)
    assert totals(world.told, pool="blue") == same(3)


def test_what_no_target_told_is_left_alone():
    world = World()
    world.write(BEGIN_MS, [((("__name__", "vllm:generation_tokens_total"),), 5.0)])

    assert world.counts()["series_of_no_target"] == 1
    assert world.counts()["targets"] == 0


def test_a_target_that_is_no_engine_is_not_remembered():
    world = World()
    world.write(BEGIN_MS, [((("__name__", "up"), ("instance", "n:9100"), ("job", "node")), 1.0)])

    assert world.counts()["targets"] == 0


def test_an_engine_that_was_named_is_known_to_be_down_though_it_never_answered():
    world = World(services={"chat": "chat"})
    world.write(BEGIN_MS, scrape_of(0, up=0.0))
    world.wait(1)

    assert world.told.levels("stagewatch_up") == [0.0]


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        ({"max_targets": 1}, "refused_max_targets"),
        ({"max_series": 20}, "refused_max_series"),
        ({"max_series_per_target": 5}, "refused_max_series_per_target"),
    ],
)
def test_beyond_every_bound_series_are_refused_counted_and_named(bound, reason, caplog):
    world = World(**bound)
    for instance in ("a:1", "b:1", "c:1"):
        world.write(BEGIN_MS, scrape_of(1, instance=instance))

    assert world.counts()[reason] > 0
    assert "instance=" in caplog.text
    assert reason.removeprefix("refused_") in caplog.text


def test_a_time_ahead_of_our_clock_is_refused():
    world = begun()
    world.write(BEGIN_MS + 10**9 + 300_001, scrape_of(107))
    world.write(-5, scrape_of(107))
    found = ended(world, 107, 3)

    assert world.counts()["refused_future"] == 2 * len(scrape_of(1))
    assert found == same(7)


def test_while_the_store_is_stuck_samples_wait_and_then_are_refused_for_a_while():
    world = begun(max_series=20)
    world.told.error = Overloaded(0.0)
    taken = 0
    with contextlib.suppress(Overloaded):
        for taken in range(17):
            written(world, 107, 3 + taken)
    world.told.error = None
    world.wait(1)
    found = ended(world, 107, 30)

    assert 0 < taken < 16
    assert found == same(7)


def test_a_fault_of_the_store_loses_nothing():
    world = begun()
    world.told.error = StoreError("disk full", where="store", remedy="Make room.")
    written(world, 104, 3)
    target = next(iter(world.receiver._targets))
    flow = next(iter(target.flows.values()))
    with pytest.raises(AssertionError):
        assert totals(world.told) == same(4)
    world.told.error = None
    world.wait(1)

    assert flow.waiting == 0
    assert totals(world.told) == same(4)


def test_a_silent_target_is_forgotten_and_begins_anew():
    world = begun()
    world.wait(3700)
    world.wait(61)
    gone = world.counts()
    found = ended(world, 500, 300)

    assert (gone["targets"], gone["held_series"], gone["forgotten_targets"]) == (0, 0, 1)
    assert found == same(0)
    assert world.counts()["begun_targets"] == 2


def native(n):
    return NativeHistogram(
        schema=3,
        count=n,
        sum=n * 0.5,
        zero_threshold=1e-9,
        zero_count=0,
        buckets=((-8, n),) if n else (),
        negative_count=0,
    )


def with_native(finished, *, classic_too):
    samples = scrape_of(finished)
    if not classic_too:
        samples = [s for s in samples if "vllm:e2e" not in dict(s[0])["__name__"]]
    labels = {**dict(scrape_of(1)[-2][0]), "__name__": "vllm:e2e_request_latency_seconds"}
    return [*samples, (tuple(sorted(labels.items())), native(finished))]


@pytest.mark.parametrize("classic_too", [False, True])
def test_a_native_histogram_is_its_family_once(classic_too):
    world = World()
    for number, finished in enumerate((100, 100, 100, 104, 109)):
        world.write(BEGIN_MS + number * STEP_MS, with_native(finished, classic_too=classic_too))
        world.wait(15)

    assert totals(world.told) == same(9)
    assert world.told.total("stagewatch_refused_sums_total") == 0


def test_a_restart_goes_on_where_it_ended_and_loses_and_doubles_nothing(tmp_path):
    clock, told = Clock(), Told()
    first = World(keeper=Keeper(tmp_path), told=told, clock=clock)
    for number in range(3):
        written(first, 100, number)
    first.wait(15)
    written(first, 104, 3)
    first.wait(1)
    written(first, 106, 4)  # taken, and lost with the process
    second = World(keeper=Keeper(tmp_path), told=told, clock=clock)
    found = ended(second, 109, 5)

    # the last interval is told again with the same bounds: the store knows it
    assert found == same(4 + 4 + 5)
    assert second.counts()["begun_targets"] == 0


def test_a_restart_in_a_real_store_counts_everything_once(tmp_path):
    store = open_store(tmp_path / "store")
    with Writer(store, CollectorSettings(), now=lambda: BEGIN_MS / 1000 + 100) as writer:
        for begin, end in ((0, 6), (5, 9), (8, 14)):
            world = World(keeper=Keeper(tmp_path / "kept"), told=writer)
            for number in range(begin, end):
                written(world, 100 + 2 * number, number)
                world.wait(15)
        counts = writer.counts()
        writer.settle()
    store.close()

    assert counts["duplicate_points_total"] > 0
    assert storing.number(tmp_path / "store", "generation_tokens")[1] == 10 * 2 * (13 - 1)


def test_a_scrape_that_is_kept_wrongly_is_not_believed(tmp_path, caplog):
    first = World(keeper=Keeper(tmp_path))
    for number in range(4):
        written(first, 100, number)
        first.wait(15)
    (path,) = tmp_path.glob("*.scrapes")
    path.write_bytes(b"torn")
    second = World(keeper=Keeper(tmp_path))
    found = ended(second, 200, 5)

    assert found == same(0)
    assert "is not believed" in caplog.text


def test_what_is_kept_of_targets_long_gone_is_removed(tmp_path):
    keeper = Keeper(tmp_path)
    keeper.keep((("job", "old"),), [], {})
    keeper.keep((("job", "new"),), [], {})
    old = min(tmp_path.iterdir(), key=lambda path: path.name)
    os.utime(old, (1000, 1000))

    keeper.forget(2000)

    assert old not in list(tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 1
