"""Classical machine learning against onnxruntime and scikit-learn, on ref and on cpu."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.svm import SVR

import migraphx
import migraphx.backend as backend
from migraphx.onnx.graph import OnnxError
from tests.onnx.one_node import theirs
from tests.tiers import few
from tests.tolerances import assert_close

rng = np.random.default_rng(3)
X = rng.standard_normal((20, 4)).astype(np.float32)
Y = X @ np.array([1, -2, 0.5, 0]) + 0.1
WHOLE = rng.integers(0, 4, (6, 3))
DOMAIN = "ai.onnx.ml"
BACKENDS = (backend.RefBackend, backend.MIGraphXBackend)


def model(op: str, inputs: list[np.ndarray], outputs: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"x{k}" for k in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, inputs, strict=True)
    ]
    results = [onnx.ValueInfoProto(name=f"y{k}") for k in range(outputs)]
    node = helper.make_node(op, names, [r.name for r in results], domain=DOMAIN, **attributes)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    return helper.make_model(helper.make_graph([node], "ml", infos, results), opset_imports=opsets, ir_version=9)


def check(op: str, *inputs: np.ndarray, outputs: int = 1, cpu: bool = False, **attributes: Any) -> list[np.ndarray]:
    """onnxruntime's answers, which are ours on ref, and on cpu where that is asked for."""
    message = model(op, list(inputs), outputs, **attributes)
    want = theirs(message.SerializeToString(), {f"x{k}": a for k, a in enumerate(inputs)})
    for kind in BACKENDS if cpu else BACKENDS[:1]:
        for g, w in zip(kind.run_model(message, inputs), want, strict=True):
            if w.dtype.kind == "f":
                assert_close(g, w, scale=10)
            else:
                assert g.tolist() == w.tolist() and g.shape == w.shape
    return want


def test_features():
    holes = np.where(X > 1, np.float32(np.nan), X)
    check("Scaler", X, offset=[0.5, 1.0, 0.0, -1.0], scale=[2.0, 1.0, 0.5, 3.0])
    check("Scaler", WHOLE, offset=[0.5], scale=[2.0])
    check("Imputer", holes, cpu=True, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    check("Imputer", WHOLE, imputed_value_int64s=[9], replaced_value_int64=2)
    check("FeatureVectorizer", X, X[:, :2].copy(), inputdimensions=[3, 3])
    check("ArrayFeatureExtractor", X, np.array([[3, 0]]))
    check("Binarizer", X, threshold=0.25)
    for norm in ("MAX", "L1", "L2"):
        check("Normalizer", X - 2, norm=norm)
        check("Normalizer", np.zeros_like(X), norm=norm)


def test_labels():
    check("LabelEncoder", WHOLE, keys_int64s=[0, 2, 3], values_int64s=[7, -5, 1], default_int64=4)
    check("LabelEncoder", WHOLE, keys_int64s=[0, 2], values_strings=["zero", "two"], default_string="?")
    check("LabelEncoder", X[0], keys_floats=X[0, 1:3].tolist(), values_floats=[3.0, 4.0], default_float=-1.0)
    check("OneHotEncoder", WHOLE, cpu=True, cats_int64s=[3, 0, 1])
    text = np.array(["a", "q", "b"], object)
    check("OneHotEncoder", text, cats_strings=["b", "a"])
    check("CategoryMapper", text, cats_strings=["b", "a"], cats_int64s=[5, 6])
    check("CategoryMapper", WHOLE, cats_strings=["b", "a"], cats_int64s=[2, 1], default_string="none")


def test_nan_is_a_label():
    """As the standard says; onnxruntime finds it from version 4 on only."""
    x = np.array([1.5, np.nan, -2.0], np.float32)
    given = {"keys_floats": x[:2].tolist(), "values_int64s": [3, 4], "default_int64": -1}
    for kind in BACKENDS:
        (got,) = kind.run_model(model("LabelEncoder", [x], 1, **given), [x])
        assert got.tolist() == [3, 4, -1]


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_models(post):
    weights = rng.standard_normal(12).round(2).tolist()
    given = {"coefficients": weights, "intercepts": [0.1, 0.2, -0.3], "post_transform": post}
    check("LinearClassifier", X, outputs=2, classlabels_ints=[4, 5, 9], cpu=post == "SOFTMAX_ZERO", **given)
    if post == "NONE":
        check("LinearClassifier", X, outputs=2, classlabels_strings=["x", "y", "z"], **given)
        check("LinearRegressor", X, targets=3, **given)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["LINEAR", "RBF", "POLY", "SIGMOID"])
def test_support_vectors(kernel):
    fitted = SVR(kernel=kernel.lower(), gamma=0.3, coef0=0.5, degree=3).fit(X, Y)  # type: ignore[arg-type]
    given = {
        "coefficients": fitted.dual_coef_.reshape(-1).tolist(),
        "support_vectors": fitted.support_vectors_.reshape(-1).tolist(),
        "n_supports": len(fitted.support_vectors_),
        "rho": fitted.intercept_.tolist(),
        "kernel_params": [0.3, 0.5, 3.0],
        "kernel_type": kernel,
    }
    (want,) = check("SVMRegressor", X, cpu=kernel == "RBF", **given)
    assert_close(want[:, 0], fitted.predict(X).astype(np.float32), scale=100)


def flattened(trees: list[Any], kind: str, share: float) -> dict[str, Any]:
    """scikit-learn's trees as ONNX lists them; each leaf gives `share` of its value to each target."""
    made: dict[str, list] = {n: [] for n in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")}
    made |= {"modes": [], "values": []}
    leaves: dict[str, list] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    for t, tree in enumerate(e.tree_ for e in trees):
        for n in range(tree.node_count):
            leaf = tree.children_left[n] < 0
            row = (t, n, max(tree.feature[n], 0), max(tree.children_left[n], 0), max(tree.children_right[n], 0))
            for name, value in zip(list(made)[:5], row, strict=True):
                made[name].append(int(value))
            made["modes"].append("LEAF" if leaf else "BRANCH_LEQ")
            made["values"].append(0.0 if leaf else float(tree.threshold[n]))
            for k, value in enumerate(tree.value[n].reshape(-1) if leaf else ()):
                for name, v in zip(leaves, (t, n, k, float(value) * share), strict=True):
                    leaves[name].append(v)
    return {f"nodes_{n}": v for n, v in made.items()} | {f"{kind}_{n}": v for n, v in leaves.items()}


def test_forests():
    names = np.digitize(Y, [-1, 1])
    forest = RandomForestClassifier(7, max_depth=4, random_state=0).fit(X, names)
    given = flattened(forest.estimators_, "class", 1 / 7)
    label, shares = check("TreeEnsembleClassifier", X, outputs=2, cpu=True, classlabels_int64s=[0, 1, 2], **given)
    np.testing.assert_array_equal(label, forest.predict(X))
    assert_close(shares, forest.predict_proba(X).astype(np.float32), scale=10)
    boosted = GradientBoostingRegressor(n_estimators=9, max_depth=3, init="zero").fit(X, Y)
    given = flattened(list(boosted.estimators_[:, 0]), "target", 0.1)
    for how in ("SUM", "MIN", "MAX", "AVERAGE"):
        (want,) = check("TreeEnsembleRegressor", X, n_targets=1, aggregate_function=how, **given)
        if how == "SUM":
            assert_close(want[:, 0], boosted.predict(X).astype(np.float32), scale=10)


def test_two_classes_by_one_weight():
    tree: dict[str, Any] = {"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0]}
    tree |= {"nodes_modes": ["BRANCH_GT", "LEAF", "LEAF"], "nodes_values": [0.1, 0.0, 0.0]}
    tree |= {"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "class_ids": [0, 0]}
    tree |= {"class_treeids": [0, 0], "class_nodeids": [1, 2], "classlabels_int64s": [4, 2]}
    for weights in ([0.7, -1.2], [0.7, 0.2]):
        for base in ({}, {"base_values": [0.1]}, {"base_values": [-0.4]}):
            for how in ("NONE", "LOGISTIC", "SOFTMAX"):
                given: Any = tree | base | {"class_weights": weights, "post_transform": how}
                check("TreeEnsembleClassifier", X, outputs=2, **given)


def machine(classes: int, probabilities: bool, **more: Any) -> Any:
    """Support vectors {2, 3, 2}, of the first `classes`."""
    counts = [2, 3, 2][:classes]
    pairs, vectors = classes * (classes - 1) // 2, sum(counts)

    def normal(*lens: int) -> list[float]:
        return rng.standard_normal(lens).reshape(-1).tolist()

    made: dict[str, Any] = {"vectors_per_class": counts, "support_vectors": normal(vectors, 4), "rho": normal(pairs)}
    made |= {"coefficients": normal(classes - 1, vectors), "classlabels_ints": [7, 3, 5][:classes]}
    if probabilities:
        made |= {"prob_a": (-rng.random(pairs) - 0.5).tolist(), "prob_b": normal(pairs)}
    return made | {"kernel_type": "RBF", "kernel_params": [0.4, 0.1, 2.0]} | more


@pytest.mark.parametrize("classes", few([2, 3], at=[0]))
def test_support_vector_classifier(classes):
    for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        check("SVMClassifier", X, outputs=2, **machine(classes, False, post_transform=how))
    for how in ("NONE", "SOFTMAX"):
        check("SVMClassifier", X, outputs=2, **machine(classes, True, post_transform=how))
    for kind in ("LINEAR", "POLY", "SIGMOID"):
        check("SVMClassifier", X, outputs=2, **machine(classes, False, kernel_type=kind))
    check("SVMClassifier", X, outputs=2, cpu=classes == 3, **machine(classes, True))


def test_support_vector_classifier_without_vectors():
    linear: Any = {"kernel_type": "LINEAR", "kernel_params": [0.0] * 3}
    linear |= {"coefficients": rng.standard_normal(12).tolist(), "rho": [0.3]}
    check("SVMClassifier", X, outputs=2, classlabels_ints=[7, 3, 5], **linear)


def test_labels_that_are_strings():
    """The scores come without the label; with it, the error says how to do without."""
    node = helper.make_node("LinearClassifier", ["x"], ["y", "z"], domain=DOMAIN, coefficients=[0.5] * 4,
                            intercepts=[0.1], classlabels_strings=["no", "yes"], post_transform="LOGISTIC")  # fmt: skip
    after = helper.make_node("Identity", ["y"], ["label"])
    maps = helper.make_node("ZipMap", ["z"], ["maps"], domain=DOMAIN, classlabels_strings=["no", "yes"])
    infos = [helper.make_tensor_value_info("x", 1, X.shape)]
    results = [onnx.ValueInfoProto(name=n) for n in ("label", "z", "maps")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
    graph = helper.make_graph([node, after, maps], "ml", infos, results)
    data = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    with pytest.raises(ValueError, match="output 'label': strings that a run would choose; output_names"):
        migraphx.parse_onnx_buffer(data)
    program = migraphx.parse_onnx_buffer(data, output_names=["z", "maps"])
    program.compile(migraphx.get_target("ref"))
    _, want, rows = theirs(data, {"x": X})
    scores, columns = program.run({"x": X})
    assert_close(np.array(scores), want)
    assert_close(np.array(columns), np.array([[row["no"], row["yes"]] for row in rows.tolist()], np.float32))


def test_bad_trees_are_named():
    tree: dict[str, Any] = {"nodes_treeids": [0], "nodes_nodeids": [0], "nodes_featureids": [0], "nodes_values": [0.0]}
    tree |= {"nodes_truenodeids": [0], "nodes_falsenodeids": [0]}
    tree |= {"target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [1.0], "n_targets": 1}
    for mode, why in (("BRANCH_LEQ", "cycle"), ("BRANCH_ODD", "BRANCH_ODD")):
        with pytest.raises(OnnxError, match=why):
            backend.run_model(model("TreeEnsembleRegressor", [X], 1, nodes_modes=[mode], **tree), [X])
    double = numpy_helper.from_array(np.array([0.5]), "base")
    given = tree | {"nodes_modes": ["LEAF"], "base_values_as_tensor": double}
    (got,) = backend.run_model(model("TreeEnsembleRegressor", [X], 1, **given), [X])
    assert (got == 1.5).all()
