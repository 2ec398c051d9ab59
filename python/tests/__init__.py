# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0

"""Tests of the agent. Run them with test.sh."""
