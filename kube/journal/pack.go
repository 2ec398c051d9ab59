// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// mostUnpacked bounds the uncompressed size of a page.
const mostUnpacked = 1 << 30

// pack puts payloads, each after its length, into one compressed block.
func pack(payloads [][]byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	var length [binary.MaxVarintLen64]byte
	for _, p := range payloads {
		if _, err := z.Write(length[:binary.PutUvarint(length[:], uint64(len(p)))]); err != nil {
			return nil, err
		}
		if _, err := z.Write(p); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func unpack(data []byte) ([]byte, error) {
	all, err := unpackAll(data, 1)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// unpackAll is the reverse of pack.
func unpackAll(data []byte, count int) ([][]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, mostUnpacked+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostUnpacked {
		return nil, fmt.Errorf("more than %d bytes when uncompressed", mostUnpacked)
	}
	var out [][]byte
	for len(text) > 0 {
		n, used := binary.Uvarint(text)
		if used <= 0 || n > uint64(len(text)-used) {
			return nil, errors.New("a record is truncated")
		}
		out = append(out, text[used:used+int(n)])
		text = text[used+int(n):]
	}
	if len(out) != count {
		return nil, fmt.Errorf("it holds %d records; want %d", len(out), count)
	}
	return out, nil
}
