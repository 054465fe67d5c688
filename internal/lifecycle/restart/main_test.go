package restart_test

import (
	"os"
	"testing"

	"github.com/goscr/goscr/internal/node/cache"
)

func TestMain(m *testing.M) {
	cache.Bug = func(err error) { panic(err) }
	os.Exit(m.Run())
}
