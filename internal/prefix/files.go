package prefix

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/node/meta"
	"github.com/goscr/goscr/internal/prefix/rank2file"
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/internal/sys/trust"
	"github.com/goscr/goscr/mpi"
)

// Parts maps ranks to their files.
type Parts map[int][]redundancy.File

// Bytes returns the sum of the files' sizes. Each file counts once.
func (p Parts) Bytes() (sum int64) {
	for _, files := range p {
		for _, f := range redundancy.Counted(files) {
			sum += max(f.Meta.Size(), 0)
		}
	}
	return sum
}

// files returns the number of files.
func (p Parts) files() (sum int) {
	for _, files := range p {
		sum += len(files)
	}
	return sum
}

// clone returns the same files with copies of their descriptions, see CloneFiles.
func (p Parts) clone() Parts {
	own := Parts{}
	for rank, files := range p {
		own[rank] = CloneFiles(files)
	}
	return own
}

// learn records the checksums of copies in the descriptions of the files that have none.
func (p Parts) learn(copies Parts) {
	for rank, files := range p {
		for i, f := range files {
			crc, copied := copies[rank][i].Meta.CRC()
			if _, known := f.Meta.CRC(); !known && copied {
				f.Meta.SetCRC(crc)
			}
		}
	}
}

// discard removes the temporary files of a flush that has failed. It is collective; the error is agreed.
func (p Parts) discard(in *Prefix) error {
	var err error
	for _, files := range p {
		err = errors.Join(err, DiscardAsides(in.Dir, files))
	}
	return mpi.Agree(in.Comm, err)
}

// removeLists removes the lists of the ranks, which the list of all files replaces.
func (p Parts) removeLists(prefix string, id int) {
	for rank := range p {
		_ = RemovePart(prefix, id, rank) // usually there is none
	}
}

// The entry of a rank in the list of files, which is a leaf entry of a rank2file:
//
//	FILE / <path below the prefix> / SIZE, CRC
//	                                 SHARED = r                        several ranks list the file, it counts as rank r's
//	                                 STORED, STORED_SIZE, STORED_CRC   how it is compressed
//	                                 MODE, UID, GID, MTIME, ATIME
//
// SCR 3.1 writes the paths only, and ignores the keys below them.
const (
	keyFile = "FILE"
	keySize = "SIZE"
)

// items returns the entries of the ranks for the list of files. If bare is true, they
// have no modes, owners and times. compressed is the number of files that are stored
// compressed.
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

// filesOf returns the files of a rank's entry, with the paths in the prefix directory that
// place gives for their names. ranks is the size of the job that wrote them.
func filesOf(entry *hash.Hash, prefix string, place func(prefix, name string) string, ranks int) ([]redundancy.File, error) {
	var files []redundancy.File
	for name, fields := range entry.Get(keyFile).All() {
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("the list of files names %w", err)
		}
		md := meta.NewFull(name, ranks, name, filepath.Dir(filepath.Join(prefix, name)))
		meta.FromHash(fields).CopyContent(md)
		meta.FromHash(fields).CopyRecord(md)
		files = append(files, redundancy.File{Path: place(prefix, name), Meta: md, Below: trust.Root(prefix)})
	}
	return files, nil
}
