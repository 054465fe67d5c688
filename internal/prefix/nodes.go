package prefix

import (
	"fmt"

	"github.com/goscr/goscr/hash"
)

// nodes.scr says how many nodes the last run has used:
//
//	NODES = n
const (
	nodesFile = "nodes.scr"
	keyNodes  = "NODES"
)

// RecordNodes records how many nodes a run uses.
func RecordNodes(prefix string, nodes int) error {
	return update(prefix, nodesFile, func(h *hash.Hash) error { // another job may begin here, too
		h.UnsetAll()
		h.SetInt(keyNodes, int64(nodes))
		return nil
	})
}

// ReadNodes returns how many nodes the last run has used, as the file at path says.
func ReadNodes(path string) (int, error) {
	h, err := hash.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, ok := h.Int(keyNodes)
	if !ok || n < 1 {
		return 0, fmt.Errorf("%s does not say how many nodes there were", path)
	}
	return int(n), nil
}
