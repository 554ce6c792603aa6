"""The code of the documents that users know runs as it is there, and prints what they show.

The `.txt` files hold the blocks verbatim: `==== name`, the code, and after `---- prints` what it must print. `.cuda()`
does nothing: this build has no target gpu, and refuses what lies on one by name.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch
from torch._dynamo.backends.registry import _COMPILER_FNS

from benchmarks.models import import_torchvision
from tests.shallow import shallow
from tests.tolerances import BATCH_NORM_ERROR, MODEL_ERROR, STATISTICS, assert_each

HERE = Path(__file__).parent
SECOND = "mod2 = MyModule2(mod.linear.weight, mod.linear.bias).eval()\n"
"""The document passes two arguments more than its class takes."""


def blocks(name: str) -> dict[str, tuple[str, str]]:
    """{block: (code, what it prints)}"""
    parts = re.split(r"^==== (.*)\n", (HERE / name).read_text(), flags=re.M)[1:]
    found = {}
    for n, b in zip(parts[::2], parts[1::2], strict=True):
        code, _, prints = b.partition("---- prints\n")
        found[n] = code, prints
    return found


def run(code: str, space: dict) -> str:
    """What a block prints; numbers of the literals aside, which are random."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<seed>", "exec"), space)
    return printed.getvalue()


def plain(text: str) -> list[str]:
    """Lines without the document's colour marks, blanks and literals' values."""
    lines = [re.sub(r"^(@@|[-!+#]) ?(?=[%@x])|\s*@@$", "", line.strip()) for line in text.splitlines()]
    return [re.sub(r"@literal\{.*?\}", "@literal", line).strip() for line in lines if line.strip()]


@pytest.fixture
def space(monkeypatch):
    for kind in (torch.nn.Module, torch.Tensor):
        monkeypatch.setattr(kind, "cuda", lambda self, *args: self)
    torch._dynamo.reset()
    yield {"__name__": "seed", "torch": torch}
    torch._dynamo.reset()


def test_the_developers_guide(space):
    guide = blocks("guide.txt")
    for name in ("model", "eager"):
        run(guide[name][0], space)
    run(guide["model2"][0], space)
    run(SECOND, space)
    for name in ("symbolic", "symbolic2", "acc", "walk"):
        code, want = guide[name]
        printed = run(code, space)
        if want:
            assert plain(printed) == plain(want), name
    printed = run(guide["run"][0], space)
    assert printed.count("tensor(") == 2
    torch.testing.assert_close(space["mgx_out"], space["out"].detach())


def test_both_models_give_one_acc_graph(space):
    """`As an exercise`, says the guide."""
    guide = blocks("guide.txt")
    for name in ("model", "eager", "model2"):
        run(guide[name][0], space)
    run(SECOND + guide["acc"][0], space)
    second = run("print(acc_tracer.trace(mod2, [in_x]).graph)", space)
    want = plain(guide["acc"][1])
    assert [re.sub(r"linear[_.](weight|bias)", lambda m: m[1][0], line) for line in want] == plain(second)


def test_a_backend_of_the_users_own(space):
    """torch makes weights inputs of Dynamo's graph nowadays: they are parameters here and literals there."""
    guide = blocks("guide.txt")
    for name in ("model", "eager"):
        run(guide[name][0], space)
    code, want = guide["dynamo"]
    printed = run(code, space)

    def instructions(text: str) -> list[str]:
        lines = plain(text.partition('module: "main"')[2])
        return [re.sub(r"\(.*?\)", "", line) for line in lines if re.match(r"@\d+ = (?!@literal)", line)]

    assert instructions(printed) == instructions(want) and len(instructions(want)) == 11
    _COMPILER_FNS.pop("my_backend")


def test_the_notebook(space):
    for name, (code, _) in blocks("notebook.txt").items():
        printed = run(code, space)
        if "toy_backend" in code:
            assert "fx Graph in" in printed, name


def test_torch_fx(space):
    printed = run(blocks("torch_fx.txt")["torch.fx"][0], space)
    assert "%clamp" in printed and "def forward(self, x):" in printed


@pytest.mark.slow
def test_resnet50_by_fx(space, monkeypatch):
    """Of fewer layers, for time."""
    monkeypatch.setattr(import_torchvision().models, "resnet50", lambda: shallow("resnet50"))
    run(blocks("examples.txt")["resnet50"][0], space)
    with torch.no_grad():
        want = space["resnet"].eval()(space["sample_input"])
    assert (space["result"] - want).abs().max() <= MODEL_ERROR * want.abs().max()


@pytest.mark.slow
def test_densenet161_by_torch_compile(space, monkeypatch):
    """In training mode, as the snippet has it; fewer layers and smaller pictures, for time."""
    monkeypatch.setattr(import_torchvision().models, "densenet161", lambda: shallow("densenet161"))
    code = blocks("examples.txt")["densenet161"][0].replace("512, 512", "64, 64")
    run(code, space)
    torch._dynamo.reset()
    twin = shallow("densenet161")
    state = {k: v for k, v in space["densenet"].state_dict().items() if "running" not in k and "num_batches" not in k}
    twin.load_state_dict(state, strict=False)
    want = twin(space["sample_input"])
    assert (space["result"] - want).abs().max() <= BATCH_NORM_ERROR * want.abs().max()
    for (name, p), q in zip(space["densenet"].named_buffers(), twin.buffers(), strict=True):
        assert_each(p, q, STATISTICS, name)
