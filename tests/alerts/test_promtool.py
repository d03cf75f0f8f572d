"""Our verdicts against Prometheus's own evaluator, on the rules that we export, minute by minute.

Each seed is an objective of its own over random traffic. Only an exact tie may differ: there
Prometheus multiplies floats and ours does not.
"""

import random
import re
import shutil
import subprocess
from fractions import Fraction

import pytest
import yaml

from alerts.evaluate import Reason, judge
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
                objective,
                rule,
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
    """One promtool test over all seeds: two counters each."""
    series = []
    for seed, each in enumerate(slices):
        counts, goods = [0], [0]
        for one in each:
            counts.append(counts[-1] + one.total)
            goods.append(goods[-1] + one.good_low)
        label = f'use_case="seed{seed}"'
        series += [
            {"series": f"ttft_count{{{label}}}", "values": " ".join(map(str, counts))},
            {"series": f'ttft_bucket{{{label},le="1.5"}}', "values": " ".join(map(str, goods))},
        ]
    labels = [{"severity": "page", "objective": f"seed{seed}-ttft"} for seed in range(len(slices))]
    note = [
        {"summary": f"seed{n}-ttft burns its budget too fast in both windows."}
        for n in range(len(slices))
    ]
    return {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": [
            name
            for n in range(len(slices))
            for name in (f"stagewatch-slo-seed{n}-ttft", f"stagewatch-slo-seed{n}-ttft-alerts")
        ],
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [
                    {
                        "alertname": f"SloSeed{seed}TtftPage",
                        "eval_time": f"{at}m",
                        "exp_alerts": [{"exp_labels": labels[seed], "exp_annotations": note[seed]}]
                        if burning
                        else [],
                    }
                    for seed, each in enumerate(expected)
                    for at, (burning, tie) in each.items()
                    if at >= FIRST and not tie
                ],
            }
        ],
    }


def exported(count, *, min_events):
    text = "\n".join(
        f"- {{phrase: 'p99 ttft <= 1.5s over 30d where use_case=seed{seed}', min_events: {min_events}, no_data: off}}"
        for seed in range(count)
    )
    rules = export(chat(text), SOURCE).document
    for group in rules["groups"]:  # why: what pages is asked here; a ticket looks back three days
        group["rules"] = [
            rule
            for rule in group["rules"]
            if rule.get("labels", {}).get("severity") != "ticket"
            and not rule.get("record", "").endswith(("2h", "1d", "3d"))
        ]
    return rules


@pytest.mark.promtool
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus's promtool")
@pytest.mark.parametrize(("count", "definition"), [(SEEDS, DEFINITION), (20, FLOORED)])
def test_every_verdict_is_the_one_that_promtool_gives(tmp_path, count, definition):
    slices = [traffic(seed) for seed in range(count)]
    expected = [verdicts(each, definition.objective) for each in slices]
    rules = exported(count, min_events=definition.objective.min_events)
    (tmp_path / "rules.yml").write_text(yaml.dump(rules, Dumper=yaml.CSafeDumper))
    (tmp_path / "test.yml").write_text(
        yaml.dump(document(slices, expected), Dumper=yaml.CSafeDumper)
    )

    answer = subprocess.run(
        ["promtool", "test", "rules", "test.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    firing = sum(burning for each in expected for burning, _ in each.values())
    assert firing > 50 * count
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
                DEFINITION.objective,
                rule,
                long=history.tally(rule.long_s, history.end_s),
                short=history.tally(rule.short_s, history.end_s),
                observed=each.observed,
            ).reason
            said = {Reason.NOT_OBSERVED: None, Reason.BURNING: True}.get(reason, False)
            assert said == reference(slices, end, rule)
