package prefix

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goscr/goscr/hash"
)

func TestNodes_Ranks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, Metadata), 0o700))
	must(t, RecordNodes(dir, 3, map[string][]int{"old": {0}}))
	must(t, RecordNodes(dir, 2, map[string][]int{"a": {4, 0, 1, 2}, "b": {3, 5}}))
	nodes, err := ReadNodes(NodesFile(dir))
	if nodes != 2 || err != nil {
		t.Error(nodes, err)
	}
	ranks, err := ReadRanks(RanksFile(dir))
	if !slices.Equal(ranks, []string{"a", "a", "a", "b", "a", "b"}) || err != nil {
		t.Error(ranks, err)
	}
	h, err := hash.ReadFile(RanksFile(dir))
	must(t, err)
	if text := h.Get(keyNode, "a").Text(keyNodeRanks); text != "0-2,4" {
		t.Error(text)
	}
	for text, want := range map[string]string{"0-2": "not all ranks before", "x": "not a list of ranks", "3-1": "not a list", "0-99999999999": "not a list", "": "not a list"} {
		must(t, hash.Update(RanksFile(dir), func(h *hash.Hash) error { h.At(keyNode, "a").SetValue(keyNodeRanks, text); return nil }))
		if ranks, err := ReadRanks(RanksFile(dir)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, ranks, err, want)
		}
	}
	must(t, RecordNodes(dir, 2, nil))
	if ranks, err := ReadRanks(RanksFile(dir)); err == nil {
		t.Error(ranks)
	}
}
