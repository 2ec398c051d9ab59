#!/usr/bin/env bash
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs go test:  run.sh FLAG... -- PACKAGE...
#
# Where the host of a virtual machine gives its cores to others, a test of things that
# happen at once may fail though nothing is wrong. So tests that failed while a tenth or
# more of the CPU time was taken away are run again, twice at most, and the output says
# so. On a machine that keeps its cores, and for a data race or a package that does not
# compile, the first result counts.
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
for try in 2 3; do
	stolen=$(stolen_percent)
	if [ "$stolen" -lt 10 ] || grep -qE 'DATA RACE|\[(build|setup) failed\]' "$output" || [ -z "$(failed "$output")" ]; then
		exit 1
	fi
	again=$(failed "$output")
	: >"$output"
	well=yes
	while read -r package tests; do
		echo "NOT COUNTED: the host took $stolen % of the CPU time; try $try of 3: $package ${tests:-(all tests)}"
		"$go" test "${flags[@]}" -run "${tests:+^($tests)\$}" "$package" 2>&1 | tee -a "$output" || well=no
	done <<<"$again"
	[ $well = no ] || exit 0
done
exit 1
