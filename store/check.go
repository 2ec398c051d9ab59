// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// The file format of bbolt (version 2), as far as it is checked here. Numbers
// are in the order of the machine that wrote them.
//
//	page     id 8, flags 2, count 2, overflow 4; then its elements
//	leaf     per element: flags 4, position 4, key size 4, value size 4
//	branch   per element: position 4, key size 4, page 8
//	bucket   (a leaf value with flag 1) root page 8, sequence 8; root 0: a page follows inline
//	meta     magic 4, version 4, page size 4, flags 4, root bucket 16, freelist 8, pages 8, txid 8, FNV-1a 8
const (
	pageHeader   = 16
	elementSize  = 16
	metaSize     = 64
	bucketHeader = 16

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10

	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	noFreelist   = ^uint64(0)
	deepestTree  = 64
	smallestPage = 1 << 10
	largestPage  = 1 << 16
)

var native = binary.NativeEndian

// boltMeta is what a meta page says.
type boltMeta struct {
	pageSize              int64
	root, freelist, pages uint64
	txid                  uint64
}

// checker walks the pages of a bbolt file with plain reads.
type checker struct {
	file io.ReaderAt
	meta boltMeta
	seen []bool // by page
}

// checkFile checks that bbolt can use the pages of a file without leaving its
// bounds. Both meta pages must be valid: a file with only one has lost its last
// transaction, or never finished it, and only the frames can tell which.
func checkFile(file io.ReaderAt, size int64) error {
	first, err := readMeta(file, 0)
	if err != nil {
		return err
	}
	second, err := readMeta(file, first.pageSize)
	if err != nil {
		return err
	}
	m := first
	if second.txid > first.txid {
		m = second
	}
	if first.pageSize != second.pageSize {
		return fmt.Errorf("%w: meta pages disagree on the size of a page: %d and %d", ErrCorrupt, first.pageSize, second.pageSize)
	}
	if m.pages < 4 || m.pages > uint64(size/m.pageSize) {
		return fmt.Errorf("%w: file of %d bytes has room for %d pages of %d; its meta page says %d", ErrCorrupt, size, size/m.pageSize, m.pageSize, m.pages)
	}
	c := &checker{file: file, meta: m, seen: make([]bool, m.pages)}
	c.seen[0], c.seen[1] = true, true
	if err := c.tree(m.root, span{}, 0); err != nil {
		return err
	}
	return c.freelist(m.freelist)
}

func readMeta(file io.ReaderAt, at int64) (boltMeta, error) {
	b := make([]byte, pageHeader+metaSize)
	if _, err := file.ReadAt(b, at); err != nil {
		return boltMeta{}, fmt.Errorf("%w: read meta page at %d: %w", ErrCorrupt, at, err)
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	sum.Write(b[:56])
	m := boltMeta{
		pageSize: int64(native.Uint32(b[8:])),
		root:     native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]),
		pages:    native.Uint64(b[40:]),
		txid:     native.Uint64(b[48:]),
	}
	switch {
	case native.Uint32(b) != boltMagic || native.Uint32(b[4:]) != boltVersion:
		return m, fmt.Errorf("%w: meta page at %d has magic %x, version %d; want %x, %d",
			ErrCorrupt, at, native.Uint32(b), native.Uint32(b[4:]), uint32(boltMagic), boltVersion)
	case native.Uint64(b[56:]) != sum.Sum64():
		return m, fmt.Errorf("%w: meta page at %d has a bad checksum", ErrCorrupt, at)
	case m.pageSize < smallestPage || m.pageSize > largestPage || m.pageSize&(m.pageSize-1) != 0:
		return m, fmt.Errorf("%w: meta page at %d says a page has %d bytes", ErrCorrupt, at, m.pageSize)
	}
	return m, nil
}

// page reads a page with its overflow and marks its pages as used.
func (c *checker) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.meta.pages {
		return nil, fmt.Errorf("%w: page %d of %d", ErrCorrupt, id, c.meta.pages)
	}
	at := int64(id) * c.meta.pageSize
	head := make([]byte, c.meta.pageSize)
	if _, err := c.file.ReadAt(head, at); err != nil {
		return nil, fmt.Errorf("%w: read page %d: %w", ErrCorrupt, id, err)
	}
	if got := native.Uint64(head); got != id {
		return nil, fmt.Errorf("%w: page %d says it is page %d", ErrCorrupt, id, got)
	}
	more := uint64(native.Uint32(head[12:]))
	if more >= c.meta.pages-id {
		return nil, fmt.Errorf("%w: page %d has %d pages more; the file has %d", ErrCorrupt, id, more, c.meta.pages)
	}
	for p := id; p <= id+more; p++ {
		if c.seen[p] {
			return nil, fmt.Errorf("%w: page %d is used twice", ErrCorrupt, p)
		}
		c.seen[p] = true
	}
	if more == 0 {
		return head, nil
	}
	whole := make([]byte, int64(more+1)*c.meta.pageSize)
	if _, err := c.file.ReadAt(whole, at); err != nil {
		return nil, fmt.Errorf("%w: read page %d: %w", ErrCorrupt, id, err)
	}
	return whole, nil
}

// span bounds the keys of a page: from low on, and below high if high is set.
type span struct{ low, high []byte }

func (c *checker) tree(id uint64, keys span, depth int) error {
	if depth > deepestTree {
		return fmt.Errorf("%w: page %d lies %d levels deep", ErrCorrupt, id, depth)
	}
	b, err := c.page(id)
	if err != nil {
		return err
	}
	if native.Uint16(b[8:]) == flagBranch {
		return c.branch(id, b, keys, depth)
	}
	return c.leaf(id, b, keys, depth)
}

func (c *checker) branch(id uint64, b []byte, keys span, depth int) error {
	count := int(native.Uint16(b[10:]))
	if count == 0 || pageHeader+count*elementSize > len(b) {
		return fmt.Errorf("%w: branch page %d has %d elements", ErrCorrupt, id, count)
	}
	names, children := make([][]byte, count), make([]uint64, count)
	for i := range count {
		at := pageHeader + i*elementSize
		from := at + int(native.Uint32(b[at:]))
		to := from + int(native.Uint32(b[at+4:]))
		if from < pageHeader+count*elementSize || to > len(b) {
			return fmt.Errorf("%w: key %d of branch page %d lies outside of it", ErrCorrupt, i, id)
		}
		names[i], children[i] = b[from:to], native.Uint64(b[at+8:])
	}
	if err := inOrder(id, names, keys); err != nil {
		return err
	}
	for i, child := range children {
		below := span{low: names[i], high: keys.high}
		if i+1 < count {
			below.high = names[i+1]
		}
		if err := c.tree(child, below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks a leaf page, or one that is stored inline in a value.
func (c *checker) leaf(id uint64, b []byte, keys span, depth int) error {
	if len(b) < pageHeader || native.Uint16(b[8:]) != flagLeaf {
		return fmt.Errorf("%w: page %d is neither branch nor leaf", ErrCorrupt, id)
	}
	count := int(native.Uint16(b[10:]))
	if pageHeader+count*elementSize > len(b) {
		return fmt.Errorf("%w: leaf page %d has %d elements", ErrCorrupt, id, count)
	}
	names := make([][]byte, count)
	for i := range count {
		at := pageHeader + i*elementSize
		from := at + int(native.Uint32(b[at+4:]))
		value := from + int(native.Uint32(b[at+8:]))
		end := value + int(native.Uint32(b[at+12:]))
		if from < pageHeader+count*elementSize || end > len(b) {
			return fmt.Errorf("%w: element %d of leaf page %d lies outside of it", ErrCorrupt, i, id)
		}
		names[i] = b[from:value]
		if native.Uint32(b[at:])&1 == 0 {
			continue
		}
		if err := c.bucket(id, b[value:end], depth); err != nil {
			return err
		}
	}
	return inOrder(id, names, keys)
}

func (c *checker) bucket(id uint64, value []byte, depth int) error {
	if len(value) < bucketHeader || depth >= deepestTree {
		return fmt.Errorf("%w: page %d holds a bucket of %d bytes at depth %d", ErrCorrupt, id, len(value), depth)
	}
	if root := native.Uint64(value); root != 0 {
		return c.tree(root, span{}, depth+1)
	}
	return c.leaf(id, value[bucketHeader:], span{}, depth+1)
}

func inOrder(id uint64, names [][]byte, keys span) error {
	for i, name := range names {
		low := keys.low
		if i > 0 {
			low = names[i-1]
		}
		order := bytes.Compare(low, name)
		if i > 0 && order >= 0 || order > 0 || keys.high != nil && bytes.Compare(name, keys.high) >= 0 {
			return fmt.Errorf("%w: key %d of page %d is out of order", ErrCorrupt, i, id)
		}
	}
	return nil
}

// freelist checks that no page is both free and used.
func (c *checker) freelist(id uint64) error {
	if id == noFreelist {
		return fmt.Errorf("%w: file has no list of free pages", ErrCorrupt)
	}
	b, err := c.page(id)
	if err != nil {
		return err
	}
	if native.Uint16(b[8:]) != flagFreelist {
		return fmt.Errorf("%w: page %d is not the list of free pages", ErrCorrupt, id)
	}
	count, ids := uint64(native.Uint16(b[10:])), b[pageHeader:]
	if count == 0xFFFF { // too many for the header: the first entry counts
		count, ids = native.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return fmt.Errorf("%w: list of free pages has %d entries in %d bytes", ErrCorrupt, count, len(b))
	}
	for i := range count {
		free := native.Uint64(ids[i*8:])
		if free < 2 || free >= c.meta.pages || c.seen[free] {
			return fmt.Errorf("%w: page %d of %d is free and used, or free twice", ErrCorrupt, free, c.meta.pages)
		}
		c.seen[free] = true
	}
	return nil
}
