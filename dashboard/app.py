"""Hangs the pages onto the server that already answers the API."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, no_update
from dash.development.base_component import Component
from fastapi import FastAPI

from alerts.ledger import Ledger
from collector.query import Reader
from dashboard import endpoints, fleet, gpus, service
from dashboard.content import Content, Recent
from dashboard.frame import base, common_regions, trouble
from dashboard.paths import PagePaths, refuse_unknown_paths
from dashboard.security import SecurityHeaders, policy
from dashboard.url import ALONE, ENDPOINTS, FLEET, GPUS, SERVICE, View
from dashboard.viewer import Viewer

__all__ = ["attach"]

REFRESH_S = 30.0


class _Page(Protocol):
    """What a module of a page offers."""

    def content(self, reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content: ...

    def page(self, view: View, shown: Content) -> list[Component]: ...


_logger = logging.getLogger(__name__)
_PAGES: dict[str, _Page] = {ENDPOINTS: endpoints, FLEET: fleet, GPUS: gpus, SERVICE: service}
_INDEX = """<!DOCTYPE html>
<html lang="en">
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
    <footer>
      {%config%}
      {%scripts%}
      {%renderer%}
    </footer>
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
        prefix: str,
        cache_s: float,
        now: Callable[[], float],
    ) -> None:
        self._reader = reader
        self._ledger = ledger
        self._prefix = prefix
        self._cache_s = cache_s
        self._now = now
        self._recent = Recent()

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
        return _PAGES[view.page].page(view, content)

    def fill(self, told: Mapping[str, Any]) -> Content:
        """The regions and charts of a page that is already there."""
        view, viewer = self._read(told)
        try:
            return self._content(view, viewer)
        except Exception as error:
            _logger.exception("The page %r could not be refreshed.", view.link())
            return Content(title="", regions=trouble(error, viewer=viewer))

    def _read(self, told: Mapping[str, Any]) -> tuple[View, Viewer]:
        path = str(told.get("path") or "/").removeprefix(self._prefix.rstrip("/"))
        view = View.from_link(path, str(told.get("search") or ""))
        viewer = Viewer.from_browser(told, now_s=int(self._now()), prefix=self._prefix)
        return view, viewer

    def _content(self, view: View, viewer: Viewer) -> Content:
        def make() -> Content:
            return _PAGES[view.page].content(self._reader, self._ledger, view, viewer)

        if not self._cache_s:
            return make()
        key = (view, str(viewer.zone), viewer.host, int(viewer.now_s // self._cache_s))
        return self._recent.get(key, make)


def attach(
    server: FastAPI,
    reader: Reader,
    ledger: Ledger,
    *,
    prefix: str = "/",
    refresh_s: float = REFRESH_S,
    cache_s: float | None = None,
    now: Callable[[], float] = time.time,
) -> Dash:
    """The pages at `prefix`, and an honest 404 wherever nothing else answers.

    An open page asks again every `refresh_s`; answers are shared by viewers for half of that.
    """
    app = Dash(
        "dashboard",
        server=server,  # type: ignore[arg-type]  # Dash takes a FastAPI; its hints do not
        title="Stagewatch",
        update_title=None,  # type: ignore[arg-type]  # the same
        compress=True,
        url_base_pathname=prefix,
        assets_folder=str(Path(__file__).parent / "assets"),
        index_string=_INDEX,
        add_log_handler=False,
        suppress_callback_exceptions=True,  # why: the parts of a page come and go with it
    )
    app.layout = base(refresh_ms=round(refresh_s * 1000))
    shared_s = refresh_s / 2 if cache_s is None else cache_s
    _answer(app, _Pages(reader, ledger, prefix=prefix, cache_s=shared_s, now=now))
    _run_in_the_browser(app)
    app.backend.websocket_capability = False  # why: each tab would hold a socket that nobody uses
    server.add_middleware(SecurityHeaders, policy=policy(app.csp_hashes()))
    named = frozenset(_PAGES) - {FLEET, *ALONE}
    server.add_middleware(PagePaths, prefix=prefix, pages=named, alone=frozenset(ALONE))
    refuse_unknown_paths(server)
    return app


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
            [content.regions.get(each["id"]["region"], no_update) for each in regions],
            [content.charts.get(each["id"]["chart"], no_update) for each in charts],
            told.get("id"),
        )


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
        ours("find"),
        Output("url", "search", allow_duplicate=True),
        Input("find", "value"),
        prevent_initial_call=True,
    )
    tell(
        ours("answered"),
        Output("offline", "hidden", allow_duplicate=True),
        Input("answered", "data"),
        prevent_initial_call=True,
    )
