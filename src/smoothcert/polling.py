"""Step 2: the only file that runs the classifier for a certificate."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from smoothcert.errors import ModelError
from smoothcert.models.adapters import Classifier, batch_dependent
from smoothcert.noise import Noise
from smoothcert.seeds import Stage, draws_for
from smoothcert.votes import Votes


def make_fixed(classifier: Classifier) -> None:
    """Put the model into evaluation mode, and say so; refuse one whose answer depends on the rest of the batch."""
    if any(module.training for module in classifier.modules()):
        classifier.eval()
        warnings.warn(
            "the model was in train mode, where dropout and batch statistics make it no fixed function; "
            "it was switched to eval mode",
            stacklevel=3,
        )
    dependent = batch_dependent(classifier)
    if dependent:
        raise ModelError(
            f"the layers {dependent[:5]} use batch statistics even in eval mode, so one input's answer depends on the others; "
            "give them track_running_stats=True and their statistics, or export the model in eval mode"
        )


class Pollster:
    """Casts the votes on one input, block by block, in constant memory.

    The network always sees blocks of one shape, (block, *event), the last one padded and its surplus not counted:
    a network's rounding depends on the batch shape, so votes would otherwise depend on how they were grouped.
    """

    def __init__(self, classifier: Classifier, *, seed: int, block: int, device: torch.device) -> None:
        self.classifier, self.seed, self.block, self.device = classifier, seed, block, device

    @torch.inference_mode()
    def poll(self, x: Tensor, noise: Noise, index: int, stage: Stage, trials: int) -> Votes:
        """The votes of ``trials`` noisy copies of x: a table of one input and one look."""
        copies = noise.copier(x.to(self.device))
        total: Tensor | None = None
        for number, start in enumerate(range(0, trials, self.block)):
            draws = draws_for(self.seed, index, stage, number, dtype=noise.sampling_dtype, device=self.device)
            counted = min(self.block, trials - start)
            tally = count(self.classifier(copies(self.block, draws))[:counted])
            total = tally if total is None else total.add_(tally)
        assert total is not None, "trials must be positive"
        table = total.cpu().numpy().astype(np.int64)
        return Votes(table[None, None, :-1], table[None, None, -1])


def count(logits: Tensor) -> Tensor:
    """Votes per class, and in the last place the rows with a NaN."""
    classes = logits.shape[1]
    winners = logits.argmax(dim=1)
    winners[logits.isnan().any(dim=1)] = classes
    return torch.bincount(winners, minlength=classes + 1)
