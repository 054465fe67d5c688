package redundancy

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/mpi"
)

// digestWidth is the length of a digest of a name in a message.
const digestWidth = 32

// digest returns the digest of a name, and which of n ranks compares it: so no rank sees
// all names.
func digest(name string, n int) (text string, comparer int) {
	sum := sha256.Sum256([]byte(name))
	const half = digestWidth / 2
	return hex.EncodeToString(sum[:half]), (int(sum[half])<<16 | int(sum[half+1])<<8 | int(sum[half+2])) % n
}

// digests are the digests in a message.
func digests(text string) (list []string) {
	for ; len(text) >= digestWidth; text = text[digestWidth:] {
		list = append(list, text[:digestWidth])
	}
	return list
}

// Common compares two lists of names that are spread over the ranks. It returns which of
// the caller's names of the first list any rank has on the second, and the other way
// around. It is collective; the error is agreed.
func Common(c mpi.Comm, first, second []string) (inSecond, inFirst map[string]bool, err error) {
	const keyFirst, keySecond = "FIRST", "SECOND"
	keys := []string{keyFirst, keySecond}
	lists := map[string]map[string]string{keyFirst: {}, keySecond: {}} // digest to name
	texts := map[int]map[string]*strings.Builder{}
	for i, list := range [][]string{first, second} {
		for _, name := range list {
			text, comparer := digest(name, c.Size())
			lists[keys[i]][text] = name
			if texts[comparer] == nil {
				texts[comparer] = map[string]*strings.Builder{keyFirst: {}, keySecond: {}}
			}
			texts[comparer][keys[i]].WriteString(text)
		}
	}
	send := hash.New()
	for comparer, of := range texts {
		for key, text := range of {
			send.At(strconv.Itoa(comparer)).SetValue(key, text.String())
		}
	}
	received, err := hash.Exchange(send, c)
	if err != nil {
		return nil, nil, err
	}
	on := map[string]map[string]bool{keyFirst: {}, keySecond: {}}
	for _, h := range received.All() {
		for _, key := range keys {
			for _, d := range digests(h.Text(key)) {
				on[key][d] = true
			}
		}
	}
	reply := hash.New()
	for rank, h := range received.All() {
		for i, key := range keys {
			for _, d := range digests(h.Text(key)) {
				if on[keys[1-i]][d] {
					reply.At(rank, key, d)
				}
			}
		}
	}
	// As a rule there is none.
	if !mpi.Any(c, reply.Size() > 0) {
		return nil, nil, nil
	}
	if received, err = hash.Exchange(reply, c); err != nil {
		return nil, nil, err
	}
	found := map[string]map[string]bool{keyFirst: {}, keySecond: {}}
	for _, h := range received.All() {
		for _, key := range keys {
			for d := range h.Get(key).All() {
				found[key][lists[key][d]] = true
			}
		}
	}
	return found[keyFirst], found[keySecond], nil
}
