"""Whole programs, as the tests of `cpu` and of what all targets share have them."""

import pytest

from tests.targets.common import test_dynamic
from tests.targets.cpu import test_control, test_movement_indexing, test_pointwise_reduce

SHARED = [
    test_pointwise_reduce.test_pointwise_layouts,
    test_movement_indexing.test_movement,
    test_movement_indexing.test_rows_that_become_columns,
    test_control.test_a_slice_outside_is_an_error,
    test_dynamic.test_dynamic_equals_static_for_random_sizes,
    test_dynamic.test_sizes_that_depend_on_data,
    test_dynamic.test_modules_that_take_dynamic_lengths,
    test_dynamic.test_bad_input,
    test_dynamic.test_small_operators_about_sizes,
]


@pytest.mark.parametrize("test", SHARED, ids=lambda test: test.__name__)
def test_as_on_cpu(test, gpu_target: str) -> None:
    test(target=gpu_target)


@pytest.mark.slow
def test_control_flow(gpu_target: str) -> None:
    test_control.test_answers(test_control.all_loops(), target=gpu_target)
