"""Steps that choose their own next inputs, against transformers' processors and torch.multinomial."""

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import migraphx
from benchmarks.models import import_transformers

pytest.importorskip("transformers")
import_transformers()
process = pytest.importorskip("transformers.generation.logits_process")


NAMES = ("ids", "positions", "start")
POSITIONS = 64


class Model:
    """Scores are a row of a table for each token, plus one for each position."""

    def __init__(self, target: str, vocabulary: int, sequences: int, strange: float = 0) -> None:
        """`strange`: a score of the second sequence in the fifth step, where it is not 0."""
        rng = np.random.default_rng(vocabulary + sequences)
        self.tables = [rng.standard_normal((n, vocabulary)).astype(np.float32) * 3 for n in (vocabulary, POSITIONS)]
        if strange:
            self.tables[1][3 + 1 + 4, 2] = strange
        p = migraphx.program()
        main = p.get_main_module()
        lens = zip(NAMES, (sequences, sequences, 1), strict=True)
        given = [main.add_parameter(n, migraphx.shape(type="int64_type", lens=[of])) for n, of in lens]
        ids, positions, start = given
        most = main.add_literal(np.full(sequences, POSITIONS))
        places = ids, main.add_instruction(migraphx.op("mod"), [positions, most])
        tables = [main.add_literal(t) for t in self.tables]
        rows = [main.add_instruction(migraphx.op("gather"), [t, g]) for t, g in zip(tables, places, strict=True)]
        scores = main.add_instruction(migraphx.op("add"), rows)
        start = main.add_instruction(migraphx.op("convert", target_type="float_type"), [start])
        start = main.add_instruction(migraphx.op("multibroadcast", out_lens=[sequences, vocabulary]), [start])
        main.add_return([scores, main.add_instruction(migraphx.op("add"), [scores, start])])
        p.compile(migraphx.get_target(target))
        self.program = p
        self.inputs = [rng.integers(0, vocabulary, sequences), np.arange(sequences) + 3, np.array([7])]
        self.logits = np.zeros((sequences, vocabulary), np.float32)
        self.rest = np.zeros_like(self.logits)

    def decode(self, **options: Any) -> Any:
        target: Any = migraphx.get_target("cpu")
        return target.decode(self.logits, self.inputs, migraphx.DecodeOptions(**options))

    def run(self, decode: Any, most: int, told: Callable[[int], object] | None = None) -> np.ndarray:
        """The tokens {steps, sequences} that it chose."""
        text = np.full((most, len(self.logits)), -1)
        decode.begin(text, told)
        assert self.program.executable.run_repeatedly(decode, *self.places())
        assert (text[decode.steps + 1 :] == -1).all()
        return text[: decode.steps]

    def places(self) -> tuple[list[int], list[int]]:
        """Addresses of inputs and outputs."""
        given: dict[str, np.ndarray] = dict(zip(NAMES, self.inputs, strict=True))
        inputs = [given[n] for n in self.program.executable.parameters]
        inputs, outputs = ([a.ctypes.data for a in arrays] for arrays in (inputs, (self.logits, self.rest)))
        return inputs, outputs

    def scores(self, ids: np.ndarray, step: int) -> torch.Tensor:
        """What the program gives in a step, in torch."""
        tables = list(map(torch.from_numpy, self.tables))
        return tables[0][torch.from_numpy(ids)] + tables[1][torch.arange(len(ids)) + 3 + step]


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize(("vocabulary", "sequences"), [(5, 1), (16, 3), (33, 2), (1000, 1)])
def test_the_likeliest(target, vocabulary, sequences):
    model = Model(target, vocabulary, sequences)
    ids = model.inputs[0].copy()
    got = model.run(model.decode(), 20)
    for step, chosen in enumerate(got):
        ids = model.scores(ids, step).argmax(-1).numpy()
        np.testing.assert_array_equal(chosen, ids)
    np.testing.assert_array_equal(model.inputs[0], ids)
    np.testing.assert_array_equal(model.inputs[1], np.arange(sequences) + 3 + 20)
    assert len(got) == 20 and model.inputs[2] == 27


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1},
        {"top_k": 3},
        {"top_k": 50, "temperature": 0.6},
        {"top_k": 50, "temperature": 1.7, "top_p": 0.8},
        {"top_k": 200, "top_p": 0.3},
        {"top_k": 5000, "top_p": 0.0},
    ],
)
def test_drawn_tokens_are_those_of_torch(target, heard, options):
    model = Model(target, 500, 2)
    warpers = [process.TemperatureLogitsWarper(options["temperature"])] if "temperature" in options else []
    warpers.append(process.TopKLogitsWarper(options["top_k"]))
    warpers += [process.TopPLogitsWarper(options["top_p"])] if "top_p" in options else []
    ids, want = model.inputs[0].copy(), []
    torch.manual_seed(4)
    for step in range(24):
        scores = model.scores(ids, step)
        for warper in warpers:
            scores = warper(None, scores)
        ids = torch.multinomial(torch.softmax(scores, -1), 1)[:, 0].numpy()
        want.append(ids)
        if heard:
            torch.rand(3)
    after = torch.get_rng_state()
    torch.manual_seed(4)
    decode = model.decode(numbers=lambda n: torch.rand(n, 2, 500, dtype=torch.float64).numpy(), **options)
    got = model.run(decode, 24, (lambda _: torch.rand(3)) if heard else None)
    np.testing.assert_array_equal(got, want)
    assert torch.equal(torch.get_rng_state(), after)


def test_the_largest_that_are_equal_all_count():
    """As torch's mask keeps them; of scores that are equal each is drawn some time."""
    model = Model("cpu", 40, 1)
    numbers = np.random.default_rng(0)
    decode = model.decode(top_k=15, numbers=lambda n: numbers.random((n, 1, 40)))
    seen = set()
    for _ in range(2000):
        model.logits[:] = np.repeat([2.0, 1.0, 0.0, -1.0], 10)
        text = np.zeros((1, 1), np.int64)
        decode.begin(text)
        assert not decode.more() and decode.steps == 1
        seen.add(int(text[0, 0]))
    assert seen == set(range(20))


def test_sequences_end_and_go_on_with_padding():
    model = Model("cpu", 12, 3)
    free = model.run(model.decode(), 30)
    for padding in (None, 11):
        model = Model("cpu", 12, 3)
        ends = [int(free[2, 0]), int(free[5, 1]), int(free[9, 2])]
        got = model.run(model.decode(ends=ends, padding=padding), 30)
        ids, ended, want = Model("cpu", 12, 3).inputs[0], np.zeros(3, bool), []
        for step in range(30):
            ids = model.scores(ids, step).argmax(-1).numpy()
            ids = ids if padding is None else np.where(ended, padding, ids)
            ended |= np.isin(ids, ends)
            want.append(ids)
            if ended.all():
                break
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("options", [{}, {"top_k": 4}])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_not_chosen_from(target, options, wrong):
    """The steps before are kept; infinity is the likeliest token, but cannot be drawn."""
    model = Model(target, 30, 2, strange=wrong)
    got = model.run(model.decode(numbers=lambda n: np.full((n, 2, 30), 0.5), **options), 12)
    assert len(got) == (12 if wrong == np.inf and not options else 4)


def test_what_a_listener_raises_ends_the_steps():
    model = Model("cpu", 20, 1)

    def told(step: int) -> None:
        if step == 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        model.run(model.decode(), 20, told)
    assert model.inputs[2] == 7 + 4
    assert len(model.run(model.decode(), 5)) == 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_signal_ends_the_steps():
    def handler(*_: object) -> None:
        raise TimeoutError("rung")

    model = Model("cpu", 2000, 1)
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError, match="rung"):
            model.run(model.decode(), 10**6)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_changed_memory_ends_the_steps():
    """It is looked at every few runs."""
    model, memory = Model("cpu", 20, 1), np.zeros(1)
    target: Any = migraphx.get_target("cpu")
    begin = np.array([memory.ctypes.data])
    image, decode = target.memory_image([(begin, begin + 8)]), model.decode()
    text = np.zeros((40, 1), np.int64)

    def told(step: int) -> None:
        if step == 10:
            memory[0] = 1

    decode.begin(text, told)
    assert not model.program.executable.run_repeatedly(decode, *model.places(), image)
    assert 11 <= decode.steps < 40 and model.inputs[2] == 7 + decode.steps


def test_without_a_compiler_there_is_none(no_compiler):
    assert Model("ref", 5, 1).decode() is None
    no_compiler()
    assert Model("ref", 5, 1).decode() is not None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"logits": np.zeros((2, 30))}, "logits has to be 60 elements of float32.*float64"),
        ({"logits": np.zeros((2, 60), np.float32)[:, ::2]}, "logits .*side by side"),
        ({"logits": np.zeros(30, np.float32)}, r"not \(30,\) and 3"),
        ({"inputs": []}, r"\(2, 30\) and 0"),
        ({"ids": np.zeros(2, np.int32)}, "ids .*int64.*int32"),
        ({"positions": np.zeros(1, np.int64)}, "positions has to be 2 elements"),
        ({"start": np.broadcast_to(np.int64(0), 1)}, "start .*write"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 3}, "random numbers"),
        ({"top_k": 3, "top_p": 1.5}, "top_p"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": np.nan}, "temperature"),
    ],
)
def test_what_it_cannot_take_is_an_error(wrong, message):
    model = Model("ref", 30, 2)
    model.logits = wrong.pop("logits", model.logits)
    model.inputs = [wrong.pop(n, a) for n, a in zip(NAMES, wrong.pop("inputs", model.inputs), strict=False)]
    with pytest.raises(ValueError, match=message):
        model.decode(**wrong)


def test_text_and_numbers_that_do_not_fit_are_an_error():
    model = Model("ref", 30, 2)
    for text in (np.zeros((3, 1), np.int64), np.zeros((3, 2)), np.zeros((0, 2), np.int64)):
        with pytest.raises(ValueError, match="text"):
            model.decode().begin(text)
    decode = model.decode(top_k=4, numbers=lambda n: np.zeros((n, 2, 29)))
    with pytest.raises(ValueError, match=r"numbers for 3 tokens have shape \(3, 2, 29\)"):
        decode.begin(np.zeros((3, 2), np.int64))
