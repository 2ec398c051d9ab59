#!/bin/sh
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Tests the Python agent. Takes an interpreter that has PyTorch, or installs it:
# FAIRWAY_PYTHON names an interpreter, FAIRWAY_NO_INSTALL=1 installs nothing. Execution plans need
# PyTorch 2.9 on CPUs, and Debian's is older: their tests run where another interpreter has it. It is not
# installed for them, because pip brings gigabytes for GPUs along.
set -u
cd "$(dirname "$0")" || exit 1

has() { command -v "$1" >/dev/null 2>&1 && "$1" -c "$2" >/dev/null 2>&1; }

torch="import torch.distributed"
fsdp="import torch; from torch.distributed.fsdp import fully_shard; torch.cpu.Stream.record_event" # 2.6 lacks it

# find_python IMPORT prints an interpreter that can do it.
find_python() {
	for candidate in ${FAIRWAY_PYTHON:-} python3 /usr/bin/python3 .venv/bin/python; do
		if has "$candidate" "$1"; then
			echo "$candidate"
			return 0
		fi
	done
	return 1
}

install_with_apt() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
	echo "python: installing python3-torch with apt-get" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y -qq --no-install-recommends python3-torch >/dev/null 2>&1 ||
		{ apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends python3-torch >/dev/null 2>&1; }
}

install_with_pip() {
	echo "python: installing torch with pip into python/.venv" >&2
	python3 -m venv .venv && timeout 900 .venv/bin/python -m pip install --quiet --disable-pip-version-check torch
}

python=$(find_python "$torch")
if [ -z "$python" ] && [ "${FAIRWAY_NO_INSTALL:-}" != 1 ]; then
	install_with_apt && python=$(find_python "$torch")
	if [ -z "$python" ]; then
		install_with_pip && python=$(find_python "$torch")
	fi
fi
if [ -z "$python" ]; then
	python=${FAIRWAY_PYTHON:-python3}
	echo "python: WARNING: the tests with PyTorch are SKIPPED: no interpreter here has torch, and it could not be installed with apt-get or pip (or FAIRWAY_NO_INSTALL=1 is set)" >&2
fi

# run_tests PYTHON PATTERN runs the tests in the files of a pattern. They compute on CPUs, also
# where there are GPUs: the agent would take one, and the data of the tests is not there.
run_tests() {
	PYTHONPATH=src:. PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES= "$1" - "$2" <<'PY'
import logging, sys, time, unittest

from tests.gangs import Cores

class Result(unittest.TextTestResult):
    """Remembers how long the tests took."""
    times = []
    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)
    def stopTest(self, test):
        self.times.append((time.monotonic() - self.began, test.id()))
        super().stopTest(test)

try:
    import torch
    kind = "torch " + torch.__version__
except ImportError:
    kind = "no torch"
logging.getLogger("fairway").addHandler(logging.NullHandler())
began = time.monotonic()
suite = unittest.defaultTestLoader.discover("tests", pattern=sys.argv[1], top_level_dir=".")
runner = unittest.TextTestRunner(resultclass=Result, verbosity=1, buffer=False)
cores = Cores()
result = runner.run(suite)
# As tools/gotest does: what failed is run once more, and a third time if the host took the cores away.
tests, failed = result.testsRun, lambda: sorted({getattr(test, "test_case", test).id() for test, _ in result.failures + result.errors})
for attempt in (2, 3):
    again = failed()
    if not again or attempt == 3 and cores.stolen() < 0.1:
        break
    print(f"AGAIN, try {attempt} (the host took {100 * cores.stolen():.0f} % of the CPU time): {' '.join(again)}")
    skipped = result.skipped
    result = runner.run(unittest.defaultTestLoader.loadTestsFromNames(again))
    result.skipped += skipped
    if not failed():
        print(f"FLAKY, passed on try {attempt}: {' '.join(again)}")
slow = ", ".join(f"{name.split('.', 1)[1]} {seconds:.1f} s" for seconds, name in sorted(Result.times)[:-4:-1])
print(f"python: Python {sys.version.split()[0]}, {kind}: {tests} tests, {len(result.skipped)} skipped, "
      f"{len(failed())} failed, {time.monotonic() - began:.0f} s (slowest: {slow})")
sys.exit(0 if result.wasSuccessful() else 1)
PY
}

run_tests "$python" "test*.py" || exit 1
has "$python" "$fsdp" && exit 0
newer=$(find_python "$fsdp")
if [ -z "$newer" ]; then
	echo "python: the tests of execution plans are SKIPPED: no interpreter here has PyTorch 2.9 or later; name one with FAIRWAY_PYTHON, or install torch with pip in python/.venv" >&2
	exit 0
fi
run_tests "$newer" "test_fsdp.py"
