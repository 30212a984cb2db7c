"""The allocator switch, in a process of its own: it cannot be undone."""

import platform
import subprocess
import sys

SCRIPT = """
import numpy as np, resource
from lrgi.compute.allocator import keep_freed_memory
first, second = keep_freed_memory(), keep_freed_memory()
assert type(first) is bool and first is second, (first, second)
def faults_of_again():
    np.ones(2_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        np.ones(2_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(first, faults_of_again())
"""


def test_freed_memory_is_kept_and_asking_twice_is_fine():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept, faults = done.stdout.split()
    assert kept in ("True", "False")
    if platform.libc_ver()[0] == "glibc":
        assert kept == "True"
        assert int(faults) < 1000, "10 arrays of 3906 pages were mapped anew"
