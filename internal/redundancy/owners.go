package redundancy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// Owners finds files that several ranks have, by their names. It returns a map from the
// name of each file of the caller that a lower rank has too to the lowest rank that has
// it. If no file is on several ranks, the map is nil on all ranks. A digest of each name
// selects the rank that compares it, so that no rank sees all names. It is collective;
// the error is agreed.
func Owners(c mpi.Comm, files []File) (map[string]int, error) {
	n := c.Size()
	if n == 1 {
		return nil, nil
	}
	const keyNames, width = "NAMES", 32
	digests := map[int]*strings.Builder{}
	names := map[string]string{} // digest to name
	for _, f := range files {
		sum := sha256.Sum256([]byte(f.Meta.File()))
		digest := hex.EncodeToString(sum[:width/2])
		comparer := int(sum[width/2])<<16 | int(sum[width/2+1])<<8 | int(sum[width/2+2])
		b := digests[comparer%n]
		if b == nil {
			b = &strings.Builder{}
			digests[comparer%n] = b
		}
		b.WriteString(digest)
		names[digest] = f.Meta.File()
	}
	send := hash.New()
	for comparer, b := range digests {
		send.At(strconv.Itoa(comparer)).SetValue(keyNames, b.String())
	}
	received, failed := hash.Exchange(send, c)
	first := map[string]int{}
	reply := hash.New()
	for _, rank := range received.Ints() {
		text := received.Get(strconv.Itoa(rank)).Text(keyNames)
		for ; len(text) >= width; text = text[width:] {
			digest := text[:width]
			if lower, taken := first[digest]; taken {
				reply.At(strconv.Itoa(rank)).SetInt(digest, int64(lower))
			} else {
				first[digest] = rank
			}
		}
	}
	// Usually no file is shared, and the second exchange is not needed.
	if any, err := mpi.Any(c, failed != nil || reply.Size() > 0); err != nil || !any {
		return nil, err
	}
	received, err := hash.Exchange(reply, c)
	if err := mpi.Agree(c, cmp.Or(failed, err)); err != nil {
		return nil, err
	}
	owners := map[string]int{}
	for _, h := range received.All() {
		for digest := range h.All() {
			lower, _ := h.Int(digest)
			owners[names[digest]] = int(lower)
		}
	}
	return owners, nil
}
