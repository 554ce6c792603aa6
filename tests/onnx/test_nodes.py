"""Every backend node case of package onnx passes on `ref`, but for those that node_cases.py excuses."""

from tests.onnx.node_cases import check, load, reason

FEWEST = 1629  # of 1884; raise it as more operators come


def test_node_cases():
    failed, passed, excused = {}, 0, []
    for case in load():
        why = reason(case.name)
        try:
            check(case)
            passed += 1
            if why:
                excused.append(case.name)
        except Exception as error:
            if not why:
                failed[case.name] = f"{type(error).__name__}: {error}"[:200]
    assert not failed, f"{passed} pass; these fail: {failed}"
    assert passed >= FEWEST, passed
    print(f"{passed} node cases pass; excused without need: {excused}")
