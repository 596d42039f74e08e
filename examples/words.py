"""How many words of a review may be replaced by any others before its class changes? Words are hidden at random.

The reviews are made up here, so that nothing is downloaded: 24 words, of which about a third speak for or against. Each view
keeps 6 words. There are 134 596 of them: they are sampled, so the certificates have an alpha. Runs of words are certified
exactly, from 6 chunks of 4 words.

    python examples/words.py
"""

from collections import Counter

import numpy as np
import torch
from torch import Tensor, nn

import smoothcert as sc
from smoothcert.training.viewing import Viewing
from smoothcert.views import View

GOOD, BAD = (
    ["good", "fine", "great", "lovely", "bright", "warm", "clever"],
    ["bad", "dull", "poor", "dreary", "cold", "stale", "clumsy"],
)
OTHER = [
    "the",
    "a",
    "film",
    "plot",
    "actor",
    "scene",
    "music",
    "story",
    "and",
    "but",
    "of",
    "in",
    "it",
    "was",
    "with",
    "this",
    "that",
    "end",
]
WORDS = [*GOOD, *BAD, *OTHER]
LENGTH, HIDDEN = 24, -1.0


class Bag(nn.Module):
    """Word numbers to two logits: the mean of learned vectors of the words that are not hidden, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(len(WORDS) + 1, 16, padding_idx=0)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, words: Tensor) -> Tensor:
        """Logits of reviews as whole numbers in floats, (batch, LENGTH); HIDDEN is number −1."""
        numbers = (words.long() + 1).clamp(0, len(WORDS))  # the probe of a classifier also asks about what are no words
        shown = (numbers > 0).sum(dim=1, keepdim=True).clamp_min(1)
        return self.head(self.vectors(numbers).sum(dim=1) / shown)


def reviews(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Reviews and their classes: eight words of their own kind, one or two of the other, the rest neither."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, 2, count)
    texts = []
    for label in labels:
        own, rival = (GOOD, BAD) if label else (BAD, GOOD)
        text = [*chance.choice(own, 8), *chance.choice(rival, chance.integers(0, 3))]
        text += list(chance.choice(OTHER, LENGTH - len(text)))
        texts.append([WORDS.index(word) for word in chance.permutation(text)])
    return torch.tensor(texts, dtype=torch.float32), torch.from_numpy(labels)


def trained(views: View) -> Bag:
    """A network that learned from a fresh view of each review."""
    torch.manual_seed(0)
    model, (x, y) = Bag(), reviews(4000, seed=0)
    shown = Viewing(views, torch.Generator().manual_seed(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        batch = torch.randint(len(x), (256,))
        loss = nn.functional.cross_entropy(model(shown.copies(x[batch], 1)[0]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def main(count: int = 100) -> dict[str, list[sc.Certificate]]:
    """Certify reviews against any few replaced words, and against replaced words in a row."""
    x, y = reviews(count, seed=1)
    kinds: dict[str, tuple[View, dict[str, object]]] = {
        "any words": (sc.Ablation(keep=6, hidden=HIDDEN), {"norm": 0, "estimate": 5000}),
        "words in a row": (sc.Chunks(length=4, hidden=HIDDEN), {"threat": "span:1"}),
    }
    found = {}
    for kind, (views, asked) in kinds.items():
        smoothed = sc.Smoother(trained(views), views, **asked)  # type: ignore[arg-type]
        found[kind] = smoothed.certify(x)
        right = [int(c.radius) for c, truth in zip(found[kind], y.tolist(), strict=True) if c.label == truth]
        alpha = "exact" if found[kind][0].exact else f"alpha {found[kind][0].bound.alpha:g} each"
        print(
            f"{kind} ({alpha}): {len(right)} of {count} right; certified size and how many: {sorted(Counter(right).items())}"
        )
    return found


if __name__ == "__main__":
    main()
