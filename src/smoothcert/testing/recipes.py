"""What every training recipe must pass: a loss with gradients, noise from its batch alone, and a text that reads back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smoothcert.laws import law_named
from smoothcert.testing.suite import Suite, reads_back
from smoothcert.training import REGISTRY, Batch, Noising, Recipe

SHAPE, CLASSES = (1, 5, 5), 3


class RecipeSuite(Suite):
    """On a small classifier, under Gaussian and Laplace noise."""

    def network(self) -> nn.Module:
        """A two-layer classifier, the same at every call."""
        with torch.random.fork_rng():
            torch.manual_seed(7)
            return nn.Sequential(nn.Flatten(), nn.Linear(25, 16), nn.ReLU(), nn.Linear(16, CLASSES + 1))

    def batch(self, number: int = 12, law: str = "gaussian", scale: Tensor | None = None) -> Batch:
        """Separable inputs, their labels and keyed noise."""
        generator = torch.Generator().manual_seed(11)
        y = torch.arange(number) % CLASSES
        x = 0.1 * torch.rand((number, *SHAPE), generator=generator) + 0.4 * y.float().reshape(-1, 1, 1, 1)
        scale = torch.tensor(0.2) if scale is None else scale
        return Batch(x, y, Noising(law_named(law), scale, torch.tensor(0.0), generator))

    def test_the_loss_is_one_number_with_gradients(self, member: Recipe) -> None:
        """Finite, of the network's weights, for several laws and for a single input."""
        for law in ("gaussian", "laplace", "uniform"):
            for number in (12, 1):
                network = self.network()
                loss = member.loss(network, self.batch(number, law))
                assert loss.shape == (), f"{member} gives a loss of shape {tuple(loss.shape)}; it must be one number"
                assert bool(loss.isfinite()), f"{member} gives the loss {loss} under {law} noise"
                loss.backward()  # type: ignore[no-untyped-call]
                moved = [value.grad is not None and bool(value.grad.any()) for value in network.parameters()]
                assert any(moved), f"{member} has no gradient in the weights"

    def test_noise_comes_from_the_batch(self, member: Recipe) -> None:
        """Equal generators give equal losses, whatever the global generator does."""
        first = member.loss(self.network(), self.batch())
        torch.rand(5)
        second = member.loss(self.network(), self.batch())
        assert torch.equal(first, second), f"{member} draws from elsewhere than batch.noising"

    def test_the_batch_is_left_alone(self, member: Recipe) -> None:
        """Inputs and labels are as they were."""
        batch = self.batch()
        x, y = batch.x.clone(), batch.y.clone()
        member.loss(self.network(), batch)
        assert torch.equal(batch.x, x), f"{member} changes the inputs"
        assert torch.equal(batch.y, y), f"{member} changes the labels"

    def test_training_learns(self, member: Recipe) -> None:
        """A hundred and fifty steps answer most of a separable problem."""
        network = self.network()
        optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
        for _ in range(150):
            optimizer.zero_grad()
            member.loss(network, self.batch(30)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        batch = self.batch(30)
        with torch.no_grad():
            right = float((network(batch.x).argmax(1) == batch.y).float().mean())
        assert right > 0.8, f"{member} answers {right:.0%} of a separable problem after 150 steps"

    def test_its_text_reads_back(self, member: Recipe) -> None:
        """As it would be written on the command line."""
        reads_back(member, REGISTRY)
