"""python -m benchmarks.throughput, without its peers."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from benchmarks.engines import Task
from benchmarks.throughput import ENGINES, answers_a_second, markdown, start_worker
from tests.limits import HANG


def test_callers_ask_at_the_same_time() -> None:
    together = Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        rates = answers_a_second(pool, [lambda: together.wait(HANG)] * 3, 0.0)
    assert rates == 0.0  # after the first answers no time was left


@pytest.mark.slow
def test_a_process_that_dies_says_why(tmp_path: Path) -> None:
    server = start_worker("openmgx", Task("mobilenet_v2", tmp_path, 1), 1)  # there is no model
    with pytest.raises(RuntimeError, match=r"model\.onnx"):
        server.read()
    server.stop()


def test_the_table_compares_with_the_best_peer() -> None:
    assert list(ENGINES) == ["openmgx", "onnxruntime", "openvino"]
    rates = {"openmgx": 30.0, "onnxruntime": 12.0, "openvino": 20.0}
    assert markdown({"models": {"net": {"4": rates}}}).splitlines()[-1] == "| net | 4 | 30.0 | 12.0 | 20.0 | 1.50 |"
