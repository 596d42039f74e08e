"""Keys and draws: every part of a key changes them, and what is drawn is what it should be."""

import numpy as np
import torch

from smoothcert.seeds import Stage, draws_for, entropy_for, generator_for


class TestSeeds:
    def test_every_part_of_the_key_changes_the_draws(self) -> None:
        keys = [(0, 0, Stage.SELECT, 0), (1, 0, Stage.SELECT, 0), (0, 1, Stage.SELECT, 0), (0, 0, Stage.ESTIMATE, 0)]
        keys += [(0, 0, Stage.SELECT, 1), (2**32, 0, Stage.SELECT, 0)]
        for kind in ("normal", "uniform", "exponential", "signs"):
            for dtype in (torch.float32, torch.float64):
                drawn = [tuple(getattr(draws_for(*key, dtype=dtype), kind)((40,)).tolist()) for key in keys]
                assert len(set(drawn)) == len(keys)
                assert drawn[0] == tuple(getattr(draws_for(*keys[0], dtype=dtype), kind)((40,)).tolist())

    def test_a_key_is_what_numpy_makes_of_it(self) -> None:
        """Also where its words are put down at once: small numbers are, large ones are not."""
        for seed, index, block, *child in [
            (0, 0, 0),
            (7, 3, 2**32 - 1, 0),
            (2**32, 3, 1, 0),
            (2**70, 2**33, 5),
            (1, 2**32, 0),
        ]:
            expected = np.random.SeedSequence(entropy=seed, spawn_key=(index, int(Stage.ECHO), block, *child))
            got = entropy_for(seed, index, Stage.ECHO, block, *child)
            assert got.generate_state(8).tolist() == expected.generate_state(8).tolist()

    def test_all_state_words_are_keyed(self) -> None:
        """torch seeds its CPU generator with 32 bits; two of our keys differ in nearly all of the 624 words."""
        one, two = (generator_for(0, index, Stage.SELECT, 0).get_state().view(torch.int64)[3:627] for index in (0, 1))
        assert int((one != two).sum()) > 600

    def test_the_generator_draws_sound_normals(self) -> None:
        """Mean and variance of a million numbers within five standard errors: false alarm below 2e-6, seed fixed."""
        z = torch.empty(1_000_000, dtype=torch.float64).normal_(generator=generator_for(0, 0, Stage.SELECT, 0))
        assert abs(float(z.mean())) < 5e-3
        assert abs(float(z.var()) - 1) < 5 * (2 / 1e6) ** 0.5
