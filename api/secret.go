// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"regexp"
	"strings"
)

var secretName = regexp.MustCompile(`(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)`)

// LooksSecret reports whether the name of a variable says that its value is nobody's
// business, such as WANDB_API_KEY or HF_TOKEN.
func LooksSecret(name string) bool {
	return secretName.MatchString(name) && !strings.HasPrefix(name, "FAIRWAY_")
}
