package schemetest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/goscr/goscr/internal/redundancy"
)

// Format tests that the redundancy files of n members are those that earlier
// versions have made of the same files, byte for byte: they have this SHA-256,
// one after the other.
func Format(t *testing.T, scheme redundancy.Scheme, n int, want string) {
	t.Helper()
	c := newCluster(t, scheme, n, sizes["primes"], 6)
	for _, files := range c.files {
		for _, f := range files { // whoever runs the test
			f.Meta.Hash().SetInt("UID", 1000)
			f.Meta.Hash().SetInt("GID", 100)
		}
	}
	c.encode()
	sum := sha256.New()
	for _, files := range c.files {
		_, made := redundancy.Split(files)
		data, err := os.ReadFile(made[0].Path)
		must(t, err)
		sum.Write(data)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("%s in a set of %d writes other bytes: SHA-256 %s", scheme.Name(), n, got)
	}
}
