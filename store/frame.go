// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// kind is the last byte of a frame's magic.
type kind byte

const (
	kindRecord   kind = 'R'
	kindSnapshot kind = 'S' // seq: the last record it replaces
	kindVersion  kind = 'V' // seq: the version of the schema; no payload
	kindOpened   kind = 'O' // seq: how often the journal was opened; no payload
)

// A frame on disk, numbers big-endian:
//
//	0   magic: F7 'F' 'W' and the kind. F7 occurs in no UTF-8 text.
//	4   CRC-32C of all the rest: the magic and everything after this field
//	8   seq
//	16  term
//	24  left: how many records of the same Append follow
//	28  length of the payload
//	32  payload
const (
	headerSize = 32
	maxPayload = 1 << 30 // of a snapshot; records have a lower, configured limit
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a frame or of its beginning; it can be updated
// with the rest.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:])
}

// frame is one framed value.
type frame struct {
	kind    kind
	seq     uint64
	term    uint64
	left    uint32
	payload []byte
}

// encode returns the frame as bytes.
func (f frame) encode() []byte {
	b := make([]byte, headerSize, headerSize+len(f.payload))
	copy(b, []byte{0xF7, 'F', 'W', byte(f.kind)})
	binary.BigEndian.PutUint64(b[8:], f.seq)
	binary.BigEndian.PutUint64(b[16:], f.term)
	binary.BigEndian.PutUint32(b[24:], f.left)
	binary.BigEndian.PutUint32(b[28:], uint32(len(f.payload)))
	b = append(b, f.payload...)
	binary.BigEndian.PutUint32(b[4:], checksum(b))
	return b
}

// header decodes the first headerSize bytes of a frame, without its payload, and
// returns the length of the payload and the checksum it should have.
func header(b []byte) (f frame, length int, sum uint32, err error) {
	if len(b) < headerSize {
		return f, 0, 0, fmt.Errorf("%w: frame of %d bytes; want at least %d", ErrCorrupt, len(b), headerSize)
	}
	if b[0] != 0xF7 || b[1] != 'F' || b[2] != 'W' {
		return f, 0, 0, fmt.Errorf("%w: frame begins % x; want f7 46 57", ErrCorrupt, b[:3])
	}
	f.kind = kind(b[3])
	switch f.kind {
	case kindRecord, kindSnapshot, kindVersion, kindOpened:
	default:
		return f, 0, 0, fmt.Errorf("%w: frame of unknown kind %q", ErrCorrupt, b[3])
	}
	size := binary.BigEndian.Uint32(b[28:])
	if size > maxPayload {
		return f, 0, 0, fmt.Errorf("%w: frame says its payload has %d bytes; want at most %d", ErrCorrupt, size, maxPayload)
	}
	f.seq = binary.BigEndian.Uint64(b[8:])
	f.term = binary.BigEndian.Uint64(b[16:])
	f.left = binary.BigEndian.Uint32(b[24:])
	return f, int(size), binary.BigEndian.Uint32(b[4:]), nil
}

// decode decodes a value that is one whole frame. The payload is part of b.
func decode(b []byte) (frame, error) {
	f, length, sum, err := header(b)
	if err != nil {
		return f, err
	}
	if len(b) != headerSize+length {
		return f, fmt.Errorf("%w: frame %d has %d bytes; its header says %d", ErrCorrupt, f.seq, len(b), headerSize+length)
	}
	if got := checksum(b); got != sum {
		return f, fmt.Errorf("%w: frame %d has checksum %08x; want %08x", ErrCorrupt, f.seq, got, sum)
	}
	f.payload = b[headerSize:]
	return f, nil
}

// key is the key of a sequence number: keys order as numbers do.
func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
