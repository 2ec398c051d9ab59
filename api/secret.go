// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var secretName = regexp.MustCompile(`(?i)(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)(_|$)`)

// LooksSecret reports whether the name of a variable says that its value is nobody's
// business, such as WANDB_API_KEY or HF_TOKEN.
func LooksSecret(name string) bool {
	return secretName.MatchString(name) && !strings.HasPrefix(name, "FAIRWAY_")
}

// TakeSecrets takes the values of secret variables out of a submission: those that it
// declares, and those whose names look secret. The names stay, in Secrets.
func (s *Submission) TakeSecrets() map[string]string {
	values := maps.Clone(s.SecretValues)
	if values == nil {
		values = map[string]string{}
	}
	for k, v := range s.Env {
		if _, known := values[k]; LooksSecret(k) && !known {
			values[k] = v
		}
	}
	if len(values) == 0 {
		return nil
	}
	s.Env = maps.Clone(s.Env) // it may be the caller's
	for k := range values {
		delete(s.Env, k)
	}
	s.Secrets, s.SecretValues = slices.Sorted(maps.Keys(values)), nil
	return values
}

// validateSecrets checks the names of secret variables and that each has a value.
func (s *Submission) validateSecrets() error {
	if len(s.Secrets) > maxSecrets || len(s.SecretValues) > maxSecrets {
		return Errorf(Invalid, "has %d entries", max(len(s.Secrets), len(s.SecretValues))).On("secrets").Try(fmt.Sprintf("use at most %d", maxSecrets))
	}
	for i, name := range s.Secrets {
		field := fmt.Sprintf("secrets[%d]", i)
		if !envName.MatchString(name) || reserved(name) {
			return Errorf(Invalid, "%.60q is not a variable a job may set", name).On(field).Try("use letters, digits and _")
		}
		_, given := s.SecretValues[name]
		_, plain := s.Env[name]
		if !given && !plain && s.SecretsRef == "" {
			return Errorf(Invalid, "%s has no value", name).On(field).
				Try("set it in the shell that submits, or use --secret-file " + name + "=FILE")
		}
	}
	size := 0
	for name, value := range s.SecretValues {
		if !envName.MatchString(name) || reserved(name) || strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
			return Errorf(Invalid, "%.60q is not a variable a job may set, or its value is not text", name).On("secret_values").Try("use letters, digits and _ in names, and UTF-8 without zero bytes in values")
		}
		size += len(name) + len(value) + 2
	}
	if size > maxEnv {
		return Errorf(Invalid, "has %d bytes", size).On("secret_values").Try(fmt.Sprintf("use at most %d", maxEnv))
	}
	return nil
}
