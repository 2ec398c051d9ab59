// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// wire reads the protobuf wire format from a stream. off counts the bytes read
// since the start of the file; a message is delimited by the offset of its end.
type wire struct {
	r   *bufio.Reader
	off int64
	// keep is how many more bytes the decoded model may use.
	keep int64
}

// errTooMuch says that a model needs more memory than Limits.Memory.
var errTooMuch = errors.New("the model keeps more than the memory limit (Limits.Memory)")

// charge accounts for memory that the model keeps.
func (w *wire) charge(bytes int64) error {
	if w.keep -= bytes; w.keep < 0 {
		return errTooMuch
	}
	return nil
}

// longestVarint is the maximum length of a 64-bit varint, in bytes.
const longestVarint = 10

// varint reads one varint that must end before the offset end.
func (w *wire) varint(end int64) (uint64, error) {
	buf, err := w.r.Peek(int(min(longestVarint, max(end-w.off, 0))))
	if len(buf) == 0 {
		return 0, truncated(err)
	}
	v, n := protowire.ConsumeVarint(buf)
	if n < 0 {
		if err != nil || end-w.off < longestVarint {
			return 0, truncated(err)
		}
		return 0, errors.New("a varint of more than 10 bytes")
	}
	w.advance(n)
	return v, nil
}

// advance skips bytes that Peek has returned.
func (w *wire) advance(n int) {
	done, _ := w.r.Discard(n) // cannot fail: the bytes are in the buffer
	w.off += int64(done)
}

func truncated(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// tag reads the number and wire type of the next field.
func (w *wire) tag(end int64) (protowire.Number, protowire.Type, error) {
	v, err := w.varint(end)
	if err != nil {
		return 0, 0, err
	}
	num, typ := protowire.DecodeTag(v)
	if num < protowire.MinValidNumber {
		return 0, 0, fmt.Errorf("field tag %d: field numbers start at 1", v)
	}
	return num, typ, nil
}

// length reads the length of a delimited field and returns the offset of its end.
func (w *wire) length(typ protowire.Type, end int64) (int64, error) {
	if typ != protowire.BytesType {
		return 0, fmt.Errorf("wire type %d where a length-delimited field (2) is due", typ)
	}
	n, err := w.varint(end)
	if err != nil {
		return 0, err
	}
	if left := end - w.off; n > uint64(left) {
		return 0, fmt.Errorf("a field of %d bytes where %d are left: %w", n, left, io.ErrUnexpectedEOF)
	}
	return w.off + int64(n), nil
}

// skipTo skips everything before an offset.
func (w *wire) skipTo(end int64) error {
	for w.off < end {
		n, err := w.r.Discard(int(min(end-w.off, 1<<30)))
		w.off += int64(n)
		if err != nil {
			return truncated(err)
		}
	}
	return nil
}

// skip skips the value of a field.
func (w *wire) skip(typ protowire.Type, end int64) error {
	switch typ {
	case protowire.VarintType:
		_, err := w.varint(end)
		return err
	case protowire.Fixed32Type, protowire.Fixed64Type:
		size := int64(4)
		if typ == protowire.Fixed64Type {
			size = 8
		}
		if end-w.off < size {
			return io.ErrUnexpectedEOF
		}
		return w.skipTo(w.off + size)
	case protowire.BytesType:
		stop, err := w.length(typ, end)
		if err != nil {
			return err
		}
		return w.skipTo(stop)
	}
	return fmt.Errorf("wire type %d: ONNX files have none", typ)
}

// bytes reads a delimited field of at most limit bytes; a longer one is skipped and
// reported by kept == false.
func (w *wire) bytes(typ protowire.Type, end, limit int64) (b []byte, kept bool, err error) {
	stop, err := w.length(typ, end)
	if err != nil {
		return nil, false, err
	}
	if stop-w.off > limit {
		return nil, false, w.skipTo(stop)
	}
	b, err = w.take(stop)
	return b, err == nil, err
}

// take reads and keeps everything before an offset.
func (w *wire) take(stop int64) ([]byte, error) {
	if err := w.charge(stop - w.off); err != nil {
		return nil, err
	}
	b := make([]byte, stop-w.off)
	read, err := io.ReadFull(w.r, b)
	w.off += int64(read)
	if err != nil {
		return nil, truncated(err)
	}
	return b, nil
}

// text reads a string that the model requires.
func (w *wire) text(typ protowire.Type, end int64) (string, error) {
	const longest = 64 << 10
	start := w.off
	b, kept, err := w.bytes(typ, end, longest)
	if err != nil {
		return "", err
	}
	if !kept {
		return "", fmt.Errorf("a name of %d bytes; %d are allowed", w.off-start, longest)
	}
	return string(b), nil
}

// number reads one varint field.
func (w *wire) number(typ protowire.Type, end int64) (int64, error) {
	if typ != protowire.VarintType {
		return 0, fmt.Errorf("wire type %d where a number (0) is due", typ)
	}
	v, err := w.varint(end)
	return int64(v), err
}

// numbers appends the values of a repeated varint field, packed or not. If the list
// would exceed limit, it is dropped: the result is nil and full is true.
func (w *wire) numbers(list []int64, typ protowire.Type, span span) (out []int64, full bool, err error) {
	if typ != protowire.BytesType {
		v, err := w.number(typ, span.end)
		if err != nil || len(list) >= span.limit {
			return nil, err == nil, err
		}
		return append(list, v), false, w.charge(8)
	}
	stop, err := w.length(typ, span.end)
	if err != nil {
		return nil, false, err
	}
	for w.off < stop {
		if len(list) >= span.limit {
			return nil, true, w.skipTo(stop)
		}
		v, err := w.varint(stop)
		if err != nil {
			return nil, false, err
		}
		if err := w.charge(8); err != nil {
			return nil, false, err
		}
		list = append(list, int64(v))
	}
	return list, false, nil
}

// span bounds a repeated field: the end of its message and the number of elements
// to keep.
type span struct {
	end   int64
	limit int
}

// fixed appends the values of a repeated field of floats (size 4) or doubles (size
// 8), packed or not, like numbers.
func (w *wire) fixed(list []float64, typ protowire.Type, size int, span span) (out []float64, full bool, err error) {
	stop := w.off + int64(size)
	switch {
	case typ == protowire.BytesType:
		if stop, err = w.length(typ, span.end); err != nil {
			return nil, false, err
		}
	case typ == protowire.Fixed32Type && size == 4, typ == protowire.Fixed64Type && size == 8:
	default:
		return nil, false, fmt.Errorf("wire type %d where %d-byte floats are due", typ, size)
	}
	if (stop-w.off)%int64(size) != 0 || stop > span.end {
		return nil, false, fmt.Errorf("%d bytes of %d-byte floats: %w", stop-w.off, size, io.ErrUnexpectedEOF)
	}
	for w.off < stop {
		if len(list) >= span.limit {
			return nil, true, w.skipTo(stop)
		}
		buf, err := w.r.Peek(size)
		if err != nil {
			return nil, false, truncated(err)
		}
		list = append(list, floatOf(buf))
		w.advance(size)
		if err := w.charge(8); err != nil {
			return nil, false, err
		}
	}
	return list, false, nil
}

// floatOf reads a little-endian float of 4 or 8 bytes.
func floatOf(b []byte) float64 {
	if len(b) == 4 {
		v, _ := protowire.ConsumeFixed32(b)
		return float64(math.Float32frombits(v))
	}
	v, _ := protowire.ConsumeFixed64(b)
	return math.Float64frombits(v)
}
