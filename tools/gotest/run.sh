#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs go test:  run.sh FLAG... -- PACKAGE...
#
# A test that fails is run once more, and named as FLAKY if it passes then: such a test, or
# what it tests, has a fault that somebody has to find. Where the host of a virtual machine
# gives its cores to others, a test of things that happen at once may fail though nothing is
# wrong: while a tenth or more of the CPU time is taken away there is a third try. For a data
# race and for a package that does not compile the first result counts.
set -uo pipefail
go=${GO:-go}

flags=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	flags+=("$1")
	shift
done
shift
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# The time of all cores, and what of it the host gave to others (see proc(5)).
cores() { awk '$1 == "cpu" { for (i = 2; i <= 9; i++) all += $i; print all, $9 }' /proc/stat 2>/dev/null || echo 0 0; }
read -r all_before stolen_before <<<"$(cores)"
stolen_percent() {
	local all stolen
	read -r all stolen <<<"$(cores)"
	echo $((100 * (stolen - stolen_before) / (all - all_before + 1)))
}

# The packages that failed, each with the names of its failed tests; none: all of them.
failed() {
	awk '/^--- FAIL: / { tests = tests (tests == "" ? "" : "|") $3 }
	     /^ok / { tests = "" }
	     /^FAIL\t/ { print $2, tests; tests = "" }' "$1"
}

"$go" test "${flags[@]}" "$@" 2>&1 | tee "$output" && exit 0
flaky=$(failed "$output")
for try in 2 3; do
	again=$(failed "$output")
	if [ -z "$again" ] || grep -qE 'DATA RACE|\[(build|setup) failed\]' "$output"; then
		exit 1
	fi
	stolen=$(stolen_percent)
	if [ $try = 3 ] && [ "$stolen" -lt 10 ]; then
		exit 1
	fi
	: >"$output"
	well=yes
	while read -r package tests; do
		echo "AGAIN, try $try (the host took $stolen % of the CPU time): $package ${tests:-(all tests)}"
		"$go" test "${flags[@]}" -run "${tests:+^($tests)\$}" "$package" 2>&1 | tee -a "$output" || well=no
	done <<<"$again"
	if [ $well = yes ]; then
		echo "FLAKY, passed on try $try: $flaky"
		exit 0
	fi
done
exit 1
