"""Training through torch.compile: the forward and the backward run in the engine.

python -m examples.training
"""

import torch
from torch import nn


def main() -> None:
    """Fit a line; print the loss and what was learned."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    step = torch.compile(model, backend="migraphx_aot", options={"target": "ref"})
    optimizer = torch.optim.SGD(model.parameters(), 0.2)
    x = torch.randn(64, 3)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 3
    for turn in range(31):
        loss = (step(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if turn % 10 == 0:
            print(f"step {turn:2}: loss {loss.item():.5f}")
    print([round(w, 2) for w in model.weight[0].tolist()], round(model.bias.item(), 2))


if __name__ == "__main__":
    main()
