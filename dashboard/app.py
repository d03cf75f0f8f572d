"""Hangs the pages onto the server that already answers the API."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from dash.development.base_component import Component
from fastapi import FastAPI, HTTPException, Request
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import PlainTextResponse

from alerts.access import Access
from alerts.ledger import Ledger
from collector.query import Reader
from dashboard import (
    alert,
    alert_list,
    endpoints,
    explorer,
    fleet,
    gpus,
    objective,
    probes,
    request,
    service,
    silence_list,
)
from dashboard.balance import BalancePage
from dashboard.bundles import Bundles
from dashboard.chart_csv import chart_csv
from dashboard.content import KEPT, Content, Recent
from dashboard.frame import base, common_regions, trouble
from dashboard.mount import PLACEHOLDER, Asked, IndexAddresses, Mount, asked
from dashboard.paths import PagePaths, refuse_unknown_paths
from dashboard.runbook import runbook_routes
from dashboard.security import SecurityHeaders
from dashboard.sign_in import sign_in_routes
from dashboard.status import StatusPage
from dashboard.unheard import SILENT_S, Unheard
from dashboard.url import (
    ALERT,
    ALERTS,
    ALONE,
    BALANCE,
    ENDPOINTS,
    FLEET,
    GPUS,
    OBJECTIVE,
    OF_ONE,
    PROBES,
    REQUEST,
    REQUESTS,
    SERVICE,
    SILENCES,
    STATUS,
    View,
)
from dashboard.viewer import Viewer
from dashboard.vitals import Witness
from review.shelf import Shelf

__all__ = ["attach"]

REFRESH_S = 30.0
_PACKED = 5  # measured: a tenth more bytes than 9, in a third of the time


class _Page(Protocol):
    """What a module of a page offers."""

    def content(self, reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content: ...

    def page(self, view: View, shown: Content) -> list[Component]: ...


_logger = logging.getLogger(__name__)
_PAGES: dict[str, _Page] = {
    ALERT: alert,
    ALERTS: alert_list,
    ENDPOINTS: endpoints,
    FLEET: fleet,
    GPUS: gpus,
    OBJECTIVE: objective,
    PROBES: probes,
    REQUEST: request,
    REQUESTS: explorer,
    SERVICE: service,
    SILENCES: silence_list,
}
_INDEX = """<!DOCTYPE html>
<html lang="en" data-prefix="/-mount-/">
  <head>
    {%metas%}
    <meta name="color-scheme" content="light dark">
    <title>{%title%}</title>
    <link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cg fill='%233A87D0'%3E%3Cpath d='M1 3h6v3H1zM5 7h8v3H5zM11 11h4v3h-4z'/%3E%3C/g%3E%3C/svg%3E">
    {%css%}
  </head>
  <body>
    <noscript>These pages are drawn by scripts from this server; without them, ask /api/v1.</noscript>
    {%app_entry%}
    <div hidden>
      {%config%}
      {%scripts%}
      {%renderer%}
    </div>
  </body>
</html>
"""


class _Pages:
    """Answers the questions of browsers about one reader and one ledger."""

    def __init__(
        self,
        reader: Reader,
        ledger: Ledger,
        *,
        witness: Witness | None,
        shelf: Shelf | None,
        cache_s: float,
        silent_s: float,
        now: Callable[[], float],
    ) -> None:
        self._pages = _PAGES | {STATUS: StatusPage(witness), BALANCE: BalancePage(shelf)}
        self._reader = reader
        self._ledger = ledger
        self._cache_s = cache_s
        self._now = now
        self._recent = Recent()
        self._unheard = Unheard(reader, silent_s)

    def page(self, told: Mapping[str, Any]) -> list[Component]:
        """A whole page for an address."""
        view, viewer = self._read(told)
        try:
            content = self._content(view, viewer)
        except Exception as error:
            _logger.exception("The page %r could not be made.", view.link())
            title = "? Stagewatch"
            regions = common_regions(view, viewer, newest_at_s=None, title=title)
            content = Content(title=title, regions=regions | trouble(error, viewer=viewer))
        return self._pages[view.page].page(view, content)

    def fill(self, told: Mapping[str, Any]) -> Content:
        """The regions and charts of a page that is already there."""
        view, viewer = self._read(told)
        try:
            return self._content(view, viewer, anew=bool(told.get("acted")))
        except Exception as error:
            _logger.exception("The page %r could not be refreshed.", view.link())
            return Content(title="", regions=trouble(error, viewer=viewer))

    def chart(self, name: str, link: str) -> str | None:
        """The values of a chart, its instants in UTC; None where the page has none of that name."""
        path, _, search = link.partition("?")
        view = View.from_link(path, search)
        viewer = Viewer(now_s=int(self._now()), may_act=False)
        figure = self._content(view, viewer).charts.get(name)
        return None if figure is None else chart_csv(figure)

    def _read(self, told: Mapping[str, Any]) -> tuple[View, Viewer]:
        whose: Asked = asked()
        path = str(told.get("path") or "/").removeprefix(whose.prefix)
        view = View.from_link(path, str(told.get("search") or ""))
        viewer = Viewer.from_browser(told, now_s=int(self._now()), prefix=f"{whose.prefix}/")
        return view, replace(viewer, may_act=whose.may_act)

    def _content(self, view: View, viewer: Viewer, *, anew: bool = False) -> Content:
        """`anew`: somebody acted, and wants to see it."""

        def make() -> Content:
            made = self._pages[view.page].content(self._reader, self._ledger, view, viewer)
            banner = {"banner": self._unheard.banner(view, viewer)}
            return replace(made, regions={**made.regions, **banner})

        if not self._cache_s:
            return make()
        moment = int(viewer.now_s // self._cache_s)
        key = (view, replace(viewer, now_s=0, zone=UTC), str(viewer.zone), moment)
        return self._recent.get(key, make, anew=anew)


def attach(
    server: FastAPI,
    reader: Reader,
    ledger: Ledger,
    *,
    prefix: str = "/",
    refresh_s: float = REFRESH_S,
    cache_s: float | None = None,
    silent_s: float = SILENT_S,
    access: Access | None = None,
    witness: Witness | None = None,
    shelf: Shelf | None = None,
    now: Callable[[], float] = time.time,
) -> Dash:
    """The pages at `prefix`, and an honest 404 wherever nothing else answers.

    A gate that is to know the paths within the prefix is added before.

    An open page asks again every `refresh_s`; answers are shared by viewers for half of that.
    Where nothing was heard for `silent_s`, a banner says so. `witness`: how this process is, for the status page. `shelf`: the weekly reviews.
    """
    whose = access or Access()
    server.include_router(sign_in_routes(whose))
    server.include_router(runbook_routes())
    server.add_middleware(IndexAddresses)
    app = Dash(
        "dashboard",
        server=server,  # type: ignore[arg-type]  # Dash takes a FastAPI; its hints do not
        title="Stagewatch",
        update_title=None,  # type: ignore[arg-type]  # the same
        routes_pathname_prefix="/",
        requests_pathname_prefix=PLACEHOLDER,
        assets_folder=str(Path(__file__).parent / "assets"),
        assets_ignore=r"start\.js",
        index_string=_INDEX,
        add_log_handler=False,
        suppress_callback_exceptions=True,  # why: the parts of a page come and go with it
    )
    app.layout = base(refresh_ms=round(refresh_s * 1000))
    shared_s = refresh_s / 2 if cache_s is None else cache_s
    pages = _Pages(
        reader, ledger, witness=witness, shelf=shelf, cache_s=shared_s, silent_s=silent_s, now=now
    )
    _answer(app, pages)
    _add_charts(server, pages)
    _run_in_the_browser(app)
    app.backend.websocket_capability = False  # why: each tab would hold a socket that nobody uses
    server.add_middleware(GZipMiddleware, minimum_size=500, compresslevel=_PACKED)
    server.add_middleware(Bundles)
    server.add_middleware(SecurityHeaders)
    named = frozenset({SERVICE, *OF_ONE})
    server.add_middleware(PagePaths, prefix="/", pages=named, alone=frozenset(ALONE))
    server.add_middleware(Mount, prefix=prefix, access=whose)
    refuse_unknown_paths(server)
    return app


def _add_charts(server: FastAPI, pages: _Pages) -> None:
    """What is drawn, as a file."""

    @server.get("/api/v1/charts/{name}.csv", include_in_schema=False)
    def chart(name: str, request: Request) -> PlainTextResponse:
        """`page` and the query of its address."""
        known = [(key, value) for key, value in request.query_params.multi_items() if key != "page"]
        page = request.query_params.get("page", "/")
        text = pages.chart(name, f"{page}?{urlencode(known)}")
        if text is None:
            raise HTTPException(404, f"the page {page[:200]!r} has no chart {name[:80]!r}")
        file = f'attachment; filename="stagewatch-{quote(name, safe="")}.csv"'
        headers = {"Content-Disposition": file}
        return PlainTextResponse(text, media_type="text/csv", headers=headers)


def _answer(app: Dash, pages: _Pages) -> None:
    """Two questions: a new page, and new values for the page that is there.

    why in threads: Dash runs a plain callback on the event loop, where it would hold up ingest.
    """

    @app.callback(
        Output("content", "children"),
        Output("answered", "data", allow_duplicate=True),
        Input("ask-page", "data"),
        prevent_initial_call=True,
    )
    async def show(told: dict[str, Any] | None) -> tuple[Any, Any]:
        if not told:
            return no_update, no_update
        return await asyncio.to_thread(pages.page, told), told.get("id")

    @app.callback(
        Output({"region": ALL}, "children"),
        Output({"chart": ALL}, "figure"),
        Output("answered", "data"),
        Input("ask-fill", "data"),
        prevent_initial_call=True,
    )
    async def fill(told: dict[str, Any] | None) -> tuple[list[Any], list[Any], Any]:
        regions, charts, _ = ctx.outputs_list
        if not told:
            return [no_update] * len(regions), [no_update] * len(charts), no_update
        content = await asyncio.to_thread(pages.fill, told)
        return (
            [_anew(content, each["id"]["region"]) for each in regions],
            [content.charts.get(each["id"]["chart"], no_update) for each in charts],
            told.get("id"),
        )


def _anew(content: Content, name: str) -> Any:
    """What a refresh fills in; what the reader is typing into stays."""
    return no_update if name in KEPT else content.regions.get(name, no_update)


def _run_in_the_browser(app: Dash) -> None:
    """When to ask, and what a drag across a chart means: `assets/stagewatch.js`."""
    tell: Callable[..., Any] = app.clientside_callback

    def ours(name: str) -> ClientsideFunction:
        return ClientsideFunction(namespace="stagewatch", function_name=name)

    tell(
        ours("ask"),
        Output("ask-page", "data"),
        Output("ask-fill", "data"),
        Output("offline", "children"),
        Output("offline", "hidden"),
        Input("url", "pathname"),
        Input("url", "search"),
        Input("tick", "n_intervals"),
        Input("wake", "data"),
        State("answered", "data"),
    )
    tell(
        ours("zoom"),
        Output("url", "search"),
        Input({"chart": ALL}, "relayoutData"),
        prevent_initial_call=True,
    )
    tell(
        ClientsideFunction(namespace="requests", function_name="press"),
        Output("url", "search", allow_duplicate=True),
        Input({"chart": ALL}, "clickData"),
        prevent_initial_call=True,
    )
    tell(
        ours("find"),
        Output("url", "search", allow_duplicate=True),
        Input("find", "value"),
        prevent_initial_call=True,
    )
    tell(
        ours("filter"),
        Output("url", "search", allow_duplicate=True),
        Output("filter", "value"),
        Input("filter", "value"),
        prevent_initial_call=True,
    )
    tell(
        ours("answered"),
        Output("offline", "hidden", allow_duplicate=True),
        Input("answered", "data"),
        prevent_initial_call=True,
    )
