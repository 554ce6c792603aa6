"""python -m benchmarks.throughput, without its peers."""

from threading import Barrier

from benchmarks.throughput import ENGINES, answers_a_second, markdown
from tests.limits import HANG


def test_callers_ask_at_the_same_time() -> None:
    together = Barrier(3)
    rates = answers_a_second([lambda: together.wait(HANG)] * 3, 0.0)
    assert rates == 0.0  # after the first answers no time was left


def test_the_table_compares_with_the_best_peer() -> None:
    assert list(ENGINES) == ["openmgx", "onnxruntime", "openvino"]
    rates = {"openmgx": 30.0, "onnxruntime": 12.0, "openvino": 20.0}
    assert markdown({"models": {"net": {"4": rates}}}).splitlines()[-1] == "| net | 4 | 30.0 | 12.0 | 20.0 | 1.50 |"
