package session

import (
	"os"
	"testing"

	"github.com/goscr/goscr/internal/lifecycle/protect"
	"github.com/goscr/goscr/internal/node/cache"
	"github.com/goscr/goscr/test/faultfs"
	"github.com/goscr/goscr/test/sample"
)

// TestMain lets this binary serve the file systems of its tests. Tests of protections in the background wait at once, and
// leave all of it to the threads, unless takesOver changes that.
func TestMain(m *testing.M) {
	protect.Share = 0
	cache.Bug = func(err error) { go panic(err) } // no call of goscr recovers it
	faultfs.Main()
	os.Exit(sample.Run(m))
}
