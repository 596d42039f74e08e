"""What every source of data must pass: inputs of one shape by index, the same at every look, on the grid that it names."""

from __future__ import annotations

import numpy as np

from smoothcert.data import REGISTRY, Dataset, Source
from smoothcert.data.base import pixels_to_inputs
from smoothcert.errors import DataError
from smoothcert.testing.suite import Suite, reads_back

FEW = 16  # inputs that are looked at one by one


class DataSuite(Suite):
    """A member is a Source, or a Dataset as one loads it."""

    def loaded(self, member: Source | Dataset) -> Dataset:
        """The data set of a member."""
        return member if isinstance(member, Dataset) else member.load()

    def test_inputs_have_one_shape(self, member: Source | Dataset) -> None:
        """In float32, finite, as many as were asked for."""
        data = self.loaded(member)
        assert len(data) > 0, f"{member} is empty"
        number = min(FEW, len(data))
        x = data.inputs(range(number))
        assert x.dtype == np.float32, f"{member} gives inputs of type {x.dtype}; it must be float32"
        assert x.shape == (number, *data.shape), f"{member} gives inputs {x.shape} and says {data.shape}"
        assert np.isfinite(x).all(), f"{member} gives inputs that are no finite numbers"

    def test_labels_are_numbered_from_zero(self, member: Source | Dataset) -> None:
        """Below the number of classes, or all unknown."""
        data = self.loaded(member)
        truths = data.truths(range(len(data)))
        assert len(truths) == len(data)
        known = [truth for truth in truths if truth is not None]
        if data.classes is None:
            assert not known, f"{member} has labels and no number of classes"
        else:
            assert all(0 <= truth < data.classes for truth in known), f"{member} has labels beyond its classes"

    def test_an_input_is_the_same_however_it_is_asked_for(self, member: Source | Dataset) -> None:
        """Alone, among others, backwards, again."""
        data = self.loaded(member)
        order = list(range(min(FEW, len(data))))
        x, truths = data.inputs(order), data.truths(order)
        assert np.array_equal(data.inputs(order[::-1]), x[::-1]), f"{member} gives other inputs in another order"
        assert data.truths(order[::-1]) == truths[::-1]
        for index in order:
            assert np.array_equal(data.inputs([index])[0], x[index]), f"{member}: input {index} differs alone"

    def test_an_index_outside_is_refused(self, member: Source | Dataset) -> None:
        """With a DataError, on both sides."""
        data = self.loaded(member)
        for index in (-1, len(data)):
            for ask in (data.inputs, data.truths):
                try:
                    ask([index])
                except DataError:
                    continue
                raise AssertionError(f"{member} has {len(data)} inputs and gives one for the index {index}")

    def test_what_it_gives_is_its_own(self, member: Source | Dataset) -> None:
        """Writing into it changes no input."""
        data = self.loaded(member)
        kept = data.inputs([0]).copy()
        given = data.inputs([0])
        given[...] = -1
        assert np.array_equal(data.inputs([0]), kept), f"{member} hands out its own memory"

    def test_it_is_known_by_its_content(self, member: Source | Dataset) -> None:
        """Loaded twice, it is the same."""
        first, second = self.loaded(member), self.loaded(member)
        assert first.fingerprint() == second.fingerprint(), f"{member} has another fingerprint when it is loaded again"
        assert len(first.fingerprint()) == 64
        assert np.array_equal(first.inputs([0]), second.inputs([0]))

    def test_the_grid_holds_every_value(self, member: Source | Dataset) -> None:
        """If it says that its inputs are pixels, each of them is k/255, to the last bit."""
        data = self.loaded(member)
        if data.grid is None:
            return
        assert data.grid == 1 / 255, f"{member} names the grid {data.grid}; pixels have 1/255"
        for start in range(0, len(data), 1000):
            x = data.inputs(range(start, min(start + 1000, len(data))))
            pixels = np.rint(x * 255).clip(0, 255).astype(np.uint8)
            assert np.array_equal(pixels_to_inputs(pixels), x), f"{member} has values off its grid"

    def test_its_text_reads_back(self, member: Source | Dataset) -> None:
        """As it would be written on the command line."""
        if isinstance(member, Source):
            reads_back(member, REGISTRY)
