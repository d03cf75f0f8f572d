"""Bodies that are too long, and questions that are wrong in ways that an answer cannot repeat."""

import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from stagewatch.request_bounds import BoundedBodies, wrong_question

JSON = {"Content-Type": "application/json"}


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = Field(max_length=20)
    at: AwareDatetime | None = None


@pytest.fixture
def api():
    app = FastAPI()
    app.add_exception_handler(RequestValidationError, wrong_question)
    app.add_middleware(BoundedBodies, most_bytes=1000)

    @app.post("/api/v1/events")
    @app.post("/v1/traces")
    def add(asked: Asked) -> str:
        return asked.title

    return TestClient(app)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"title": "\\ud800"}', ["body", "title"]),
        (b'{"title": "x", "\\ud800": 1}', ["body"]),
        (b'{"title": "x", "at": NaN}', ["body", "at"]),
        (b'{"title": "' + b"x" * 800 + b'"}', ["body", "title"]),
    ],
)
def test_a_wrong_question_is_told_where_and_not_what_it_said(api, body, where):
    answer = api.post("/api/v1/events", content=body, headers=JSON)

    assert answer.status_code == 422
    (wrong,) = answer.json()["detail"]
    assert wrong["loc"] == where
    assert set(wrong) == {"type", "loc", "msg"}


def test_a_body_that_says_that_it_is_too_long_is_not_read(api):
    answer = api.post("/api/v1/events", content=b"x" * 1001, headers=JSON)

    assert (answer.status_code, answer.json()) == (
        413,
        {"detail": "the body is longer than 1000 bytes"},
    )


def test_a_body_that_does_not_say_how_long_it_is_ends_at_the_bound(api):
    parts = (b" " * 100 for _ in range(100))

    answer = api.post("/api/v1/events", content=parts, headers=JSON)

    assert answer.status_code == 413


def test_what_fits_is_taken_and_what_senders_export_has_its_own_bounds(api):
    long = b'{"title": "x"' + b" " * 2000 + b"}"

    assert api.post("/api/v1/events", json={"title": "x"}).json() == "x"
    assert api.post("/v1/traces", content=long, headers=JSON).json() == "x"
