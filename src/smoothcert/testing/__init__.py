"""Suites that any law, tuner, recipe or store must pass, and problems whose true answer is known."""
