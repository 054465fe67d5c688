package prefix

import (
	"fmt"

	"github.com/goscr/goscr/hash"
)

// nodes.scr has the number of nodes that the latest run uses, or used:
//
//	NODES = n
const (
	nodesFile = "nodes.scr"
	keyNodes  = "NODES"
)

// NodesFile is the path of nodes.scr.
func NodesFile(prefix string) string { return metadataPath(prefix, nodesFile) }

// RecordNodes records how many nodes a run uses.
func RecordNodes(prefix string, nodes int) error {
	return update(prefix, nodesFile, func(h *hash.Hash) error { // locks: another job may write it at the same time
		h.UnsetAll()
		h.SetInt(keyNodes, int64(nodes))
		return nil
	})
}

// ReadNodes returns how many nodes the last run has used. path is that of a nodes.scr.
func ReadNodes(path string) (int, error) {
	h, err := hash.ReadWithLock(path)
	if err != nil {
		return 0, err
	}
	n, ok := h.Int(keyNodes)
	if !ok || n < 1 {
		return 0, fmt.Errorf("%s does not have the number of nodes", path)
	}
	return int(n), nil
}
