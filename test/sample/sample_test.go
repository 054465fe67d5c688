package sample

import (
	"slices"
	"testing"
)

func cases(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func TestOf_Size(t *testing.T) {
	for _, x := range []struct {
		size string
		want int
	}{{"all", 100}, {"campaign", 100}, {"", map[bool]int{true: 3, false: 20}[testing.Short()]}} {
		t.Setenv("TEST_SIZE", x.size)
		if got := len(Of(t, cases(100), 3, 20)); got != x.want {
			t.Errorf("TEST_SIZE=%q: %d cases, want %d", x.size, got, x.want)
		}
		if got := Of(t, cases(2), 3, 20); !slices.Equal(got, cases(2)) {
			t.Errorf("TEST_SIZE=%q: %v of two cases", x.size, got)
		}
	}
}

// The same seed draws the same cases, and a few seeds draw every case.
func TestOf_Seeds(t *testing.T) {
	t.Setenv("TEST_SIZE", "")
	seen := map[int]bool{}
	for seed := range 60 {
		t.Setenv("TEST_SEED", string(rune('0'+seed/10))+string(rune('0'+seed%10)))
		once, again := Of(t, cases(10), 2, 2), Of(t, cases(10), 2, 2)
		if !slices.Equal(once, again) || !slices.IsSorted(once) {
			t.Fatalf("seed %d draws %v, and then %v", seed, once, again)
		}
		for _, c := range once {
			seen[c] = true
		}
	}
	if len(seen) != 10 {
		t.Errorf("60 seeds draw only %d of 10 cases", len(seen))
	}
}

func TestShorten(t *testing.T) {
	list := `# test log
getenv HOME
open /src/goscr/cmd/testdata/a
open /tmp/testbed/b
stat /src/goscr
stat /src/goscr-other
open testdata/a
open ../c
chdir /tmp/testbed
getenv HOME
open testdata/a
open ../../src/goscr/d
chdir /src/goscr/cmd
open testdata/e
`
	want := `# test log
getenv HOME
open /src/goscr/cmd/testdata/a
stat /src/goscr
open /src/goscr/c
open /src/goscr/d
open /src/goscr/cmd/testdata/e
`
	if got := string(shorten([]byte(list), "/src/goscr", "/src/goscr/cmd")); got != want {
		t.Errorf("shortened to:\n%s", got)
	}
}
