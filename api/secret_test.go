// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

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

// TestTakeSecrets: values of secrets leave the submission, the others stay, and what the
// caller has is not touched.
func TestTakeSecrets(t *testing.T) {
	env := map[string]string{"HF_TOKEN": "h", "SEED": "1", "WANDB_API_KEY": "shadowed"}
	s := Submission{Task: Task{Env: env}, SecretValues: map[string]string{"WANDB_API_KEY": "w", "LICENCE": "l"}}
	values := s.TakeSecrets()
	want := map[string]string{"HF_TOKEN": "h", "WANDB_API_KEY": "w", "LICENCE": "l"}
	if !maps.Equal(values, want) || !slices.Equal(s.Secrets, []string{"HF_TOKEN", "LICENCE", "WANDB_API_KEY"}) {
		t.Errorf("took %v, names %v; want %v", values, s.Secrets, want)
	}
	if !maps.Equal(s.Env, map[string]string{"SEED": "1"}) || s.SecretValues != nil || len(env) != 3 {
		t.Errorf("left %v and %v of %v", s.Env, s.SecretValues, env)
	}
	if again := s.TakeSecrets(); again != nil || len(s.Secrets) != 3 {
		t.Errorf("taken twice: %v, names %v", again, s.Secrets)
	}
}

func TestSecretsRefused(t *testing.T) {
	for _, c := range []struct {
		s    Submission
		want string
	}{
		{Submission{Task: Task{Secrets: []string{"A"}}}, "secrets[0]: A has no value; set it in the shell that submits, or use --secret-file A=FILE"},
		{Submission{Task: Task{Secrets: []string{"a b"}}}, `secrets[0]: "a b" is not a variable`},
		{Submission{SecretValues: map[string]string{"A": "\x00"}}, "secret_values: \"A\" is not a variable"},
		{Submission{SecretValues: map[string]string{"A": "\xff"}}, "or its value is not text"},
		{Submission{SecretValues: map[string]string{"A": strings.Repeat("x", maxEnv)}}, "secret_values: has 65539 bytes"},
	} {
		c.s.Command = []string{"true"}
		if err := c.s.Complete(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
	ok := Submission{Task: Task{Command: []string{"true"}, Secrets: []string{"A", "B"}, Env: map[string]string{"A": ""}}, SecretValues: map[string]string{"B": "x"}}
	if err := ok.Complete(); err != nil {
		t.Error(err)
	}
}
