"""Step 2: the only file that runs the classifier for a certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from smoothcert.errors import ModelError
from smoothcert.noise import Noise
from smoothcert.seeds import Stage, draws_for
from smoothcert.votes import Votes

Classifier = Callable[[Tensor], Tensor]


def logits_of(classifier: Classifier, batch: Tensor) -> Tensor:
    """The classifier's scores for a batch: what it returns, or the ``logits`` of what it returns; checked."""
    output = classifier(batch)
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor):
        raise ModelError(f"the classifier returned a {type(logits).__name__}; it must return a tensor (batch, classes)")
    if logits.ndim != 2 or logits.shape[0] != batch.shape[0]:
        raise ModelError(
            f"the classifier returned shape {tuple(logits.shape)} for a batch of {batch.shape[0]}; "
            f"it must return one row of class scores per input: ({batch.shape[0]}, classes)"
        )
    if logits.shape[1] < 2:
        raise ModelError(
            "the classifier has one class only, so there is nothing to certify; "
            "a binary model with one output must be wrapped to return two scores, for example [-s, s]"
        )
    return logits


def make_fixed(classifier: Classifier) -> None:
    """Put the model into evaluation mode, and say so; refuse one whose answer depends on the rest of the batch."""
    if not isinstance(classifier, nn.Module):
        return
    if any(module.training for module in classifier.modules()):
        classifier.eval()
        warnings.warn(
            "the model was in train mode, where dropout and batch statistics make it no fixed function; "
            "it was switched to eval mode",
            stacklevel=3,
        )
    for name, module in classifier.named_modules():
        if (
            isinstance(module, _NormBase)
            and module.running_mean is None
            and not isinstance(module, nn.modules.instancenorm._InstanceNorm)
        ):
            raise ModelError(
                f"layer {name!r} ({type(module).__name__}) uses batch statistics even in eval mode, so one answer "
                "depends on the other inputs; give it track_running_stats=True and its statistics"
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
            tally = count(logits_of(self.classifier, copies(self.block, draws))[:counted])
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
