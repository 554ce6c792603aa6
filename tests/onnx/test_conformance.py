"""The standard's own suite, with its own comparison and tolerances: all of it on `ref`, a sample on `cpu`.

Quick tests take its operators; what it writes with these, the bodies of functions and whole models, are slow.

`make conformance` runs all of it on both. Of its whole models, convolutional nets of 1,000 classes, NumPy runs here
those that take it less than a second: the others are half of the time of all, and have no operators of their own.
"""

import re
from collections.abc import Iterable

import pytest
from onnx.backend.test.case import base

from tests.tiers import few
from tools.conformance import Outcome, cases, run

FAILS: dict[str, str] = {
    "draws numbers of which the suite says that they are for information only": r"test_bernoulli.*",
    "the suite cannot compare a sequence that holds a scalar": r"test_loop16_seq_none",
    "expects the rounding errors of NumPy's fft in float": r"test_dft_inverse.*",
    "expects half rounded after every step; ours is nearer to the exact answer": r"test_attention_4d_causal_fp16.*",
}
"""Why a case need not pass -> names."""
SHARE = 24  # every so many-th case runs on cpu
LONG = re.compile(r"test_(densenet121|inception_v[12]|resnet50|vgg19)")

base.process_snippet = lambda *_: ("", "")  # the sources of its cases, which its pages show


def wrong(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Why those cases failed that are not excused."""
    known = re.compile("|".join(FAILS.values()))
    return {f"{o.group}/{o.name}": o.why[:200] for o in outcomes if o.why and not known.fullmatch(o.name)}


@pytest.mark.parametrize("derived", few([False, True], False), ids=["operators", "bodies of functions and models"])
def test_ref(derived: bool):
    every = cases()
    assert len(every) >= 2033, "the suite of onnx 1.23"
    chosen = [(group, name) for group, name in every if (group == "Real" or "_expanded" in name) == derived]
    assert not (failed := wrong(run("ref", [key for key in chosen if not LONG.fullmatch(key[1])]))), failed


def test_sample_on_cpu():
    chosen = [key for key in cases()[::SHARE] if key[0] != "Real"]
    assert not (failed := wrong(run("cpu", chosen))), failed
