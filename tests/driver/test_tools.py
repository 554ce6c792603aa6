"""`op`, `onnx`, `doctor`, `cache` and `completion`."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from argparse import SUPPRESS, Namespace
from types import SimpleNamespace

import pytest

import migraphx
from migraphx.driver.main import VERBS, build_parser
from migraphx.driver.verbs import doctor, op
from migraphx.ir.operation import DECLARED_LATE, OPERATIONS
from migraphx.targets.common import cache
from tests.driver.driving import drive, small


def test_op(capsys):
    listed = drive(capsys, "op", "--list").out.split()
    assert listed == sorted(OPERATIONS | DECLARED_LATE) and {"softmax", "unknown"} <= {*listed}
    assert drive(capsys, "op", "-l", "--json").data == listed
    assert "not supported" in drive(capsys, "op", "unknown").out
    data = drive(capsys, "op", "softmax", "--json").data
    assert data["inputs"] == 1 and data["attributes"] == [{"name": "axis", "type": "int", "default": 1}]
    assert "axis: int = 1" in drive(capsys, "op", "softmax").out
    for name in OPERATIONS:  # every default has a JSON form
        described = op.run(Namespace(list=False, name=name)).rendered(as_json=True)
        assert json.loads(described)["name"] == name
    answer = drive(capsys, "op", "sofmax")
    assert answer.code == 2 and "did you mean 'softmax'" in answer.err


def test_onnx(capsys):
    assert drive(capsys, "onnx", "--list").out.split() == migraphx.get_onnx_operators()
    assert "Conv" in drive(capsys, "onnx", "--json").data


def only(monkeypatch, *names):
    """Let doctor ask these alone."""
    chosen = {what: check for what, check in doctor.checks().items() if what in names}
    monkeypatch.setattr(doctor, "checks", lambda: chosen)


def test_doctor(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))  # every entry of a cache is read
    answer = drive(capsys, "doctor", "--json")
    findings = {f["what"]: f for f in answer.data["findings"]}
    assert answer.code == 0 and not answer.data["faults"] and "vectors of" in findings["compiler"]["found"]
    monkeypatch.setenv("CXX", "no-such-compiler")
    broken = drive(capsys, "doctor")
    assert broken.code == 1 and "no-such-compiler" in broken.out and "FAULT" in broken.out
    monkeypatch.delenv("CXX")
    only(monkeypatch, "cache")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "file"))
    assert "cache: " in drive(capsys, "doctor").out


@pytest.mark.parametrize("compiler", ["false", "true", "echo"])
def test_doctor_says_that_a_compiler_is_none(compiler, capsys, monkeypatch, tmp_path):
    """GNU's false prints its licence when it is asked for its version."""
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    only(monkeypatch, "compiler", "target cpu")
    answer = drive(capsys, "doctor", "--json")
    for finding in answer.data["findings"]:
        assert finding["fault"] and "no working C++ compiler" in finding["found"], finding
        assert f"`{compiler}`" in finding["found"] and "Copyright" not in finding["found"]


def test_doctor_judges_the_cache_as_a_run_does(capsys, monkeypatch, tmp_path):
    home = tmp_path / "cache"
    monkeypatch.setenv("OPENMGX_CACHE", str(home))
    only(monkeypatch, "cache")
    before = os.umask(0)
    try:
        assert drive(capsys, "doctor").code == 0
    finally:
        os.umask(before)
    assert cache.lookup("0" * 40, ".so") is None and stat.S_IMODE(home.stat().st_mode) == 0o700
    home.chmod(0o770)
    answer = drive(capsys, "doctor")
    assert answer.code == 1 and "others may write to it" in answer.out
    home.chmod(0o700)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    assert "is full" in drive(capsys, "doctor").out


def test_doctor_on_the_temporary_folder(capsys, monkeypatch, tmp_path):
    only(monkeypatch, "temporary folder")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    answer = drive(capsys, "doctor")
    assert answer.code == 0 and str(tmp_path) in answer.out
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path.parent))
    assert f"TMPDIR={tmp_path} cannot be written to" in drive(capsys, "doctor").out
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    assert "is full" in drive(capsys, "doctor").out


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A cache of three objects, used now, 10 and 100 days ago, the last two and something foreign."""
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path))
    for k, days in enumerate((0, 10, 100)):
        path = cache.obtain(f"{k}" * 40, ".so", lambda p: p.write_bytes(b"x" * 10**6))
        moment = time.time() - days * 86400
        os.utime(path, (moment, moment))
    (tmp_path / "mine.txt").write_text("not ours")
    return tmp_path


def held():
    return {e.path.name[0] for e in cache.entries()}


def test_cache_ls(store, capsys):
    data = drive(capsys, "cache", "ls", "--json").data
    assert [e["bytes"] for e in data["entries"]] == [10**6] * 3 and data["folder"] == str(store)
    assert "3 entries, 3 MB" in drive(capsys, "cache", "ls").out


def test_cache_prune_by_age_damage_and_size(store, capsys):
    assert len(drive(capsys, "cache", "prune", "--json").data["removed"]) == 1 and held() == {"0", "1"}
    (store / ("0" * 40 + ".so")).write_bytes(b"damaged")
    drive(capsys, "cache", "prune")
    assert held() == {"1"}
    drive(capsys, "cache", "prune", "--max-size", 0)
    assert held() == set()


def test_cache_prunes_what_is_dated_in_the_future(store, capsys):
    """A clock that was wrong: nobody knows how long they are unused, and nothing else would ever remove them."""
    for path, ahead in zip(sorted(store.glob("*.so")), (0, 3600, 86400 * 500), strict=True):
        os.utime(path, (time.time() + ahead, time.time()))
    assert len(drive(capsys, "cache", "prune", "--json").data["removed"]) == 1 and held() == {"0", "1"}


def test_cache_clear_leaves_what_is_not_ours(store, capsys):
    assert "removed 3 entries" in drive(capsys, "cache", "clear").out
    assert [p.name for p in store.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_verb_and_option(capsys, shell):
    out = drive(capsys, "completion", shell).out
    _, parsers = build_parser()
    for name, parser in parsers.items():
        assert name.split()[0] in out
        shown = [a for a in parser._actions if a.help != SUPPRESS]
        flags = [f for a in shown for f in a.option_strings if f.startswith("--")]
        assert " " in name or all(f.lstrip("-") in out for f in flags)
    assert set(parsers) == set(VERBS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_parses_in_the_shell(capsys, shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    drive(capsys, "completion", shell, "-o", tmp_path / "script")
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
@pytest.mark.parametrize(
    ("line", "wanted"),
    [("ver", ["verify"]), ("perf --fp", ["--fp16", "--fp8"]), ("cache c", ["clear"]), ("perf dif", ["diff"])],
)
def test_fish_completes(capsys, line, wanted, tmp_path):
    drive(capsys, "completion", "fish", "-o", tmp_path / "script")
    command = f"source {tmp_path}/script; cd {tmp_path}; complete -C 'migraphx-driver {line}'"
    done = subprocess.run(["fish", "-c", command], capture_output=True, text=True, check=True)
    assert sorted(row.split("\t")[0] for row in done.stdout.splitlines()) == wanted


def completed(script, *words):
    line = f'source "{script}"; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _migraphx_driver; '
    done = subprocess.run(["bash", "-c", line + "echo ${COMPREPLY[@]}"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes(capsys, tmp_path):
    script = tmp_path / "completion.bash"
    drive(capsys, "completion", "bash", "-o", script)
    assert completed(script, "migraphx-driver", "ver") == ["verify"]
    assert completed(script, "migraphx-driver", "perf", "--fp") == ["--fp16", "--fp8"]
    assert completed(script, "migraphx-driver", "perf", "di") == ["diff"]
    assert completed(script, "migraphx-driver", "cache", "c") == ["clear"]
    assert completed(script, "migraphx-driver", "read", "--log-level", "d") == ["debug"]


@pytest.mark.slow
def test_every_verb_answers_json(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENMGX_CACHE", str(tmp_path / "cache"))
    model, saved = small(tmp_path), tmp_path / "report.json"
    assert drive(capsys, "perf", model, "--ref", "-n", 5, "--json", "-o", saved).code == 0
    json.loads(saved.read_text())
    words: dict[str, list] = {
        **{verb: [model] for verb in ("read", "params")},
        **{verb: [model, "--ref"] for verb in ("compile", "run", "time", "verify")},
        "perf diff": ["diff", saved, saved],
        "cache": ["ls"],
        "completion": ["bash"],
    }
    for verb in VERBS:
        if verb not in ("perf", "explain", "doctor"):  # seen above and in their own tests
            answer = drive(capsys, verb.split()[0], *words.get(verb, []), "--json")
            assert answer.code == 0 and answer.data, verb
