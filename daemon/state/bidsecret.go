// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fairway-gpu/fairway/api"
)

// secretBox returns the cipher for bidders' secrets: the journal is copied and
// archived, so it must not hold them in plain text.
func secretBox(key []byte) (cipher.AEAD, error) {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("secrets of bidders"))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// sealSecret binds the secret to its app and address: no other can open it.
func sealSecret(key []byte, d api.Bidder, secret string) ([]byte, error) {
	box, err := secretBox(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, box.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return box.Seal(nonce, nonce, []byte(secret), []byte(string(d.App)+"\x00"+d.URL)), nil
}

func openSecret(key []byte, d api.Bidder) (string, error) {
	box, err := secretBox(key)
	if err != nil {
		return "", err
	}
	n := box.NonceSize()
	if len(d.Sealed) < n {
		return "", errors.New("its secret is missing; register the program again")
	}
	secret, err := box.Open(nil, d.Sealed[:n], d.Sealed[n:], []byte(string(d.App)+"\x00"+d.URL))
	if err != nil {
		return "", fmt.Errorf("its secret was sealed with another key; register the program again: %w", err)
	}
	return string(secret), nil
}
