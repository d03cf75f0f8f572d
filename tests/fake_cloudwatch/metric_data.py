"""GetMetricData and ListMetrics as AWS answers them, from an account's samples."""

import re

from tests.fake_cloudwatch.account import ACCOUNT, AwsError
from tests.fake_cloudwatch.statistic import is_statistic, statistic

__all__ = ["get_metric_data", "list_metrics"]

_MOST_QUERIES, _MOST_POINTS, _PAGE = 500, 100_800, 500
_ID = re.compile(r"[a-z][a-zA-Z0-9_]*")
_PERIODS = {1, 5, 10, 20, 30}
_RECENT_S = 3 * 3600


def get_metric_data(account, body):
    queries = body["MetricDataQueries"]
    _check(queries, body)
    since_s = body["StartTime"] // 60 * 60
    if not body.get("NextToken"):
        account.billed += _billed(queries)
    descending = body.get("ScanBy", "TimestampDescending") == "TimestampDescending"
    found = []
    for query in queries:
        wanted = query["MetricStat"]
        bins = account.visible(_key(query), since_s, body["EndTime"], wanted["Period"])
        points = [(at, statistic(wanted["Stat"], values)) for at, values in sorted(bins.items())]
        if wanted.get("Unit"):
            points = []  # why: a unit that is not the published one finds nothing
        found.append((query, points[::-1] if descending else points))
    return _page(account, body, found)


def _page(account, body, found):
    """A page of at most MaxDatapoints points; an Id whose points are cut off says PartialData."""
    offset, room = int(body.get("NextToken") or 0), body.get("MaxDatapoints", _MOST_POINTS)
    results, at = [], 0
    for query, points in found:
        taken = points[max(offset - at, 0) : max(offset + room - at, 0)]
        cut = at + len(points) > offset + room
        ended = at + len(points) <= offset and offset > 0
        at += len(points)
        if ended:
            continue
        status = account.faults.get(query["Id"], "PartialData" if cut else "Complete")
        if status in {"InternalError", "Forbidden"}:
            taken = []
        results.append(_result(query, taken, status))
    answer = {"MetricDataResults": results, "Messages": account.messages}
    if at > offset + room:
        answer["NextToken"] = str(offset + room)
    return answer


def _result(query, points, status):
    return {
        "Id": query["Id"],
        "Label": query.get("Label", query["MetricStat"]["Metric"]["MetricName"]),
        "Timestamps": [at for at, _ in points],
        "Values": [value for _, value in points],
        "StatusCode": status,
    }


def _check(queries, body):
    if len(queries) > _MOST_QUERIES:
        raise _invalid("The collection MetricDataQueries must not have a size greater than 500.")
    ids = [query["Id"] for query in queries]
    if len(set(ids)) < len(ids):
        raise _invalid("The values for parameter id in MetricDataQueries are not unique.")
    if body["EndTime"] <= body["StartTime"]:
        raise _invalid("The parameter EndTime must be greater than StartTime.")
    for query in queries:
        if not _ID.fullmatch(query["Id"]):
            raise _invalid(f"Invalid id {query['Id']}")
        wanted = query["MetricStat"]
        if wanted["Period"] not in _PERIODS and wanted["Period"] % 60:
            raise _invalid(f"Invalid period {wanted['Period']}")
        if not is_statistic(wanted["Stat"]):
            raise _invalid(f"Invalid statistic {wanted['Stat']}")


def _invalid(message):
    return AwsError("ValidationError", message)


def _billed(queries):
    """Up to five statistics of one metric in one call are one."""
    asked = {}
    for query in queries:
        asked.setdefault(_key(query), set()).add(query["MetricStat"]["Stat"])
    return sum(-(-len(statistics) // 5) for statistics in asked.values())


def _key(query):
    metric = query["MetricStat"]["Metric"]
    dimensions = frozenset((each["Name"], each["Value"]) for each in metric.get("Dimensions", ()))
    owner = query.get("AccountId", ACCOUNT)
    return (owner, metric["Namespace"], metric["MetricName"], dimensions)


def list_metrics(account, body):
    """Every series once; silent ones are left out where only recent ones are asked for."""
    linked = body.get("IncludeLinkedAccounts", False)
    found = [key for key in account.samples if _is_listed(account, key, body, linked=linked)]
    offset = int(body.get("NextToken") or 0)
    page = found[offset : offset + _PAGE]
    answer = {
        "Metrics": [
            {
                "Namespace": namespace,
                "MetricName": name,
                "Dimensions": [{"Name": k, "Value": v} for k, v in sorted(dimensions)],
            }
            for _, namespace, name, dimensions in page
        ]
    }
    if linked:
        answer["OwningAccounts"] = [owner for owner, *_ in page]
    if offset + _PAGE < len(found):
        answer["NextToken"] = str(offset + _PAGE)
    return answer


def _is_listed(account, key, body, *, linked):
    owner, namespace, name, dimensions = key
    minutes, now_s = account.samples[key], account.now()
    seen = [at for at, told in minutes.items() if any(visible <= now_s for visible, *_ in told)]
    recent = body.get("RecentlyActive") != "PT3H" or (seen and now_s - max(seen) <= _RECENT_S)
    own = dict(dimensions)
    return (
        bool(seen)
        and recent
        and (linked or owner == ACCOUNT)
        and body.get("Namespace", namespace) == namespace
        and body.get("MetricName", name) == name
        and all(
            each["Name"] in own and each.get("Value", own[each["Name"]]) == own[each["Name"]]
            for each in body.get("Dimensions", ())
        )
    )
