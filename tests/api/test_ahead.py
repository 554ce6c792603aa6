"""What programs have in common is compiled before they are known, and once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import migraphx
from migraphx.targets.cpu import helpers
from tests.tolerances import assert_close

WHAT_NUMPY_HAS = """
import numpy, numpy.fft, numpy.linalg, numpy.random

modules = numpy, numpy.fft, numpy.linalg, numpy.random
before = [set(vars(m)) for m in modules]
from tests.api.test_ahead import migraphx, product

target = migraphx.get_target("cpu")
migraphx.compile_ahead(product(), target).join()
product().compile(target)
added = [set(vars(m)) - names for m, names in zip(modules, before)]
assert not any(added), added
"""


def product() -> migraphx.program:
    made = migraphx.program()
    main = made.get_main_module()
    x = main.add_parameter("x", migraphx.shape(type="float_type", lens=[3, 8]))
    weights = main.add_literal(np.arange(64, dtype=np.float32).reshape(8, 8))
    main.add_return([main.add_instruction(migraphx.op("dot"), [x, weights])])
    return made


def objects(folder: Path) -> dict[str, int]:
    """Compiled parts in the cache, and when each was written."""
    return {p.name: p.stat().st_mtime_ns for p in folder.glob("*.o")}


@pytest.fixture
def no_images() -> Iterator[None]:
    """What compares memory was not compiled yet."""
    helpers.library_path.cache_clear()
    yield
    helpers.library_path.cache_clear()


@pytest.mark.usefixtures("no_images")
def test_programs_find_what_was_compiled_ahead(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    program, target = product(), migraphx.get_target("cpu")
    text = str(program)
    migraphx.compile_ahead(program, target).join()
    ahead = objects(tmp_path)
    assert len(ahead) == 3 and str(program) == text  # the loop over a program's steps, products, helpers
    libraries = list(tmp_path.glob("*.so"))
    assert migraphx.get_target("cpu").memory_image([]) is not None
    assert len(libraries) == 1 and list(tmp_path.glob("*.so")) == libraries and objects(tmp_path) == ahead
    program.compile(target)
    assert ahead.items() < objects(tmp_path).items()
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    (got,) = program.run({"x": x})
    assert_close(np.array(got), x @ np.arange(64, dtype=np.float32).reshape(8, 8))


@pytest.mark.slow
def test_dynamo_may_read_the_names_of_numpy_meanwhile() -> None:
    """Which it does at its first graph, in another thread: names that come then are an error of its."""
    done = subprocess.run([sys.executable, "-c", WHAT_NUMPY_HAS], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


def test_without_a_compiler_the_compilation_itself_says_it(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    migraphx.compile_ahead(product(), migraphx.get_target("cpu")).join()
    assert capfd.readouterr().err == ""
    with pytest.raises(OSError, match="no-such-compiler"):
        product().compile(migraphx.get_target("cpu"))


def test_targets_without_a_compiler_have_nothing_in_common() -> None:
    migraphx.compile_ahead(product(), migraphx.get_target("ref")).join()
    with pytest.raises(ValueError, match="isa"):
        migraphx.compile_ahead(product(), migraphx.get_target("ref"), isa="x86-64-v3")
