// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"

	"github.com/fairway-gpu/fairway/api"
)

// SecretKeeper keeps the values of secret variables outside the journal, which is
// copied, exported and archived.
type SecretKeeper interface {
	// Keep makes values durable and returns what a record names them by. They stay at
	// least until Decided is called with that.
	Keep(values map[string]string) (ref string, err error)
	// Decided says that a record names the values, or that none ever will.
	Decided(ref string)
}

// keepSecrets takes the secrets out of new jobs before any record is made of them. They
// are durable before the record that names them. The caller calls decided when the
// jobs are accepted or refused.
func (b *Store) keepSecrets(list []api.Submission) (decided func(), err error) {
	var kept []string
	decided = func() {
		for _, ref := range kept {
			b.Secrets.Decided(ref)
		}
	}
	same := map[string]string{} // jobs of one request mostly share them
	for i := range list {
		s := &list[i]
		if b.Secrets == nil {
			if len(s.SecretValues) > 0 || len(s.Secrets) > 0 {
				return decided, api.InList(api.Errorf(api.Invalid, "are not kept here").On("secrets").
					Try("on Kubernetes, create a Secret and name it in the pod template of a TrainingJob"), i, len(list))
			}
			continue
		}
		values := s.TakeSecrets()
		if values == nil {
			continue
		}
		text, err := json.Marshal(values) // in the order of the names
		if err != nil {
			return decided, api.Errorf(api.Internal, "keep secrets: %w", err)
		}
		ref := same[string(text)]
		if ref == "" {
			if ref, err = b.Secrets.Keep(values); err != nil {
				return decided, api.Errorf(api.Internal, "keep secrets: %w", err)
			}
			kept = append(kept, ref)
			same[string(text)] = ref
		}
		s.SecretsRef = ref
	}
	return decided, nil
}

// SecretsInUse returns what the records of jobs and searches that have not ended name
// their secrets by.
func (b *Store) SecretsInUse() (map[string]bool, error) {
	return durably(b, func() (map[string]bool, error) {
		out := map[string]bool{}
		for _, x := range b.mem.inOrder() {
			out[x.Task.SecretsRef] = true
		}
		for _, x := range b.mem.waiting {
			out[x.Task.SecretsRef] = true
		}
		for _, s := range b.mem.Searches {
			if !s.Over() {
				out[s.Spec.Trial.SecretsRef] = true
			}
		}
		return out, nil
	})
}
