package session

import (
	"os"
	"testing"

	"github.com/goscr/goscr/test/faultfs"
)

// TestMain lets this binary serve the file systems of its tests.
func TestMain(m *testing.M) {
	faultfs.Main()
	os.Exit(m.Run())
}
