"""The grid: 64 cells per power of two, an edge belongs to the cell below it."""

import math

import numpy as np
import pytest
from hypothesis import given

from domain.exponential import scale_error
from domain.grid import (
    CELLS,
    EDGES_S,
    OTEL_OFFSET,
    OVER,
    RELATIVE_ERROR,
    SCALE,
    cells_of,
    lower_edge_s,
    middle_s,
    upper_edge_s,
)
from tests.strategies import durations_s


@given(durations_s)
def test_a_value_lies_in_its_cell(value_s):
    cell = int(cells_of(np.array([value_s]))[0])

    assert lower_edge_s(cell) < value_s <= upper_edge_s(cell) or value_s == 0 == cell


def test_an_edge_belongs_to_the_cell_below_and_the_next_number_to_the_cell_above():
    cells = np.arange(OVER)

    assert (cells_of(EDGES_S) == cells).all()
    assert (cells_of(np.nextafter(EDGES_S, math.inf)) == cells + 1).all()


def test_every_power_of_two_is_an_edge():
    assert np.isin(np.exp2(np.arange(-30.0, 18.0)), EDGES_S).all()


def test_the_middle_of_a_cell_is_within_the_stated_error_of_both_its_ends():
    for cell in range(1, OVER):
        middle = middle_s(cell)
        assert middle / lower_edge_s(cell) - 1 <= RELATIVE_ERROR
        assert 1 - middle / upper_edge_s(cell) <= RELATIVE_ERROR


def test_the_stated_error_is_that_of_the_scale_and_not_more():
    assert scale_error(SCALE) <= RELATIVE_ERROR <= scale_error(SCALE) * 1.001


def test_the_end_cells_are_zero_and_open():
    assert (lower_edge_s(0), middle_s(0)) == (0, 0)
    assert (lower_edge_s(OVER), middle_s(OVER), upper_edge_s(OVER)) == (
        EDGES_S[-1],
        math.inf,
        math.inf,
    )
    assert lower_edge_s(-1) == 0


def test_the_grid_reaches_from_a_nanosecond_to_a_day_and_a_half():
    assert EDGES_S[0] <= 1e-9
    assert EDGES_S[-1] >= 36 * 3600
    assert len(EDGES_S) == CELLS - 1


def test_otel_counts_the_cells_from_one_second():
    just_above_a_second = cells_of(np.array([math.nextafter(1, 2)]))

    assert just_above_a_second == [OTEL_OFFSET]


@pytest.mark.parametrize("cell", [0, 1, 1000, OVER - 1, OVER])
def test_cells_meet_without_a_gap(cell):
    assert lower_edge_s(cell) == (upper_edge_s(cell - 1) if cell else 0)
