"""What all dashboards are made of: queries, panels and the frame around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.models import common as models
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DynamicConfigValue,
    FieldColor,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboard.theme import LOOKS, State
from grafana.colours import STAGES, STATES

__all__ = [
    "BAND",
    "OBJECTIVE",
    "REPLICA",
    "SERVICE",
    "band",
    "board",
    "colours",
    "counted",
    "heat",
    "lines",
    "mapped",
    "number",
    "query",
    "row",
    "stack",
    "states",
    "steps",
    "variable",
]

_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_ALERTS = 'max by (objective, severity) (stagewatch_alerts_open{severity=~"page|ticket"}) > 0'
_CONDITIONS = "max by (condition, service, replica) (stagewatch_conditions_open) > 0"
_TIMELINE = {state: place for place, state in enumerate(reversed(list(State)), start=1)}

Panel = TypeVar("Panel", bound=Any)
OBJECTIVE, SERVICE = "/objectives/{objective}", "/service/{service}"
REPLICA = f"{SERVICE}?where=replica%3D{{replica}}"
"""Pages of ours, by the labels of a line."""
BAND = "low to high: the truth lies between them"


def query(
    expression: str, legend: str = "", *, exemplar: bool = False, instant: bool = False
) -> prometheus.Dataquery:
    """One expression. What nobody measured is no line."""
    made = (
        prometheus.Dataquery().expr(" ".join(expression.split())).legend_format(legend or "__auto")
    )
    return made.instant() if instant else made.range().exemplar(exemplar)


def _panel(panel: Panel, title: str, text: str, queries: Sequence[prometheus.Dataquery]) -> Panel:
    panel.title(title).description(text).datasource(_SOURCE)
    for place, each in enumerate(queries):
        panel.with_target(each.ref_id(chr(ord("A") + place)))
    return panel


def lines(
    title: str,
    unit: str,
    *queries: prometheus.Dataquery,
    text: str = "",
    width: int = 12,
    to: str = "",
) -> timeseries.Panel:
    """Lines over time; a gap is a gap. `to`: the page of ours that a line leads to."""
    panel = _panel(timeseries.Panel(), title, text, queries).unit(unit).span(width).height(8)
    panel.line_width(2).fill_opacity(0).span_nulls(False).show_points(models.VisibilityMode.NEVER)
    panel.legend(_legend()).tooltip(_tooltip())
    return _leading(panel, to) if to else panel


def stack(
    title: str,
    unit: str,
    *queries: prometheus.Dataquery,
    text: str = "",
    width: int = 12,
    to: str = "",
) -> timeseries.Panel:
    """Areas on top of each other."""
    panel = lines(title, unit, *queries, text=text, width=width, to=to)
    panel.fill_opacity(70).line_width(0)
    panel.stacking(common.StackingConfig().mode(models.StackingMode.NORMAL).group("A"))
    return panel


def band(
    title: str, unit: str, expression: str, *, text: str = "", width: int = 12, to: str = ""
) -> timeseries.Panel:
    """P50 and P99, each from its low end to its high end; `expression` has `Q` and `BOUND` in it."""
    queries = [
        query(expression.replace("BOUND", bound).replace("Q", q), f"P{name} {bound}")
        for q, name in (("0.5", "50"), ("0.99", "99"))
        for bound in ("low", "high")
    ]
    panel = lines(
        title, unit, *queries, text=f"{text} {BAND.capitalize()}.".strip(), width=width, to=to
    ).min(0)
    for name, colour in (("50", STAGES["prefill"]), ("99", STATES[State.PAGE])):
        for bound in ("low", "high"):
            held = [DynamicConfigValue(id_val="color", value=_fixed(colour))]
            if bound == "high":
                held.append(DynamicConfigValue(id_val="custom.fillBelowTo", value=f"P{name} low"))
                held.append(DynamicConfigValue(id_val="custom.fillOpacity", value=25))
            panel.override_by_regexp(f"/^P{name} {bound}/", held)
    return panel


def heat(title: str, expression: str, *, text: str = "", width: int = 12) -> heatmap.Panel:
    """How many values in which bucket, over time."""
    asked = query(expression, "{{le}}").format(PromQueryFormat.HEATMAP)
    panel = _panel(heatmap.Panel(), title, text, [asked]).span(width).height(8)
    panel.calculate(False).y_axis(_seconds()).color(_blues())
    return panel


def number(
    title: str,
    unit: str,
    *queries: prometheus.Dataquery,
    text: str = "",
    width: int = 4,
    to: str = "",
) -> stat.Panel:
    """The newest value, large."""
    panel = _panel(stat.Panel(), title, text, queries).unit(unit).span(width).height(4)
    panel.graph_mode(models.BigValueGraphMode.NONE).color_mode(models.BigValueColorMode.VALUE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.color_scheme(_scheme(FieldColorModeId.THRESHOLDS)).thresholds(
        steps((None, STATES[State.HEALTHY]))
    )
    panel.no_value("nothing known")
    return _leading(panel, to) if to else panel


def states(title: str, selector: str, *, text: str = "", width: int = 24) -> statetimeline.Panel:
    """How each objective stood, in our words, shapes and colours."""
    parts = " or ".join(
        f'{place} * stagewatch_objective_state{{state="{state}"{selector}}}'
        for state, place in _TIMELINE.items()
    )
    panel = _panel(
        statetimeline.Panel(),
        title,
        text,
        [query(f"max by (objective) ({parts}) > 0", "{{objective}}")],
    )
    panel.span(width).height(8).mappings([mapped()]).merge_values(True).row_height(0.8)
    panel.color_scheme(_scheme(FieldColorModeId.FIXED)).show_value(models.VisibilityMode.AUTO)
    return _leading(panel, OBJECTIVE)


def mapped() -> ValueMap:
    """The number of a state as its word, with shape and colour."""
    options = {
        str(place): ValueMappingResult(
            text=f"{LOOKS[state].symbol} {state.value}", color=STATES[state], index=place
        )
        for state, place in _TIMELINE.items()
    }
    return ValueMap(options=options)


def steps(*found: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    """From which value on which colour; None is from the least on."""
    held = [Threshold(value=value, color=colour) for value, colour in found]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(held)


def counted(panel: Panel, *found: tuple[float | None, str]) -> Panel:
    """A panel whose values are coloured by steps."""
    panel.thresholds(steps(*found))
    return panel


def colours(panel: Panel, by_name: Mapping[str, str]) -> Panel:
    """A panel whose lines have colours of their own, by what the legend calls them."""
    for name, colour in by_name.items():
        panel.override_by_name(name, [DynamicConfigValue(id_val="color", value=_fixed(colour))])
    return panel


def _leading(panel: Panel, to: str) -> Panel:
    """A panel each of whose lines leads to a page of ours, over the same time.

    `to` names in braces the labels of the line that the address needs.
    """
    address = re.sub(r"\{(\w+)\}", r"${__field.labels.\1:percentencode}", to)
    window = f"{'&' if '?' in to else '?'}from=${{__from}}&to=${{__to}}"
    panel.data_links(
        [
            dashboard.DashboardLink("Open in Stagewatch")
            .type(DashboardLinkType.LINK)
            .url(f"${{stagewatch}}{address}{window}")
            .target_blank(True)
        ]
    )
    return panel


def row(title: str) -> dashboard.Row:
    return dashboard.Row(title)


def variable(name: str, series: str, label: str, *, many: bool = True) -> dashboard.QueryVariable:
    """Values of a label; if `many`, several at a time or all."""
    made = dashboard.QueryVariable(name).label(label).datasource(_SOURCE)
    made.query({"qryType": 1, "query": f"label_values({series}, {name})", "refId": "A"})
    made.definition(f"label_values({series}, {name})").multi(many).include_all(many)
    if many:
        made.all_value(".*")
    return made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def board(
    uid: str,
    title: str,
    text: str,
    parts: Sequence[Any],
    *,
    page: str,
    variables: Sequence[Any] = (),
) -> dashboard.Dashboard:
    """A dashboard with its data source, links to the others and to our own page, and our alerts."""
    made = dashboard.Dashboard(title).uid(uid).description(text).tags(["stagewatch"])
    made.editable().refresh("30s").time("now-1h", "now").timezone("browser")
    made.tooltip(DashboardCursorSync.CROSSHAIR)
    made.with_variable(
        dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    )
    for each in variables:
        made.with_variable(each)
    made.with_variable(
        dashboard.TextBoxVariable("stagewatch")
        .label("Stagewatch")
        .default_value("http://localhost:8400")
    )
    made.link(_link(f"${{stagewatch}}{page}", "In Stagewatch", "the same with the guilty stage"))
    made.link(
        dashboard.DashboardLink("Stagewatch dashboards")
        .type(DashboardLinkType.DASHBOARDS)
        .tags(["stagewatch"])
        .as_dropdown(True)
        .keep_time(True)
    )
    made.annotation(
        _annotation("Alerts", _ALERTS, "{{severity}}: {{objective}}", STATES[State.PAGE])
    )
    made.annotation(
        _annotation(
            "Engines",
            _CONDITIONS,
            "{{condition}}: {{replica}} of {{service}}",
            STATES[State.TICKET],
        )
    )
    for place, part in enumerate(parts, start=1):  # so that a link to a panel stays one
        part.id(place)
        made.with_row(part) if isinstance(part, dashboard.Row) else made.with_panel(part)
    return made


def _annotation(name: str, expression: str, title: str, colour: str) -> dashboard.AnnotationQuery:
    made = (
        dashboard.AnnotationQuery().name(name).datasource(_SOURCE).enable(True).icon_color(colour)
    )
    return made.expr(expression).title_format(title).step("60s")


def _link(url: str, title: str, text: str) -> dashboard.DashboardLink:
    made = dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url).tooltip(text)
    return made.target_blank(True).keep_time(True).include_vars(True)


def _fixed(colour: str) -> FieldColor:
    return FieldColor(mode=FieldColorModeId.FIXED, fixed_color=colour)


def _scheme(mode: FieldColorModeId) -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(mode)


def _legend() -> common.VizLegendOptions:
    made = common.VizLegendOptions().show_legend(True).placement(models.LegendPlacement.BOTTOM)
    return made.display_mode(models.LegendDisplayMode.LIST).calcs(["lastNotNull"])


def _tooltip() -> common.VizTooltipOptions:
    made = common.VizTooltipOptions().mode(models.TooltipDisplayMode.MULTI)
    return made.sort(models.SortOrder.DESCENDING)


def _seconds() -> heatmap.YAxisConfig:
    return heatmap.YAxisConfig().unit("s")


def _blues() -> heatmap.HeatmapColorOptions:
    return heatmap.HeatmapColorOptions().scheme("Blues").mode("scheme")  # type: ignore[arg-type]
