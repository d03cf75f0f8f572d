"""Our verdicts against Prometheus's own evaluator, on the rules that we export, minute by minute.

Each seed is an objective of its own over random traffic. Only an exact tie may differ: there
Prometheus multiplies floats and ours does not.
"""

import json
import random
import re
import shutil
import subprocess
from fractions import Fraction

import pytest

from alerts.evaluate import Reason, judge, limit_of
from alerts.history import History
from alerts.prometheus_rules import Histogram, Source, export
from domain.slice import tally
from tests.alerts.fleet import START_S, chat, minute

SEEDS = 100
MINUTES = 600
FIRST = 370
DEFINITION = chat("- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, min_events: 0}")[0]
FLOORED = chat("- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, min_events: 10}")[0]
PAGES = [rule for rule in DEFINITION.rules if rule.severity == "page"]
SOURCE = Source(histograms={"ttft": Histogram(name="ttft", edges_s={Fraction(3, 2): "1.5"})})


def traffic(seed):
    chance = random.Random(seed)  # noqa: S311 - traffic, no secret
    counted = []
    while len(counted) < MINUTES:
        length = chance.randint(3, 60)
        total = chance.choice([3, 20, 100, 600, 3000])
        share = chance.choice([0, 0, 0, 0.01, 0.05, 0.1, 0.2, 0.5, 1])
        for _ in range(length):
            bad = min(total, round(total * share * chance.uniform(0.8, 1.2)))
            counted.append((total - bad, total))
    return [minute(index, *each) for index, each in enumerate(counted[:MINUTES])]


def verdicts(slices, objective):
    """For every minute: whether it pages, and whether some window that decides is a tie."""
    history = History(360, START_S)
    found = {}
    for index, each in enumerate(slices, 1):
        history.extend(each)
        judged = [
            judge(
                limit_of(objective, rule),
                long=history.tally(rule.long_s, history.end_s),
                short=history.tally(rule.short_s, history.end_s),
                observed=True,
            )
            for rule in PAGES
        ]
        tie = any(
            w.bad_low == v.rule.factor * objective.budget * w.total
            for v in judged
            for w in (v.long, v.short)
        )
        found[index] = (any(v.reason is Reason.BURNING for v in judged), tie)
    return found


def document(slices, expected):
    """One promtool test over all seeds at once: two counters each. Minutes with a tie are not asked."""
    series = []
    for seed, each in enumerate(slices):
        counts, goods = [0], [0]
        for one in each:
            counts.append(counts[-1] + one.total)
            goods.append(goods[-1] + one.good_low)
        series += [
            {"series": f'ttft_count{{seed="{seed}"}}', "values": " ".join(map(str, counts))},
            {
                "series": f'ttft_bucket{{seed="{seed}",le="1.5"}}',
                "values": " ".join(map(str, goods)),
            },
        ]
    asked = {
        at: [seed for seed, each in enumerate(expected) if each[at][0]]
        for at in range(FIRST, MINUTES + 1)
        if not any(each[at][1] for each in expected)
    }
    summary = "chat burns its budget too fast in both windows."
    return {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": ["stagewatch-slo-chat", "stagewatch-slo-chat-alerts"],
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [
                    {
                        "alertname": "SloChatPage",
                        "eval_time": f"{at}m",
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    "severity": "page",
                                    "objective": "chat",
                                    "seed": str(seed),
                                },
                                "exp_annotations": {"summary": summary},
                            }
                            for seed in paging
                        ],
                    }
                    for at, paging in asked.items()
                ],
            }
        ],
    }


def exported(definition):
    """The rules as exported, over every seed: each sum keeps its seed. Tickets look back 3 days."""
    rules = export([definition], SOURCE).document
    for group in rules["groups"]:
        group["rules"] = [
            {**rule, "expr": rule["expr"].replace("sum(rate(", "sum by (seed) (rate(")}
            for rule in group["rules"]
            if rule.get("labels", {}).get("severity") != "ticket"
            and not rule.get("record", "").endswith(("2h", "1d", "3d"))
            and "absent" not in rule["expr"]
        ]
    return rules


@pytest.mark.promtool
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus's promtool")
@pytest.mark.parametrize(("seeds", "definition"), [(SEEDS, DEFINITION), (20, FLOORED)])
def test_every_verdict_is_the_one_that_promtool_gives(tmp_path, seeds, definition):
    slices = [traffic(seed) for seed in range(seeds)]
    expected = [verdicts(each, definition.objective) for each in slices]
    asked = document(slices, expected)
    (tmp_path / "rules.yml").write_text(json.dumps(exported(definition)))
    (tmp_path / "test.yml").write_text(json.dumps(asked))

    answer = subprocess.run(
        ["promtool", "test", "rules", "test.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    firing = sum(burning for each in expected for burning, _ in each.values())
    assert firing > 50 * seeds
    assert len(asked["tests"][0]["alert_rule_test"]) > 220
    assert not re.findall("alertname:.*", answer.stdout + answer.stderr)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def reference(slices, end, rule):
    """The reference algorithm in its own words: None where nobody was looking."""
    for span_s in (rule.long_s, rule.short_s):
        window = [each for each in slices[max(0, end - span_s // 60) : end] if each.observed]
        if not window:
            return None
        counted = tally(window)
        if not counted.bad_low > rule.factor * Fraction(1, 100) * counted.total:
            return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_with_gaps_in_sight_ours_is_the_reference(seed):
    chance = random.Random(1000 + seed)  # noqa: S311 - traffic, no secret
    slices = [
        minute(index, total=None) if chance.random() < 0.3 else each
        for index, each in enumerate(traffic(seed))
    ]
    history = History(360, START_S)
    for end, each in enumerate(slices, 1):
        history.extend(each)
        for rule in PAGES:
            reason = judge(
                limit_of(DEFINITION.objective, rule),
                long=history.tally(rule.long_s, history.end_s),
                short=history.tally(rule.short_s, history.end_s),
                observed=each.observed,
            ).reason
            said = {Reason.NOT_OBSERVED: None, Reason.BURNING: True}.get(reason, False)
            assert said == reference(slices, end, rule)
