"""The measures of a small tree are those that one counts by hand."""

import ast
import subprocess
from pathlib import Path

from tests.architecture.checks import functions
from tools.measures import Python, checked_out, is_typed, measured, report, structure

ENGINE = '''\
"""One file."""
from migraphx.ir.shape import Shape  # why


def typed(x: int, *rest: int) -> int:
    """It has a docstring."""
    return x


class A:
    def typed(self) -> None:
        def inner(y):
            return y
        # all that it does
'''
FILES = {
    "src/migraphx/one.py": ENGINE,
    "src/migraphx/ir/shape.py": "from migraphx.ops.dot import *\nKNOWN = {'dot', 'gather', 'concat'}\n",
    "src/migraphx/ops/dot.py": "def f():\n    from migraphx.ir import shape\n",
    "src/migraphx/ir/builder.pyi": "x: int\n",
    "src/migraphx/targets/cpu/kernels/vec.hpp": "a\nb\n",
    "src/torch_migraphx/a.py": "def g():\n    pass\n",
    "tests/test_one.py": "def test():\n    pass\n",
    "tools/one.py": "def f():\n    pass\n",
    "benchmarks/one.py": "def f():\n    pass\n",
}


def tree(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_files_and_functions_are_counted(tmp_path):
    lines = {"one.py": 14, "ir/shape.py": 2, "ops/dot.py": 2}
    sizes = {"one.py:5 typed": 3, "one.py:11 typed": 3, "one.py:12 inner": 2, "ops/dot.py:1 f": 2}
    found = measured(tree(tmp_path), "src/migraphx")
    assert found == Python(lines, sizes, comments=2, documented=1, typed=2)
    assert found.row() == ("3", "18", "2", "14 one.py", "4", "2", "3 one.py:5 typed", "11.1 %", "25.0 %", "50.0 %")


def test_a_type_is_missing_where_one_parameter_or_the_result_has_none():
    texts = [
        "def f(self, a: int) -> int: ...",
        "def f(a) -> int: ...",
        "def f(*, a: int): ...",
        "def f(**a) -> int: ...",
    ]
    assert [is_typed(f) for text in texts for f in functions(ast.parse(text))] == [True, False, False, False]


def test_what_is_to_be_none_is_found(tmp_path):
    assert structure(tree(tmp_path)) == {
        "mutual rooms": 1,
        "circles of files": 1,
        "hidden imports": 1,
        "wildcard imports": 1,
        "lists of operators' names": 1,
        "lines of generated stubs": 1,
    }


def test_the_report_shows_them_of_a_commit_too(tmp_path, monkeypatch):
    root = tree(tmp_path / "here")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", *command], cwd=root, check=True)
    monkeypatch.setattr("tools.measures.PROJECT", root)
    text = report(checked_out("HEAD", str(tmp_path / "there")))
    assert text == report(root)
    assert "engine      3      18" in text and "C++ headers: 1 files, 2 lines, largest 2 vec.hpp" in text
    assert "mutual rooms               1" in text
