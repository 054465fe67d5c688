package redundancy

import (
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// Names returns the paths of files relative to the directory of the dataset.
func Names(files []File) []string {
	var names []string
	for _, f := range files {
		names = append(names, f.Meta.File())
	}
	return names
}

// Counted returns those of a rank's files that are counted with this rank: of a file that
// several ranks share only one has to read, copy or delete the contents.
func Counted(files []File) []File {
	var own []File
	for _, f := range files {
		if !f.Meta.Shared() {
			own = append(own, f)
		}
	}
	return own
}

// Owners finds names that several ranks have. It returns a map from each name of the
// caller that a lower rank has too to the lowest rank that has it. If no name is on
// several ranks, the map is nil on all ranks. A digest of each name
// selects the rank that compares it, so that no rank sees all names. It is collective;
// the error is agreed.
func Owners(c mpi.Comm, names []string) (map[string]int, error) {
	n := c.Size()
	if n == 1 {
		return nil, nil
	}
	const keyNames = "NAMES"
	texts := map[int]*strings.Builder{}
	named := map[string]string{} // by digest
	for _, name := range names {
		text, comparer := digest(name, n)
		if texts[comparer] == nil {
			texts[comparer] = &strings.Builder{}
		}
		texts[comparer].WriteString(text)
		named[text] = name
	}
	send := hash.New()
	for comparer, b := range texts {
		send.At(strconv.Itoa(comparer)).SetValue(keyNames, b.String())
	}
	received, err := hash.Exchange(send, c)
	if err != nil {
		return nil, err
	}
	first := map[string]int{}
	reply := hash.New()
	for _, rank := range received.Ints() {
		for _, d := range digests(received.Get(strconv.Itoa(rank)).Text(keyNames)) {
			if lower, taken := first[d]; taken {
				reply.At(strconv.Itoa(rank)).SetInt(d, int64(lower))
			} else {
				first[d] = rank
			}
		}
	}
	// Usually no file is shared, and the second exchange is not needed.
	if !mpi.Any(c, reply.Size() > 0) {
		return nil, nil
	}
	if received, err = hash.Exchange(reply, c); err != nil {
		return nil, err
	}
	owners := map[string]int{}
	for _, h := range received.All() {
		for d := range h.All() {
			lower, _ := h.Int(d)
			owners[named[d]] = int(lower)
		}
	}
	return owners, nil
}
