package prefix

import (
	"fmt"
	"path/filepath"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/meta"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
)

// Parts are the files of ranks, by rank.
type Parts map[int][]redundancy.File

// Bytes is how many the files have.
func (p Parts) Bytes() (sum int64) {
	for _, files := range p {
		for _, f := range files {
			sum += max(f.Meta.Size(), 0)
		}
	}
	return sum
}

// clone returns the same files with descriptions of their own.
func (p Parts) clone() Parts {
	own := Parts{}
	for rank, files := range p {
		own[rank] = CloneFiles(files)
	}
	return own
}

// The entry of a rank in the list of files, which is a leaf entry of a rank2file:
//
//	FILE / <path below the prefix> / SIZE, CRC
//	                                 SHARED = r                        counted with rank r; ours, like all below it
//	                                 STORED, STORED_SIZE, STORED_CRC   how it is compressed
//	                                 MODE, UID, GID, MTIME, ATIME
//
// SCR 3.1 writes the paths alone.
const (
	keyFile = "FILE"
	keySize = "SIZE"
)

// items are the entries of the ranks in the list of files; bare, without modes,
// owners and times. compressed is how many files are not stored as they were written.
func (p Parts) items(bare bool) (items []rank2file.Item, compressed int) {
	for rank, files := range p {
		h := hash.New()
		for _, f := range files {
			e := meta.FromHash(h.At(keyFile, f.Meta.File()))
			f.Meta.CopyContent(e)
			if !bare {
				f.Meta.CopyRecord(e)
			}
			if _, other := f.Meta.Stored(); other {
				compressed++
			}
		}
		items = append(items, rank2file.Item{Rank: rank, Entry: h})
	}
	return items, compressed
}

// filesOf makes files of an entry. Their paths are those in the prefix
// directory.
func filesOf(entry *hash.Hash, prefix string, ranks int) ([]redundancy.File, error) {
	var files []redundancy.File
	for name, fields := range entry.Get(keyFile).All() {
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("the list of files names %w", err)
		}
		md := meta.New(name, meta.Full, ranks)
		md.SetOrigin(name, filepath.Dir(filepath.Join(prefix, name)))
		meta.FromHash(fields).CopyContent(md)
		meta.FromHash(fields).CopyRecord(md)
		files = append(files, redundancy.File{Path: filepath.Join(prefix, name), Meta: md})
	}
	return files, nil
}
