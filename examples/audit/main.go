// Audit walks the caches of nodes: it reads every file that a job has left there, compares
// every checksum, and says for each dataset whether its sets can be rebuilt.
//
//	audit DIR...     control directories, as /dev/shm/$USER/scr.$SLURM_JOB_ID of each node
//
// Exit status 1: a set cannot be rebuilt from what is in these directories.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/goscr/goscr/filemap"
	"github.com/goscr/goscr/meta"
	"github.com/goscr/goscr/reddesc"
	"github.com/goscr/goscr/xor"
)

// member is a place in a set of a dataset.
type member struct{ dataset, set, place int }

func main() {
	whole, sets := map[member]bool{}, map[member]*reddesc.Descriptor{}
	for _, dir := range os.Args[1:] {
		datasets, bad, err := filemap.ReadDir(dir)
		for _, err := range append(bad, err) {
			if err != nil {
				fmt.Println(dir+":", err)
			}
		}
		for _, d := range datasets {
			for _, part := range d.Parts {
				p := part.Protection
				if p == nil {
					continue
				}
				sets[member{d.ID, p.Set, -1}] = p
				if len(part.Files) == 0 {
					continue // another member's descriptor
				}
				err := audit(part)
				whole[member{d.ID, p.Set, p.Member}] = err == nil
				fmt.Printf("dataset %d (%s): rank %d: %d files: %v\n", d.ID, d.Name, part.Rank, len(part.Files), err)
			}
		}
	}
	status := 0
	order := func(a, b member) int { return cmp.Or(cmp.Compare(a.dataset, b.dataset), cmp.Compare(a.set, b.set)) }
	for _, set := range slices.SortedFunc(maps.Keys(sets), order) {
		p := sets[set]
		var lost []int
		for m := range p.Members {
			if !whole[member{set.dataset, set.set, m}] {
				lost = append(lost, m)
			}
		}
		fmt.Printf("dataset %d: set %d, %s: lost members %v of %d: can be rebuilt: %v\n", set.dataset, set.set, p.Scheme, lost, p.Members, p.Tolerates(lost))
		if !p.Tolerates(lost) {
			status = 1
		}
	}
	os.Exit(status)
}

// audit reads all files of a rank.
func audit(part filemap.Part) error {
	err := part.Verify()
	for _, f := range part.Files {
		if f.Type != meta.Full {
			err = errors.Join(err, xor.Verify(f.Path))
		}
	}
	return err
}
