"""The text of a kernel has what it names, and nothing else."""

import ast
import gc
import threading
from pathlib import Path

import pytest

from migraphx.targets.gpu.emit import source
from migraphx.targets.gpu.emit.shell import Shell


def functions(text: str) -> list[str]:
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def test_a_text_has_what_it_names():
    text = source.complete("@triton.jit\ndef mine(x):\n    return scalar_sinh(x)\n")
    assert text.startswith("import triton\nimport triton.language as tl\n")
    assert functions(text)[-1] == "mine"
    assert {"scalar_expm1", "scalar_exp", "power_of_two"} <= set(functions(text))
    assert not {"scalar_cosh", "gather", "key_of"} & set(functions(text))
    assert source.complete("@triton.jit\ndef scalar_sinh(x):\n    return x\n").count("def scalar_sinh") == 1


def test_the_text_of_a_function_of_kernels():
    text = source.kernel_text("gather")
    assert {"gather", "checked", "report"} == set(functions(text))
    assert source.kernel_text("gather") == text


def test_two_functions_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in "ab":
        (tmp_path / f"{name}.py").write_text("def twice(x):\n    return x\n")
    monkeypatch.setattr(source, "KERNELS", tmp_path)
    source.definitions.cache_clear()
    try:
        with pytest.raises(ValueError, match="two definitions of 'twice'"):
            source.definitions()
    finally:
        source.definitions.cache_clear()


def test_what_8_or_4_divides_is_known_to_the_compiler() -> None:
    """Eight halves are a vector, and four floats. Lengths of inputs make no kernels of their own."""
    shell = Shell()
    texts = [shell.size(40, fine=True), shell.size(48, fine=True), shell.size(44, fine=True), shell.size(40)]
    assert texts == ["(n0 * 8)", "n1", "(n2 * 4)", "n3"] and shell.numbers == [5, 48, 11, 40]


def test_threads_that_parse_meanwhile_do_not_disturb() -> None:
    """A collection of garbage, which the parser's own objects begin, may let another thread parse."""

    def collected(phase: str, info: object) -> None:
        if phase == "start":
            other = threading.Thread(target=ast.parse, args=("x = 1",))
            other.start()
            other.join()

    before, text = gc.get_threshold(), "\n".join(f"x{k} = [{k}, ({k}, {k})]" for k in range(200))
    gc.callbacks.append(collected)
    gc.set_threshold(50, 1000, 1000)
    try:
        assert len(source.parsed(text).body) == 200
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)
