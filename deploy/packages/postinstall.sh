#!/bin/sh
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# After an upgrade a running daemon is restarted: its jobs go on, and are adopted by the new
# one. A new installation starts nothing: "systemctl enable --now fairway" does.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart fairway
fi
