package xor

import (
	"github.com/goscr/goscr/internal/redundancy"
	"github.com/goscr/goscr/meta"
)

// Header is the header of a redundancy file, as SCR and goscr write it for XOR, RS and PARTNER
// (SCR Developer Guide, "XOR"). It describes the set, and the files that the member had.
type Header struct {
	Dataset  int    // number of the dataset
	Name     string // its name
	Ranks    int    // size of the job
	Members  []int  // ranks in the job of the members of the set
	Rank     int    // of the member that the file belongs to
	Files    []meta.File
	Sections []int64 // bytes of each section of redundancy: chunks, or copies of the neighbours' files
	Block    int64   // bytes that have one checksum; 0: goscr has not written the file, and it has none
}

// ReadHeader reads the header of a redundancy file. The error says what is wrong with the
// file if its header cannot be read, contradicts itself, or does not match the size of the file.
func ReadHeader(path string) (*Header, error) {
	r, err := redundancy.Open(path)
	if err != nil {
		return nil, err
	}
	h := &Header{Dataset: r.Dataset.ID(), Name: r.Dataset.Name(), Ranks: r.Ranks, Members: r.Members,
		Rank: r.Current.Rank, Sections: r.Sections(), Block: r.Block}
	for _, m := range r.Current.Files {
		h.Files = append(h.Files, meta.FromHash(m.Hash()))
	}
	return h, r.Close()
}

// Verify reads a redundancy file, and returns an error if a block does not have its checksum.
// Of a file without checksums it checks the header only.
func Verify(path string) error {
	return redundancy.VerifyMade(path, 1<<20, func(*redundancy.Header) error { return nil })
}
