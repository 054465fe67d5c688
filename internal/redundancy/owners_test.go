package redundancy

import (
	"fmt"
	"sync"
	"testing"

	"github.com/goscr/goscr/mpi"
	"github.com/goscr/goscr/mpi/local"
)

func TestOwners_LowestRankThatHasIt(t *testing.T) {
	const n = 9
	var mu sync.Mutex
	got := map[string]int{}
	_, err := local.Run(n, local.Options{}, func(c mpi.Comm) error {
		owners, err := Owners(c, []string{"all", fmt.Sprint("pair_", c.Rank()/2), fmt.Sprint("own_", c.Rank())})
		mu.Lock()
		defer mu.Unlock()
		for name, rank := range owners {
			got[fmt.Sprintf("%s of %d", name, c.Rank())] = rank
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for rank := 1; rank < n; rank++ {
		want[fmt.Sprint("all of ", rank)] = 0
		if rank%2 == 1 {
			want[fmt.Sprintf("pair_%d of %d", rank/2, rank)] = rank - 1
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
