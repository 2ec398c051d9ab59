#!/bin/sh
# Copyright The Fairway Authors
# SPDX-License-Identifier: Apache-2.0
#
# Debian calls this with "remove" or "upgrade", rpm with the number of versions that stay.
set -e
case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now fairway
	fi
	;;
esac
