// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "testing"

func TestLooksSecret(t *testing.T) {
	for name, want := range map[string]bool{
		"WANDB_API_KEY": true, "HF_TOKEN": true, "AWS_SECRET_ACCESS_KEY": true, "AWS_ACCESS_KEY_ID": true, "PGPASSWORD": true,
		"OPENAI_APIKEY": true, "db_password": true, "GOOGLE_APPLICATION_CREDENTIALS": true,
		"TOKENIZERS_PARALLELISM": false, "MAX_TOKENS": false, "KEYBOARD": false, "SEED": false, "FAIRWAY_PARAM_KEY": false,
	} {
		if got := LooksSecret(name); got != want {
			t.Errorf("%s: %v; want %v", name, got, want)
		}
	}
}
