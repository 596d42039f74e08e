"""What the program does to its own process before a command."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, numpy, smoothcert.cli
smoothcert.cli.keep_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
numpy.ones(6_000_000)
before = faults()
for _ in range(5):
    numpy.ones(6_000_000)  # 48 MB, more than glibc keeps by itself
print(faults() - before)
"""


def faults(**environment: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_memory_of_a_block_is_kept_for_the_next_unless_the_user_says_otherwise() -> None:
    assert faults() < 50 < faults(MALLOC_TRIM_THRESHOLD_="131072")
