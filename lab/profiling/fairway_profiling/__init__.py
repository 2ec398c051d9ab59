# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures training steps on a GPU: alone, in pairs, and their graphs."""

# Part of every row. Raise it when a change makes new rows incomparable with old ones.
VERSION = "3"
