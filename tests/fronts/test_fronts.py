"""Fronts: exact numbers, files, what is refused, and whose certificates are frozen."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import smoothcert as sc
from smoothcert import data
from smoothcert.errors import DataError, InputError, SettingError
from smoothcert.fronts import BlockSums, Front, Ground, PrincipalComponents, front_named
from smoothcert.fronts.front import fingerprint_of
from smoothcert.linear import LinearRegion
from smoothcert.maths.boxed import Box
from smoothcert.models.decoding import Decoding
from smoothcert.report.tables import tables
from smoothcert.serve.service import Service
from smoothcert.serve.settings import Serving

UNIT = Box(0, 1)
DIGITS = data.load("digits")
TRAINING = data.load("digits:split=train")


@pytest.fixture(scope="module")
def pca():
    return PrincipalComponents(k=12, inputs=400).fit(TRAINING.inputs(range(400)), UNIT)


def ground(dataset=DIGITS, box=UNIT):
    return Ground(dataset, lambda: TRAINING, box)


class TestNumbers:
    def test_pca_is_that_of_the_training_data(self, pca):
        x = TRAINING.inputs(range(400)).reshape(400, -1).astype(float)
        _, sizes, rows = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
        assert np.abs(np.abs(np.sum(pca.matrix * rows[:12], axis=1)) - 1).max() < 1e-3
        assert np.abs(pca.matrix @ pca.matrix.T - np.eye(12)).max() < 1e-4
        seen = x - x.mean(axis=0) - (x - x.mean(axis=0)) @ pca.matrix.T @ pca.matrix
        assert (seen**2).sum() == pytest.approx((sizes[12:] ** 2).sum(), rel=1e-4)

    def test_numbers_are_those_of_rational_arithmetic_within_the_slack(self, pca):
        for x in DIGITS.inputs(range(5)):
            z = pca.encode(x[None])[0]
            assert np.array_equal(z * pca.levels, np.rint(z * pca.levels))
            for row, value in zip(pca.matrix[:3], z, strict=False):
                pairs = zip(row, x.ravel(), pca.offset, strict=True)
                exact = sum(Fraction(float(u)) * (Fraction(float(a)) - Fraction(float(b))) for u, a, b in pairs)
                assert abs(Fraction(float(value)) - exact) <= Fraction(pca.slack) / 2

    def test_block_sums_are_whole(self):
        front = BlockSums(side=2).make(ground())
        x = DIGITS.inputs([3])
        steps = np.rint(x[0, 0] * 255).astype(int).reshape(14, 2, 14, 2).sum(axis=(1, 3))
        assert np.array_equal(np.rint(front.encode(x)[0, 0] * 510), steps)
        assert front.seen == (1, 14, 14)
        assert front.slack == 0.0
        region = front.pulled_back(sc.Region(np.zeros((1, 14, 14)), np.array(1.0), 1.0, 2), x[0])
        radii = [region.inner_radius_in(p) for p in (1, 2, math.inf)]
        assert radii == pytest.approx([2.0, 1.0, 1 / 28], rel=1e-6)

    def test_an_input_does_not_depend_on_those_beside_it(self, pca):
        x = DIGITS.inputs(range(7))
        assert np.array_equal(pca.encode(x)[4], pca.encode(x[4:5])[0])

    def test_real_numbers_in_blocks_are_rounded(self):
        front = BlockSums(side=2).over((4, 4), pixels=False, box=UNIT)
        assert front.slack > 0
        assert front.pixels is None

    def test_gradients_pass(self, pca):
        smoother = smoothed(pca)
        x = torch.from_numpy(DIGITS.inputs(range(2)))
        exact = smoother.encoded(x)
        moved = smoother.encoded(x.clone().requires_grad_())
        assert torch.allclose(exact, moved.detach(), atol=2 / pca.levels)
        point = x.clone().requires_grad_()
        smoother.encoded(point)[:, 3].sum().backward()
        assert torch.allclose(point.grad[0].flatten(), torch.from_numpy(pca.matrix[3]).float())

    def test_a_network_may_decode(self, pca):
        class Same(nn.Module):
            def forward(self, x):
                return x.flatten(1)

        x = DIGITS.inputs(range(3))
        found = Decoding(pca, Same())(torch.from_numpy(pca.encode(x))).numpy()
        assert np.allclose(found, pca.decoded(pca.encode(x)).reshape(3, -1), atol=1e-5)
        flat = x.reshape(3, -1) - pca.offset
        assert np.allclose(found, pca.offset + flat @ pca.matrix.T @ np.linalg.pinv(pca.matrix).T, atol=1e-3)


def smoothed(front, **settings):
    torch.manual_seed(0)
    model = nn.Linear(math.prod(front.seen), 10).eval()
    noise = sc.Noise.isotropic("gaussian", 0.05)
    return sc.Smoother(
        nn.Sequential(nn.Flatten(), model).eval(), noise, front=front, estimator="fixed", estimate=400, **settings
    )


class TestCertificates:
    def test_they_are_about_inputs(self, pca):
        x = torch.from_numpy(DIGITS.inputs(range(6)))
        for found, row in zip(smoothed(pca).certify(x), x, strict=True):
            assert found.soundness == "global"
            if found.label is not None:
                assert isinstance(found.region, LinearRegion)
                assert np.array_equal(found.region.center, row.numpy().astype(float))
                assert found.proxy_radius is None
                assert found.radius == found.region.inner_radius_in(2) > 0

    def test_they_are_frozen_where_the_front_was_fitted_with_the_input(self):
        own = PrincipalComponents(k=5).fit(DIGITS.inputs(range(20)), UNIT)
        labels = [c.soundness for c in smoothed(own).certify(torch.from_numpy(DIGITS.inputs([3, 19, 20])))]
        assert labels == ["frozen", "frozen", "global"]
        frozen = smoothed(own, memory=sc.Memory()).certify(torch.from_numpy(DIGITS.inputs([3])))
        assert frozen[0].soundness == "frozen", "a memory of the numbers does not make up for the choice of the front"

    def test_an_input_is_known_by_its_value(self):
        """As 64-bit numbers, with the sign of a zero turned, or as a copy: it is the same input."""
        own = PrincipalComponents(k=5).fit(DIGITS.inputs(range(20)), UNIT)
        x = DIGITS.inputs([3])
        for same in (x.astype(float), np.where(x == 0, np.float32(-0.0), x), x.copy(order="F")):
            (found,) = smoothed(own).certify(torch.from_numpy(same))
            assert found.soundness == "frozen"
        pixels = np.arange(256, dtype=np.float32)
        divided, multiplied = pixels / np.float32(255), pixels * np.float32(1 / 255)
        assert not np.array_equal(divided, multiplied)
        assert fingerprint_of(divided) == fingerprint_of(multiplied) != fingerprint_of(divided + np.float32(1e-3))

    def test_a_box_holds_inputs_with_gradients_too(self, pca):
        with pytest.raises(InputError, match="where the front was made"):
            smoothed(pca).certify((3 * torch.from_numpy(DIGITS.inputs([0]))).requires_grad_())

    def test_a_matrix_changed_later_does_not_change_the_front(self):
        """Pixels were multiplied by a prepared copy, and regions shaped by the matrix."""
        matrix = np.full((1, 64), 0.5)
        front = Front(matrix, levels=510, pixels=255)
        matrix *= 0.1
        assert np.array_equal(front.matrix, np.full((1, 64), 0.5))
        assert np.array_equal(Front(front.matrix * (1 - 1e-10), levels=510, pixels=255).matrix, front.matrix)

    def test_a_file_remembers_what_it_was_fitted_with(self, tmp_path):
        own = PrincipalComponents(k=5).fit(DIGITS.inputs(range(20)), UNIT)
        own.save(tmp_path / "front.npz")
        again = front_named(str(tmp_path / "front.npz")).make(ground())
        assert again.digest == own.digest
        assert again.fitted == own.fitted
        (found,) = smoothed(again).certify(torch.from_numpy(DIGITS.inputs([4])))
        assert found.soundness == "frozen"
        assert replace(own, fitted=frozenset()).told != own.told  # nor is a run or a memory continued without it
        with np.load(tmp_path / "front.npz") as parts:
            np.savez(tmp_path / "edited.npz", **{**parts, "fitted": np.zeros(0, np.uint64)})
        with pytest.raises(SettingError, match="it was changed after it was written"):
            Front.load(tmp_path / "edited.npz")

    def test_a_memory_keeps_the_numbers(self, pca):
        smoother = smoothed(pca, memory=sc.Memory())
        x = torch.from_numpy(DIGITS.inputs(range(4)))
        found = smoother.certify(x)
        assert smoother.predict(x) == [c.label for c in found]
        kept = next(c for c in found if c.region is not None)
        with pytest.raises(InputError, match="keeps regions of its numbers"):
            sc.Memory().settle(kept)

    def test_another_matrix_is_another_classifier(self, pca):
        other = Front(pca.matrix * 1.0001, pca.offset, pca.shape, box=UNIT, name=pca.name)
        assert smoothed(pca).identity["front"] != smoothed(other).identity["front"]
        assert smoothed(pca).identity["domain"].startswith("reals in 0..1, front ")


def test_a_table_sets_it_beside_pixels(pca, tmp_path):
    """One certificate in three norms: of pixels by Hölder, l∞ is l2/√784; volumes are compared of neither."""
    dataset = data.ArrayDataset("digits", np.rint(DIGITS.inputs(range(4)) * 255).astype(np.uint8))
    torch.manual_seed(1)
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()
    plain = sc.Smoother(network, sc.Noise("gaussian", 0.05, grid=1 / 255), estimator="fixed", estimate=400)
    for name, smoother in (("pixels", plain), ("front", smoothed(pca))):
        sc.certify_all(smoother, dataset, tmp_path / name)
    lines = [line for name in ("pixels", "front") for line in sc.Run(tmp_path / name).lines]
    first, *compared = tables(lines, [0.0])
    cells = {row[0]: row[1:] for row in first.rows}
    assert cells["noise (scale)"] == ("gaussian 0.05", "gaussian 0.05 on pca:k=12,inputs=400")
    radii = [[float(value) for value in cells[f"the same certificates in l{norm}"]] for norm in ("1", "2", "inf")]
    assert radii[0][0] == radii[1][0] > 28 * radii[2][0] - 0.01
    assert radii[0][1] > 2 * radii[1][1] > 0
    assert [row[5] for row in compared[-1].rows] == ["–", "–"]


class TestBadInput:
    @pytest.mark.parametrize(
        ("matrix", "words"),
        [
            (np.full((2, 4), np.nan), "NaN or infinity"),
            (np.ones(4), "finite numbers"),
            (np.ones((2, 3)), "takes inputs of 3 coordinates"),
            (np.array([[1.0, 0, 0, 1], [2.0, 0, 0, 2]]), "2 rows and rank 1"),
            (np.full((1, 4), 1e4), "divide the matrix"),
            (np.full((1, 4), 1e-6), "multiply or divide the matrix"),
            (np.full((1, 4), 1j), "none of real numbers"),
            (np.array([["a", "b", "c", "d"]]), "none of real numbers"),
            (np.ones((0, 4)), "finite numbers"),
        ],
    )
    def test_matrices(self, matrix, words):
        with pytest.raises(SettingError, match=words):
            Front(matrix, shape=(4,), box=UNIT)

    def test_offsets(self):
        for offset, words in ((np.zeros(3), "one number, or 4"), (np.nan, "NaN or infinity")):
            with pytest.raises(SettingError, match=words):
                Front(np.eye(1, 4), offset, box=UNIT)

    def test_no_box(self):
        with pytest.raises(SettingError, match="what its inputs lie in"):
            Front(np.eye(1, 4))

    def test_pixels_that_are_not_whole(self):
        with pytest.raises(SettingError, match="no whole multiples"):
            Front(np.full((1, 4), 0.3), levels=255, pixels=255)

    def test_inputs_that_do_not_fit(self, pca):
        for bad, words in (
            (np.full((1, 1, 28, 28), 1.5), r"outside 0\.\.1"),
            (np.zeros((1, 5)), "takes inputs of shape"),
        ):
            with pytest.raises(InputError, match=words):
                pca.encode(bad)
        with pytest.raises(InputError, match=r"outside 0\.\.1"):
            smoothed(pca).predict(torch.full((1, 1, 28, 28), -0.1))
        with pytest.raises(DataError, match="takes inputs of shape"):
            Front(np.eye(2, 4), box=UNIT).over(DIGITS)

    def test_files(self, tmp_path):
        np.save(tmp_path / "narrow.npy", np.ones((2, 5)))
        np.savez(tmp_path / "half.npz", deviations=np.ones(784))
        np.save(tmp_path / "small.npy", np.eye(5))
        (tmp_path / "broken.npz").write_bytes(b"no")
        (tmp_path / "cut.npz").write_bytes((tmp_path / "half.npz").read_bytes()[:80])
        for name in ("empty.npz", "empty.npy"):
            (tmp_path / name).touch()
        for name, words in (
            ("narrow.npy", "takes inputs of 5"),
            ("broken.npz", "holds no front"),
            ("cut.npz", "holds no front"),
            ("empty.npz", "holds no front"),
            ("empty.npy", "no readable"),
            ("missing.npy", "no readable"),
        ):
            with pytest.raises(SettingError, match=words):
                front_named(str(tmp_path / name)).make(ground())
        for name, words in (
            ("half.npz", "deviations and factors"),
            ("cut.npz", "no readable"),
            ("empty.npy", "no readable"),
            ("narrow.npy", "make no covariance"),
            ("small.npy", "takes inputs of 5 coordinates"),
        ):
            with pytest.raises(SettingError, match=words):
                front_named(f"covariance:path={tmp_path / name}").make(ground())

    def test_recipes(self):
        with pytest.raises(SettingError, match="k=900 must be at most"):
            PrincipalComponents(k=900).fit(DIGITS.inputs(range(20)), UNIT)
        for spec, words in (("blocks:3", "height and width it divides"), ("pca", "lacks k"), ("pca:0", "at least 1")):
            with pytest.raises(SettingError, match=words):
                front_named(spec).make(ground())

    def test_what_does_not_go_with_a_front(self, pca):
        with pytest.raises(SettingError, match="views have none"):
            sc.Smoother(nn.Linear(12, 10), sc.Bands(width=4), threat="patch:1", front=pca)
        with pytest.raises(SettingError, match="leave the box out"):
            sc.Smoother(nn.Linear(12, 10), sc.Noise("uniform", 1.0, box=(0, 1)), 1, front=pca)
        with pytest.raises(SettingError, match="cannot answer behind a front"):
            Service(smoothed(pca), DIGITS, None, Serving())
        with pytest.raises(SettingError, match="judged by its numbers"):
            smoothed(pca, radii=[0.1])
        with pytest.raises(SettingError, match="Front.load"):
            sc.Smoother(nn.Linear(12, 10), sc.Noise("gaussian", 1.0), front="pca:40")
