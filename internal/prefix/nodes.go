package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/goscr/goscr/hash"
	"github.com/goscr/goscr/internal/sys/trust"
)

// nodes.scr has the number of nodes that the latest run uses, or used:
//
//	NODES = n
//
// ranks.scr has the ranks of each of these nodes, for scr_run; so it is there only if the
// job runs under scr_run, and no two nodes have the same name. It is not in SCR 3.1:
//
//	NODE / <name> / RANKS = <ranks>    such as 0-3,8
const (
	nodesFile    = "nodes.scr"
	ranksFile    = "ranks.scr"
	keyNodes     = "NODES"
	keyNode      = "NODE"
	keyNodeRanks = "RANKS"
)

// NodesFile is the path of nodes.scr.
func NodesFile(prefix string) string { return metadataPath(prefix, nodesFile) }

// RanksFile is the path of ranks.scr.
func RanksFile(prefix string) string { return metadataPath(prefix, ranksFile) }

// RecordNodes records how many nodes a run uses, and the ranks on each of them, by the
// name of the node; nil if they are not to be recorded. It writes nodes.scr last: that
// tells scr_run that both are there.
func RecordNodes(prefix string, nodes int, ranks map[string][]int) error {
	if err := recordRanks(prefix, ranks); err != nil {
		return err
	}
	return update(prefix, nodesFile, func(h *hash.Hash) error { // locks: another job may write it at the same time
		h.UnsetAll()
		h.SetInt(keyNodes, int64(nodes))
		return nil
	})
}

func recordRanks(prefix string, ranks map[string][]int) error {
	if ranks == nil {
		if err := trust.Root(prefix).Remove(RanksFile(prefix)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return update(prefix, ranksFile, func(h *hash.Hash) error {
		h.UnsetAll()
		for name, list := range ranks {
			h.At(keyNode, name).SetValue(keyNodeRanks, joinRanks(list))
		}
		return nil
	})
}

// ErrNoNodes is the error of a file that does not have the number.
var ErrNoNodes = errors.New("it does not have the number of nodes")

// ReadNodes returns how many nodes the last run has used. path is that of a nodes.scr.
func ReadNodes(path string) (int, error) {
	h, err := hash.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, ok := h.Int(keyNodes)
	if !ok || n < 1 {
		return 0, fmt.Errorf("%s: %w", path, ErrNoNodes)
	}
	return int(n), nil
}

// ReadRanks returns the name of the node of each rank of the last run. It is an error if
// that of any rank is not recorded. path is that of a ranks.scr.
func ReadRanks(path string) ([]string, error) {
	h, err := hash.ReadFile(path)
	if err != nil {
		return nil, err
	}
	of := map[int]string{}
	for name, e := range h.Get(keyNode).All() {
		list, err := splitRanks(e.Text(keyNodeRanks))
		if err != nil {
			return nil, fmt.Errorf("%s: ranks of node %s: %w", path, name, err)
		}
		for _, r := range list {
			of[r] = name
		}
	}
	nodes := make([]string, len(of))
	for r, name := range of {
		if r >= len(of) {
			return nil, fmt.Errorf("%s: it has rank %d and not all ranks before", path, r)
		}
		nodes[r] = name
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%s: it does not have the nodes of the ranks", path)
	}
	return nodes, nil
}

// joinRanks writes a list of ranks as ranges.
func joinRanks(ranks []int) string {
	ranks = slices.Sorted(slices.Values(ranks))
	var parts []string
	for i := 0; i < len(ranks); {
		j := i + 1
		for j < len(ranks) && ranks[j] == ranks[j-1]+1 {
			j++
		}
		text := strconv.Itoa(ranks[i])
		if j > i+1 {
			text += "-" + strconv.Itoa(ranks[j-1])
		}
		parts = append(parts, text)
		i = j
	}
	return strings.Join(parts, ",")
}

// mostRanks is more than any job has. A file with more is damaged.
const mostRanks = 1 << 24

// splitRanks reads what joinRanks has written.
func splitRanks(text string) (ranks []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil || first < 0 || last < first || last >= mostRanks {
			return nil, fmt.Errorf("%q is not a list of ranks", text)
		}
		for r := first; r <= last; r++ {
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}
