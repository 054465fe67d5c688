package restart_test

import (
	"os"
	"testing"

	"github.com/goscr/goscr/internal/node/cache"
)

func TestMain(m *testing.M) {
	cache.Bug = func(err error) { go panic(err) } // no call of goscr recovers it
	os.Exit(m.Run())
}
