"""The parts that targets share, on a target that has nothing else: the tests of `cpu` and of dynamic shapes."""

from pathlib import Path

import pytest

from migraphx.targets import registry
from tests.targets import interpreted
from tests.targets.common import test_dynamic
from tests.targets.cpu import test_control, test_movement_indexing, test_pointwise_reduce
from tests.targets.interpreted import NAME, InterpretedTarget

SHARED = [
    test_pointwise_reduce.test_pointwise_layouts,
    test_pointwise_reduce.test_reductions,
    test_pointwise_reduce.test_fused_reductions,
    test_pointwise_reduce.test_values_that_wait_in_the_output,
    test_pointwise_reduce.test_empty,
    test_movement_indexing.test_movement,
    test_movement_indexing.test_rows_that_become_columns,
    test_control.test_a_slice_outside_is_an_error,
    test_dynamic.test_dynamic_equals_static_for_random_sizes,
    test_dynamic.test_sizes_that_depend_on_data,
    test_dynamic.test_modules_that_take_dynamic_lengths,
    test_dynamic.test_bad_input,
    test_dynamic.test_small_operators_about_sizes,
]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TARGETS, NAME, InterpretedTarget)


@pytest.mark.parametrize("test", SHARED, ids=lambda test: test.__name__)
def test_as_on_cpu(test) -> None:
    test(target=NAME)


def test_a_target_is_small() -> None:
    """Lowering, kernels, running and all."""
    assert len(Path(interpreted.__file__).read_text().splitlines()) < 250


def test_control_flow() -> None:
    test_control.test_answers(test_control.all_loops(), target=NAME)
