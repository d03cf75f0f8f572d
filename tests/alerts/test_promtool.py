"""Our verdicts against Prometheus's own evaluator, minute by minute, on random traffic.

The rules are the textbook's multi-window rules for 99 % within 1.5 s. Only an exact tie may differ:
there Prometheus divides floats and ours does not.
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
from domain.slice import tally
from tests.alerts.fleet import START_S, chat, minute

SEEDS = 6
MINUTES = 600
FIRST = 370
DEFINITION = chat("- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, min_events: 0}")[0]
PAGES = [rule for rule in DEFINITION.rules if rule.severity == "page"]
WINDOWS = {300: "5m", 1800: "30m", 3600: "1h", 21600: "6h"}


def ratio(window):
    return (
        f"(sum(rate(ttft_count[{window}])) - sum(rate(ttft_good[{window}])))"
        f" / sum(rate(ttft_count[{window}]))"
    )


def rules():
    recorded = [{"record": f"bad:{w}", "expr": ratio(w)} for w in WINDOWS.values()]
    alerts = [
        {
            "alert": rule.name,
            "expr": " and ".join(
                f"bad:{WINDOWS[span_s]} > ({float(rule.factor)} * 0.01)"
                for span_s in (rule.short_s, rule.long_s)
            ),
        }
        for rule in PAGES
    ]
    return {
        "groups": [
            {"name": "sli", "interval": "1m", "rules": recorded},
            {"name": "alerts", "interval": "1m", "rules": alerts},
        ]
    }


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


def verdicts(slices):
    """For every minute and page rule: whether it burns, and whether some window is a tie."""
    history = History(360, START_S)
    found = {}
    for index, each in enumerate(slices):
        history.extend(each)
        at_s = history.end_s
        for rule in PAGES:
            verdict = judge(
                DEFINITION.objective,
                rule,
                long=history.tally(rule.long_s, at_s),
                short=history.tally(rule.short_s, at_s),
                observed=True,
            )
            limit = rule.factor * Fraction(1, 100)
            tie = any(w.bad_low == limit * w.total for w in (verdict.long, verdict.short))
            found[index + 1, rule.name] = (verdict.reason is Reason.BURNING, tie)
    return found


def case(seed, slices, expected):
    counts, goods = [0], [0]
    for each in slices:
        counts.append(counts[-1] + each.total)
        goods.append(goods[-1] + each.good_low)
    return {
        "name": f"seed {seed}",
        "interval": "1m",
        "input_series": [
            {"series": "ttft_count", "values": " ".join(map(str, counts))},
            {"series": "ttft_good", "values": " ".join(map(str, goods))},
        ],
        "alert_rule_test": [
            {
                "alertname": name,
                "eval_time": f"{at}m",
                "exp_alerts": [{"exp_labels": {}}] if burning else [],
            }
            for (at, name), (burning, tie) in expected.items()
            if at >= FIRST and not tie
        ],
    }


@pytest.mark.promtool
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus's promtool")
def test_every_verdict_is_the_one_that_promtool_gives(tmp_path):
    slices = [traffic(seed) for seed in range(SEEDS)]
    expected = [verdicts(each) for each in slices]
    document = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "group_eval_order": ["sli", "alerts"],
        "tests": [
            case(seed, *each) for seed, each in enumerate(zip(slices, expected, strict=True))
        ],
    }
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules()))
    (tmp_path / "test.yml").write_text(yaml.safe_dump(document))

    answer = subprocess.run(
        ["promtool", "test", "rules", "test.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    firing = sum(burning for each in expected for burning, _ in each.values())
    assert firing > 500
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
