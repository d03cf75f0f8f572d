"""What each of our own counters and levels means, for whoever reads `/metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["WORDS"]

_COLLECTOR = "stagewatch_collector_"
_REMOTE_WRITE = f"{_COLLECTOR}remote_write_"
_OUT = "stagewatch_remote_write_out_"

_INTAKE = {
    "queued_bytes": "Bytes that are decoded and wait for the store",
    "overloaded_total": "Exports put off because too much was waiting; senders send them again",
    "stored_spans_total": "Spans stored",
    "duplicate_spans_total": "Spans that were there already",
    "late_spans_total": "Spans that came after their window was first closed, and counted",
    "ignored_spans_total": "Spans that are about no request",
    "refused_spans_total": "Spans that cannot be true: no id, no time, or an end before the start",
    "rejected_values_total": "Attributes of spans that cannot be true and were left out",
    "stored_points_total": "Points stored",
    "duplicate_points_total": "Points that were there already",
    "late_points_total": "Points that came after their window was first closed, and counted",
    "ignored_points_total": "Points of metrics that we do not keep",
    "refused_points_total": "Points that cannot be true or contradict themselves",
    "bounded_labels_total": "Label values beyond the bound, filed under one name for all of them",
    "new_endpoint_points_total": "Points of managed endpoints that are new",
    "revised_endpoint_points_total": "Points of managed endpoints that have changed",
    "confirmed_endpoint_points_total": "Points of managed endpoints that have settled as they were",
    "known_endpoint_points_total": "Points of managed endpoints that were there already",
    "clock_disagreements_total": "Requests whose machines' clocks differ by more than their stages",
    "overlapping_transfers_total": "Requests whose KV transfer overlaps other stages",
    "negative_networks_total": "Requests that a client saw faster than their server: no network time",
}
_RECEIVED = {
    "requests_total": "Requests of remote-write taken",
    "series_total": "Series in them",
    "taken_samples_total": "Samples of engines in them",
    "ignored_series_total": "Series of no engine that we know",
    "refused_histograms_total": "Native histograms that contradict themselves",
    "exemplars_total": "Exemplars in them, which are not kept",
    "metadata_total": "Metadata in them, which are not kept",
    "held_series": "Series that are known now",
    "targets": "Engines that are known now",
    "waiting_samples": "Samples that wait for the rest of their scrape",
    "begun_targets_total": "Engines whose counting began anew",
    "forgotten_targets_total": "Engines not heard of for so long that they were forgotten",
    "failovers_total": "Times that another of two equal Prometheus servers was believed",
    "twin_scrapes_total": "Scrapes of the other of two equal servers, left out",
    "faults_total": "Scrapes in which an engine's page contradicted itself",
    "late_samples_total": "Samples older than a scrape that was closed, left out",
    "partial_scrapes_total": "Scrapes closed before all of their series had come",
    "skipped_first_scrapes_total": "First scrapes, which wait until every series was heard of",
    "scrapes_total": "Scrapes read",
    "scrapes_down_total": "Scrapes that found an engine down",
    "rejected_points_total": "Points of scrapes that the store refused",
    "series_of_no_target_total": "Series without job and instance, or the labels told instead",
    "refused_future_total": "Samples dated in the future",
    "refused_max_series_total": "Samples of series beyond the bound on all series",
    "refused_max_series_per_target_total": "Samples of series beyond the bound of one engine",
    "refused_max_targets_total": "Samples of engines beyond the bound on engines",
    "refused_native_histograms_total": "Native histograms where classic ones are read",
}
_SENT = {
    "sent_total": "Requests of remote-write that were taken",
    "retried_total": "Requests that were not taken and are sent again",
    "refused_total": "Requests that were refused and dropped",
    "lost_total": "Requests dropped because they waited too long, or too many did",
    "waiting_bytes": "Bytes that wait to be sent",
}
_ALERTS = {
    "stagewatch_alerts_leading": "1 where promises are judged: on one of all processes",
    "stagewatch_alerts_receivers": "Receivers that are told of alerts",
    "stagewatch_alerts_receivers_failing": "Receivers that cannot be told now",
}
WORDS: Final[Mapping[str, str]] = {
    **{_COLLECTOR + name: text for name, text in _INTAKE.items()},
    **{_REMOTE_WRITE + name: text for name, text in _RECEIVED.items()},
    **{_OUT + name: text for name, text in _SENT.items()},
    **_ALERTS,
}
"""By the full name; sorted into the parts that count them."""
