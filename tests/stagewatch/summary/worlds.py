"""A recorded overload of a real vLLM and a bad night of promises, summed up."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from collector.reader import StoreReader
from stagewatch.summary.page import SummaryPage
from stagewatch.summary.settings import SummarySettings
from stagewatch.summary.summary import Summary, Told
from tests.collector.storing import NOW_S, overload, writing
from tests.dashboard.incidents import bad_night

__all__ = ["World", "page_of"]


def page_of(families, *, openmetrics=False):
    """As a scrape gets them."""
    registry = CollectorRegistry()
    registry.register(SummaryPage(lambda _: Told(at_s=NOW_S, families=families)))
    return (generate_openmetrics if openmetrics else generate_latest)(registry).decode()


class World:
    """One store and one ledger; `summary` sums them up anew."""

    def __init__(self, folder):
        (folder / "night").mkdir(parents=True)
        with writing(folder / "store") as writer:
            for export in overload():
                writer.traces(export)
        self.reader = StoreReader(folder / "store", now=lambda: NOW_S)
        self.night = bad_night(folder / "night")

    def summary(self, *, ledger=None, reader=None, arrived=None, **settings):
        settings = SummarySettings(**{"window_s": 3600, "max_groups": 20, **settings})
        return Summary(
            reader or self.reader,
            ledger or self.night.ledger,
            settings,
            begun_s=NOW_S - 3600,
            arrived=arrived,
        )

    def page(self, *, openmetrics=False, **settings):
        """What a second scrape gets: the first only says that somebody asks."""
        summary = self.summary(**settings)
        summary.told(NOW_S)
        summary.tick(NOW_S)
        return page_of(summary.told(NOW_S).families, openmetrics=openmetrics)
